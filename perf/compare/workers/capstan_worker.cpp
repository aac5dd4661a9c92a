// SPDX-License-Identifier: Apache-2.0

// Capstan in a comparison: the public API and default settings.

#include <algorithm>

#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {
namespace {

class Capstan : public Library {
 public:
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }

  Call prepare(const Cell& cell, float* input, float* output) override {
    request_ = request_of(cell, rank(), size(), reinterpret_cast<std::byte*>(input),
                          reinterpret_cast<std::byte*>(output));
    return [this, request = request_] { world_.run(request); };
  }
  std::shared_ptr<float> allocate(std::size_t count, float value, bool own) override {
    if (!own) return Library::allocate(count, value, false);
    const auto memory = std::make_shared<SharedBuffer<float>>(world_.allocate<float>(count));
    std::fill_n(memory->data(), count, value);
    return {memory, memory->data()};
  }
  void barrier() override { world_.barrier(); }
  void settle() override {
    while (!world_.is_settled(request_)) world_.run(request_);
  }
  std::string explanation() const override { return world_.explain(request_); }

 private:
  Communicator world_ = Communicator::from_environment();
  Request request_;
};

}  // namespace
}  // namespace capstan::perf

int main() {
  return capstan::perf::run_worker(
      [](capstan::Store&) { return std::make_unique<capstan::perf::Capstan>(); });
}
