// SPDX-License-Identifier: Apache-2.0

// Backends over NCCL and RCCL: see capstan/backends/nccl.hpp.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/backends/nccl.hpp"
#include "core/extras/backends/backend_call.hpp"
#include "core/extras/backends/factories.hpp"
#include "core/extras/backends/nccl/library.hpp"
#include "core/extras/backends/polled_driver.hpp"

namespace capstan {
namespace {

std::string option(const BackendConfig& config, const char* key) {
  const auto found = config.options.find(key);
  return found == config.options.end() ? "" : found->second;
}

/// The libraries and the configuration of the backends of one process and device.
struct Place {
  std::shared_ptr<const NcclLibrary> library;
  std::shared_ptr<DeviceRuntime> runtime;
  BackendConfig config;
};

/// An operation that has ended when the stream has come to its event.
class StreamOperation : public NativeOperation {
 public:
  StreamOperation(const Place& place, NcclLibrary::Communicator communicator,
                  NcclLibrary::Stream stream, std::string call, MessageInfo message)
      : place_(place), communicator_(communicator), call_(std::move(call)), message_(message) {
    event_ = place_.runtime->record_event(stream);
  }
  ~StreamOperation() override { place_.runtime->free_event(event_); }

  bool test() override {
    place_.runtime->use(place_.config.device.index);
    if (place_.runtime->has_ended(event_)) return true;
    int result = 0;
    const int code = place_.library->call().async_error(communicator_, &result);
    place_.library->require(code != 0 ? code : result, call_, communicator_);
    return false;
  }
  std::optional<MessageInfo> message() const override { return message_; }

 private:
  const Place place_;
  const NcclLibrary::Communicator communicator_;
  const std::string call_;
  const MessageInfo message_;
  void* event_ = nullptr;
};

class NcclBackend : public Backend, public AsynchronousPart, public PointToPointPart {
 public:
  /// Takes the communicator over.
  NcclBackend(Place place, NcclLibrary::Communicator communicator, const Seat& seat)
      : place_(std::move(place)),
        communicator_(communicator),
        seat_(seat),
        driver_(std::make_shared<PolledDriver>(
            PolledDriver::Options{text(), place_.config.timeout, {}})),
        stream_(runtime().make_stream()),
        token_(runtime().allocate(sizeof(float))) {}
  ~NcclBackend() override { NcclBackend::close(); }

  std::string_view name() const override { return place_.library->backend(); }
  int rank() const override { return seat_.rank; }
  int world_size() const override { return seat_.world_size; }
  Device device() const override { return place_.config.device; }
  bool is_initialized() const override { return communicator_; }
  Capabilities capabilities() const override {
    return {.asynchronous = true,
            .point_to_point = true,
            .deadline = true,
            .host_memory = false,
            .device_memory = true,
            .subgroups = place_.library->call().split != nullptr};
  }
  /// Aborts what is pending.
  void close() override {
    if (!communicator_) return;
    const bool idle = driver_->is_idle();
    const auto& call = place_.library->call();
    idle ? call.destroy(communicator_) : call.abort(communicator_);
    communicator_ = nullptr;
    driver_->close("the backend was closed");
    runtime().free(token_);
    if (idle) runtime().free_stream(stream_);
  }
  AsynchronousPart* asynchronous() override { return this; }
  PointToPointPart* point_to_point() override { return this; }

  using Backend::probe;
  using Backend::receive;
  using Backend::run;
  using Backend::start;
  Work start(const Request& request, Finish finish) override;
  Work start(const Message& message, Finish finish) override;
  MessageInfo run(const Message& message) override {
    const Work work = start(message, {});
    work.wait();
    return work.message().value();
  }
  std::optional<MessageInfo> probe(int, int) override { refuse("probe", "receive the message"); }
  Tensor receive(DataType, int, int) override {
    refuse("receive of an unknown size", "pass a tensor");
  }

