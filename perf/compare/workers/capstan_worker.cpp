// SPDX-License-Identifier: Apache-2.0

// Capstan in a comparison: the public API and default settings.

#include <algorithm>

#include "perf/compare/workers/worker.hpp"
#include "perf/measure/message_ends.hpp"

namespace capstan::perf {
namespace {

class Capstan : public Library {
 public:
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }

  Call prepare(const Cell& cell, float* input, float* output) override {
    request_ = request_with(cell, input, output);
    return [this, request = request_] { world_.run(request); };
  }
  Call prepare_messages(const MessageRun& run) override {
    return [run, ends = MessageEnds{world_}]() mutable { run_messages(ends, run); };
  }
  Call prepare_started(const Cell& cell, const std::vector<Buffers>& buffers) override {
    std::vector<Request> requests;
    for (const auto& [input, output] : buffers)
      requests.push_back(request_with(cell, input, output));
    return [this, requests, works = std::vector<Work>{}]() mutable {
      for (const Request& request : requests) works.push_back(world_.start(request));
      for (const Work& work : works) work.wait();
      works.clear();
    };
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
  Request request_with(const Cell& cell, float* input, float* output) const {
    return request_of(cell, rank(), size(), reinterpret_cast<std::byte*>(input),
                      reinterpret_cast<std::byte*>(output));
  }

  Communicator world_ = Communicator::from_environment();
  Request request_;
};

}  // namespace
}  // namespace capstan::perf

int main() {
  return capstan::perf::run_worker(
      [](capstan::Store&) { return std::make_unique<capstan::perf::Capstan>(); });
}
