// SPDX-License-Identifier: Apache-2.0
#include "capstan/backends/communicator_backend.hpp"

#include <fmt/format.h>

#include <optional>
#include <thread>

#include "core/extras/backends/backend_call.hpp"
#include "core/extras/backends/factories.hpp"

namespace capstan {
namespace {

/// Drives an operation that ends when another one has ended and its result has been unpacked.
class FollowingDriver : public Driver {
 public:
  explicit FollowingDriver(Work first) : first_(std::move(first)) {}
  bool drive(const std::function<bool()>& done, Deadline deadline) override {
    const auto moved = [&] { return done() || first_.has_ended(); };
    if (!done()) first_.state()->driver()->drive(moved, deadline);
    while (!done() && !deadline.expired()) std::this_thread::yield();  // its callback is running
    return done();
  }
  void advance() override { (void)first_.is_completed(); }
  /// Refused: the memory into which the call packs is in use.
  bool cancel(Operation&) override { return false; }
  void ensure_progress() override { first_.ensure_progress(); }
  void require_own_process() const override {}

 private:
  Work first_;
};

Work followed(const Work& first, std::string text, AsynchronousPart::Finish finish) {
  auto operation = std::make_shared<Operation>(std::make_shared<FollowingDriver>(first),
                                               std::move(text), std::nullopt);
  first.on_complete([operation, finish = std::move(finish)](const Work& ended) {
    try {
      ended.wait();
      finish();
      operation->complete(ended.message());
    } catch (...) {
      operation->fail(std::current_exception());
    }
  });
  return Work{operation};
}

class CommunicatorBackend : public Backend, public AsynchronousPart, public PointToPointPart {
 public:
  explicit CommunicatorBackend(Communicator communicator)
      : rank_(communicator.rank()),
        size_(communicator.size()),
        communicator_(std::move(communicator)) {}
  ~CommunicatorBackend() override { CommunicatorBackend::close(); }

  std::string_view name() const override { return "capstan"; }
  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  bool is_initialized() const override { return communicator_.has_value(); }
  Capabilities capabilities() const override {
    return {.asynchronous = true,
            .point_to_point = true,
            .probe = true,
            .any_source = true,
            .tags = true,
            .deadline = true,
            .abort = true,
            .user_operations = true,
            .device_memory = true,
            .subgroups = true};
  }
  void close() override { communicator_.reset(); }
  void abort(const std::string& reason) override {
    if (communicator_) communicator_->abort(reason);
  }
  AsynchronousPart* asynchronous() override { return this; }
  PointToPointPart* point_to_point() override { return this; }

  using Backend::probe;
  using Backend::receive;
  using Backend::run;
  using Backend::start;
  Work start(const Request& request, Finish finish) override {
    return finished(communicator_->start(request), describe(request), std::move(finish));
  }
  Work start(const Message& message, Finish finish) override {
    return finished(communicator_->start_transfer(message), describe(message), std::move(finish));
  }
  MessageInfo run(const Message& message) override {
    const Work work = communicator_->start_transfer(message);
    work.wait();
    return work.message().value_or(MessageInfo{rank_, message.tag, {}});
  }
  std::optional<MessageInfo> probe(int source, int tag) override {
    return communicator_->try_probe(source, tag);
  }
  Tensor receive(DataType type, int source, int tag) override {
    const MessageInfo info = communicator_->probe(source, tag);
    const std::uint64_t size = size_of(type).value();
    if (info.size.value() % size != 0)
      throw Mismatch(fmt::format("rank {}: capstan: receive: {} bytes are no whole number of {}",
                                 rank_, info.size.value(), name_of(type)));
    Tensor received{type, {static_cast<std::int64_t>(info.size.value() / size)}};
    run(Message{false, info.source, info.tag, type, received.data(), received.count()});
    return received;
  }

 protected:
  void run_checked(const Request& request) override { communicator_->run(request); }
  std::unique_ptr<Backend> make_subgroup(std::span<const int> ranks) override {
    auto group = communicator_->subgroup(ranks);
    return group ? make_backend(std::move(*group)) : nullptr;
  }

 private:
  static Work finished(const Work& work, std::string text, Finish finish) {
    return finish ? followed(work, std::move(text), std::move(finish)) : work;
  }

  const int rank_, size_;
  std::optional<Communicator> communicator_;
};

/// Throws InvalidArgument if the world is another one than the configuration says.
void require_same(std::string_view key, std::optional<int> asked, int got) {
  if (asked && *asked != got)
    throw InvalidArgument(
        fmt::format("capstan: {}={}, but the launcher says {}: leave it out, or pass a unique_id",
                    key, *asked, got));
}

class CommunicatorFactory : public BackendFactory {
 public:
  std::string name() const override { return "capstan"; }
  int priority() const override { return 100; }
  Availability look() const override { return {}; }
  std::unique_ptr<Backend> create(const BackendConfig& config) const override {
    require_known_options("capstan", config, {});
    Settings settings = Settings::from_environment();
    settings.timeout = config.timeout;
    if (!config.unique_id.empty()) {
      const Seat seat = seat_of("capstan", config);
      return make_backend(Communicator::join(unique_id_from_string(config.unique_id), seat.rank,
                                             seat.world_size, settings));
    }
    auto world = Communicator::from_environment(settings);
    require_same("world_size", config.world_size, world.size());
    require_same("rank", config.rank, world.rank());
    return make_backend(std::move(world));
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend(Communicator communicator) {
  return std::make_unique<CommunicatorBackend>(std::move(communicator));
}

std::shared_ptr<const BackendFactory> capstan_factory() {
  return std::make_shared<CommunicatorFactory>();
}

}  // namespace capstan
