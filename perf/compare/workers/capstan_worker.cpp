// Capstan in a comparison: the public API with plain buffers and default settings.

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
