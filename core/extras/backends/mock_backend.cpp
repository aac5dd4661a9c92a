// SPDX-License-Identifier: Apache-2.0

// A backend for tests: its ranks live in one process, also in one thread.

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "core/extras/backends/backend_call.hpp"
#include "core/extras/backends/factories.hpp"
#include "core/extras/backends/mock_operations.hpp"

namespace capstan {
namespace {

class MockBackend : public Backend, public AsynchronousPart, public PointToPointPart {
 public:
  MockBackend(std::shared_ptr<MockWorld> world, int rank)
      : rank_(rank),
        size_(world->options().size),
        world_(std::move(world)),
        driver_(std::make_shared<PolledDriver>(PolledDriver::Options{
            fmt::format("rank {}: mock", rank), world_->options().timeout, {}})) {}
  ~MockBackend() override { MockBackend::close(); }

  std::string_view name() const override { return "mock"; }
  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  bool is_initialized() const override { return world_ != nullptr; }
  Capabilities capabilities() const override {
    return {.asynchronous = true,
            .point_to_point = true,
            .probe = true,
            .any_source = true,
            .tags = true,
            .deadline = true,
            .abort = true,
            .user_operations = true,
            .subgroups = true};
  }
  void close() override {
    if (!world_) return;
    driver_->close("the backend was closed");
    world_->leave(rank_);
    world_.reset();
  }
  void abort(const std::string& reason) override {
    if (world_) world_->abort(reason);
  }
  AsynchronousPart* asynchronous() override { return this; }
  PointToPointPart* point_to_point() override { return this; }

  using Backend::probe;
  using Backend::receive;
  using Backend::run;
  using Backend::start;
  Work start(const Request& request, Finish finish) override {
    if (has_counts(request.collective))
      refuse(std::string{name_of(request.collective)}, "use the backend capstan");
    return driver_->start(
        describe(request),
        Operation::Output{request.type, request.output, request.output_count.value()},
        world_->call(rank_, request), std::move(finish));
  }
  Work start(const Message& message, Finish finish) override {
    if (message.sends) world_->send(rank_, message);
    return driver_->start(describe(message), {}, operation_of(message), std::move(finish));
  }
  MessageInfo run(const Message& message) override {
    const Work work = start(message, {});
    work.wait();
    return work.message().value_or(MessageInfo{rank_, message.tag, {}});
  }
  std::optional<MessageInfo> probe(int source, int tag) override {
    return world_->probe(rank_, source, tag);
  }
  Tensor receive(DataType type, int source, int tag) override {
    const Deadline deadline = Deadline::in(world_->options().timeout);
    MessageInfo info{};
    for (;;) {
      if (auto data = world_->take(rank_, type, source, tag, info)) return std::move(*data);
      if (deadline.expired())
        throw TimedOut(
            fmt::format("rank {}: mock: receive from {} with tag {}: no such message "
                        "within {}",
                        rank_, source, tag, deadline.budget()));
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }

 protected:
  std::unique_ptr<Backend> make_subgroup(std::span<const int> ranks) override {
    const std::vector<int> list{ranks.begin(), ranks.end()};
    const std::string id = fmt::format("{}/{}/{}", world_->id(), fmt::join(list, ","),
                                       world_->next_group(rank_, list));
    const auto place = std::ranges::find(list, rank_);
    if (place == list.end()) return nullptr;
    MockWorld::Options options = world_->options();
    options.size = static_cast<int>(list.size());
    const int rank = static_cast<int>(place - list.begin());
    return std::make_unique<MockBackend>(MockWorld::join(id, rank, options), rank);
  }

 private:
  /// A send, which is complete from its start, as the message has been copied.
  class Sent : public NativeOperation {
   public:
    bool test() override { return true; }
  };
  std::unique_ptr<NativeOperation> operation_of(const Message& message) {
    if (message.sends) return std::make_unique<Sent>();
    return std::make_unique<MockWorld::Mailed>(world_, rank_, message);
  }

  const int rank_, size_;
  std::shared_ptr<MockWorld> world_;
  std::shared_ptr<PolledDriver> driver_;
};

class MockFactory : public BackendFactory {
 public:
  std::string name() const override { return "mock"; }
  int priority() const override { return 0; }
  Availability look() const override { return {}; }
  std::unique_ptr<Backend> create(const BackendConfig& config) const override {
    require_known_options("mock", config, {"delay"});
    const Seat seat = seat_of("mock", config);
    const auto delay = config.options.find("delay");
    const auto time = delay == config.options.end()
                          ? std::chrono::milliseconds{0}
                          : BackendConfig::from_keys({{"timeout", delay->second}}).timeout;
    return std::make_unique<MockBackend>(
        MockWorld::join(config.unique_id, seat.rank, {seat.world_size, config.timeout, time}),
        seat.rank);
  }
};

}  // namespace

std::shared_ptr<const BackendFactory> mock_factory() {
  return std::make_shared<MockFactory>();
}

}  // namespace capstan