 protected:
  std::unique_ptr<Backend> make_subgroup(std::span<const int> ranks) override;

 private:
  const DeviceRuntime& runtime() const { return *place_.runtime; }
  std::string text() const { return fmt::format("rank {}: {}", seat_.rank, name()); }
  int type_for(DataType type, std::string_view call) const;
  int operation_for(const Request& request) const;
  int enqueue(const Request& request, NcclLibrary::Stream stream);
  Work started(int result, const std::string& what, const std::optional<Operation::Output>& output,
               NcclLibrary::Stream stream, const MessageInfo& message, Finish finish);

  const Place place_;
  NcclLibrary::Communicator communicator_;
  const Seat seat_;
  std::shared_ptr<PolledDriver> driver_;
  NcclLibrary::Stream stream_;
  void* token_;  // device memory of the barrier
};

int NcclBackend::type_for(DataType type, std::string_view call) const {
  const int found = place_.library->type(type);
  if (found < 0)
    refuse(fmt::format("{} of {}", call, name_of(type)),
           fmt::format("version {} has no such type: convert it, or use the backend capstan",
                       place_.library->version()));
  return found;
}

int NcclBackend::operation_for(const Request& request) const {
  const Reducer& reducer = request.reducer;
  const int found =
      reducer.user() || reducer.scales() ? -1 : place_.library->operation(reducer.op());
  if (found < 0)
    refuse(fmt::format("{} by {}", name_of(request.collective),
                       reducer.user() ? reducer.user()->name : name_of(reducer.op())),
           "use sum, product, min, max or average, or the backend capstan");
  return found;
}

/// Returns the library's result.
int NcclBackend::enqueue(const Request& request, NcclLibrary::Stream stream) {
  const auto& [collective, type, foreign, in, in_count, out, out_count, reducer, root, c, r, s] =
      request;
  const NcclLibrary::Functions& call = place_.library->call();
  const auto kind = [&] { return type_for(type, name_of(request.collective)); };
  switch (collective) {
    case Collective::barrier:
      return call.all_reduce(token_, token_, 1, place_.library->type(DataType::f32),
                             place_.library->operation(ReduceOp::sum), communicator_, stream);
    case Collective::broadcast:
      return call.broadcast(in, out, out_count.value(), kind(), root, communicator_, stream);
    case Collective::all_gather:
      return call.all_gather(in, out, in_count.value(), kind(), communicator_, stream);
    case Collective::all_reduce:
      return call.all_reduce(in, out, in_count.value(), kind(), operation_for(request),
                             communicator_, stream);
    case Collective::reduce:
      return call.reduce(in, out, in_count.value(), kind(), operation_for(request), root,
                         communicator_, stream);
    case Collective::reduce_scatter:
      return call.reduce_scatter(in, out, out_count.value(), kind(), operation_for(request),
                                 communicator_, stream);
    default:
      refuse(std::string{name_of(collective)}, "use the backend capstan");
  }
}

Work NcclBackend::started(int result, const std::string& what,
                          const std::optional<Operation::Output>& output,
                          NcclLibrary::Stream stream, const MessageInfo& message, Finish finish) {
  const std::string call = fmt::format("{}: {}", text(), what);
  place_.library->require(result, call, communicator_);
  return driver_->start(
      what, output, std::make_unique<StreamOperation>(place_, communicator_, stream, call, message),
      std::move(finish));
}

Work NcclBackend::start(const Request& request, Finish finish) {
  const NcclLibrary::Stream stream = request.stream ? request.stream : stream_;
  runtime().use(device().index);
  return started(enqueue(request, stream), describe(request),
                 Operation::Output{request.type, request.output, request.output_count.value()},
                 stream, MessageInfo{rank(), 0, {}}, std::move(finish));
}

Work NcclBackend::start(const Message& message, Finish finish) {
  const NcclLibrary::Functions& call = place_.library->call();
  const int type = type_for(message.type, message.sends ? "send" : "receive");
  runtime().use(device().index);
  const int result = message.sends ? call.send(message.data, message.count.value(), type,
                                               message.peer, communicator_, stream_)
                                   : call.receive(message.data, message.count.value(), type,
                                                  message.peer, communicator_, stream_);
  return started(
      result, describe(message), {}, stream_,
      MessageInfo{message.peer, message.tag, bytes_of(message.count, size_of(message.type))},
      std::move(finish));
}

std::unique_ptr<Backend> NcclBackend::make_subgroup(std::span<const int> ranks) {
  const NcclLibrary::Functions& call = place_.library->call();
  if (!call.split) refuse("subgroup", "NCCL has it from version 2.18 on");
  const auto place = std::ranges::find(ranks, rank());
  const bool is_member = place != ranks.end();
  const int position = static_cast<int>(place - ranks.begin());
  NcclLibrary::Communicator group = nullptr;
  runtime().use(device().index);
  place_.library->require(call.split(communicator_, is_member ? 0 : -1, position, &group, nullptr),
                          text() + ": subgroup", communicator_);
  if (!is_member) return nullptr;
  return std::make_unique<NcclBackend>(place_, group,
                                       Seat{static_cast<int>(ranks.size()), position});
}

class NcclFactory : public BackendFactory {
 public:
  explicit NcclFactory(NcclLibrary::Kind kind) : kind_(kind) {}
  std::string name() const override { return is_nccl() ? "nccl" : "rccl"; }
  int priority() const override { return is_nccl() ? 70 : 60; }
  Availability look() const override {
    NcclLibrary::load(kind_);
    DeviceRuntime::load(is_nccl() ? DeviceType::cuda : DeviceType::rocm);
    return {};
  }
  std::unique_ptr<Backend> create(const BackendConfig& config) const override {
    require_known_options(name(), config, {"library", "runtime"});
    const Seat seat = seat_of(name(), config);
    const Place place = place_of(config);
    const std::string id = id_of(config, seat);
    NcclLibrary::Communicator communicator = nullptr;
    place.runtime->use(place.config.device.index);
    const int result = place.library->call().init_rank(&communicator, seat.world_size,
                                                       nccl_unique_id_from(name(), id), seat.rank);
    place.library->require(result, fmt::format("rank {}: {}: ncclCommInitRank", seat.rank, name()),
                           nullptr);
    return std::make_unique<NcclBackend>(place, communicator, seat);
  }

 private:
  bool is_nccl() const { return kind_ == NcclLibrary::Kind::nccl; }
  Place place_of(const BackendConfig& config) const {
    const auto library = NcclLibrary::load(kind_, option(config, "library"));
    Place place{library, DeviceRuntime::load(library->device(), option(config, "runtime")), config};
    if (config.device.type == DeviceType::cpu) place.config.device = {library->device(), 0};
    if (place.config.device.type != library->device())
      throw InvalidArgument(fmt::format("{}: device={}: pass one of {}", name(),
                                        to_string(config.device),
                                        to_string(Device{library->device(), 0})));
    return place;
  }
  std::string id_of(const BackendConfig& config, const Seat& seat) const {
    if (!config.unique_id.empty()) return config.unique_id;
    if (seat.world_size > 1)
      throw InvalidArgument(
          fmt::format("{}: unique_id: the {} ranks need one: one of them makes it "
                      "by create_{}_unique_id(), and passes it to the others",
                      name(), seat.world_size, name()));
    const std::string library = option(config, "library");
    return is_nccl() ? create_nccl_unique_id(library) : create_rccl_unique_id(library);
  }

  NcclLibrary::Kind kind_;
};

}  // namespace

std::shared_ptr<const BackendFactory> nccl_factory() {
  return std::make_shared<NcclFactory>(NcclLibrary::Kind::nccl);
}
std::shared_ptr<const BackendFactory> rccl_factory() {
  return std::make_shared<NcclFactory>(NcclLibrary::Kind::rccl);
}

}  // namespace capstan
