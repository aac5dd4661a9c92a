// SPDX-License-Identifier: Apache-2.0

// A backend over MPI: see capstan/backends/mpi.hpp.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/extras/backends/backend_call.hpp"
#include "core/extras/backends/factories.hpp"
#include "core/extras/backends/mpi/average.hpp"
#include "core/extras/backends/mpi/operation.hpp"

namespace capstan {
namespace {

constexpr int serialized = 2;  // the least level at which another thread may call MPI

class MpiBackend : public Backend, public AsynchronousPart, public PointToPointPart {
 public:
  /// Takes the communicator over.
  MpiBackend(LoadedMpi& mpi, MpiHandle communicator, const BackendConfig& config)
      : mpi_(mpi),
        communicator_(communicator),
        config_(config),
        options_(MpiConfig::from_options(config.options)),
        rank_(mpi.adapter().rank(communicator)),
        size_(mpi.adapter().size(communicator)),
        driver_(std::make_shared<PolledDriver>(PolledDriver::Options{
            fmt::format("rank {}: mpi", rank_), config.timeout, reason_for_no_thread()})) {}
  ~MpiBackend() override { MpiBackend::close(); }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  Device device() const override { return config_.device; }
  bool is_initialized() const override { return open_; }
  Capabilities capabilities() const override {
    return {.asynchronous = true,
            .point_to_point = true,
            .probe = true,
            .any_source = true,
            .tags = true,
            .deadline = true,
            .device_memory = true,
            .subgroups = true};
  }
  void close() override {
    if (!open_) return;
    open_ = false;
    const bool idle = driver_->is_idle();
    driver_->close("the backend was closed");
    if (idle && !mpi_.adapter().finalized())
      mpi_.locked([&] { return mpi_.adapter().free_communicator(communicator_); });
  }
  AsynchronousPart* asynchronous() override { return this; }
  PointToPointPart* point_to_point() override { return this; }

  using Backend::probe;
  using Backend::receive;
  using Backend::run;
  using Backend::start;
  Work start(const Request& request, Finish finish) override;
  Work start(const Message& message, Finish finish) override;
  MessageInfo run(const Message& message) override;
  std::optional<MessageInfo> probe(int source, int tag) override;
  Tensor receive(DataType type, int source, int tag) override;

 protected:
  std::unique_ptr<Backend> make_subgroup(std::span<const int> ranks) override;
  std::shared_ptr<DeviceRuntime> staging_for(const Device& device) const override;

 private:
  std::string reason_for_no_thread() const {
    const int level = mpi_.adapter().thread_level();
    if (level >= serialized) return {};
    return fmt::format(
        "rank {}: mpi: MPI was initialised for thread level {}, and other threads "
        "need 2 (serialized): set thread_level=2, or wait for the work",
        rank_, level);
  }
  std::string call_text(const std::string& what) const {
    return fmt::format("rank {}: mpi: {}", rank_, what);
  }
  std::unique_ptr<MpiOperation> operation(const std::string& what) {
    return std::make_unique<MpiOperation>(mpi_, call_text(what), options_.longest_count);
  }
  void require_tag(int tag) const {
    const int highest = mpi_.adapter().highest_tag(communicator_);
    if (tag > highest)
      refuse(fmt::format("tag {}", tag), fmt::format("this MPI has tags 0 to {}", highest));
  }

  void start(MpiOperation& operation, const Request& request, Finish& finish);
  void start_reduction(MpiOperation& operation, const Request& request, Finish& finish);
  void all_reduce(MpiOperation& operation, const Request& request, MpiHandle type, MpiHandle op);
  void reduce(MpiOperation& operation, const Request& request, MpiHandle type, MpiHandle op,
              const void* input, void* output, Elements count, int root);
  void reduce_scatter(MpiOperation& operation, const Request& request, MpiHandle type, MpiHandle op,
                      Finish& finish);
  MpiHandle type_for(const Request& request) const;
  MpiHandle operation_for(const Request& request) const;

  LoadedMpi& mpi_;
  const MpiHandle communicator_;
  const BackendConfig config_;
  const MpiConfig options_;
  const int rank_, size_;
  std::shared_ptr<PolledDriver> driver_;
  bool open_ = true;
};

const std::byte* at(const void* data, std::uint64_t elements, DataType type) {
  return static_cast<const std::byte*>(data) + elements * size_of(type).value();
}
std::byte* at(void* data, std::uint64_t elements, DataType type) {
  return static_cast<std::byte*>(data) + elements * size_of(type).value();
}

MpiHandle MpiBackend::type_for(const Request& request) const {
  MpiHandle type = 0;
  if (!mpi_.adapter().type(static_cast<int>(request.type), &type))
    refuse(fmt::format("{} of {}", name_of(request.collective), name_of(request.type)),
           "MPI has no such type: convert to f32, or use the backend capstan");
  return type;
}

/// Logical operations of MPI take integers only; MPICH ends the job when others are passed.
MpiHandle MpiBackend::operation_for(const Request& request) const {
  const Reducer& reducer = request.reducer;
  using enum ReduceOp;
  const bool logical =
      reducer.op() == logical_and || reducer.op() == logical_or || reducer.op() == logical_xor;
  if (logical && !is_integer(request.type))
    refuse(fmt::format("{} by {} of {}", name_of(request.collective), name_of(reducer.op()),
                       name_of(request.type)),
           "MPI has it for integers: convert, or use the backend capstan");
  MpiHandle op = 0;
  if (reducer.user() || reducer.scales() ||
      !mpi_.adapter().operation(static_cast<int>(reducer.op()), &op))
    refuse(fmt::format("{} by an operation of the program or a scaled sum",
                       name_of(request.collective)),
           "use one of MPI's operations, or the backend capstan");
  return op;
}

void MpiBackend::all_reduce(MpiOperation& operation, const Request& request, MpiHandle type,
                            MpiHandle op) {
  const bool in_place = request.input == request.output;
  operation.in_pieces(request.input_count.value(), [&](std::uint64_t offset, int count) {
    const void* in = in_place ? nullptr : at(request.input, offset, request.type);
    void* out = at(request.output, offset, request.type);
    operation.add([&](MpiHandle* made) {
      return mpi_.adapter().all_reduce(in, out, count, type, op, communicator_, made);
    });
  });
}

void MpiBackend::reduce(MpiOperation& operation, const Request& request, MpiHandle type,
                        MpiHandle op, const void* input, void* output, Elements total, int root) {
  const bool in_place = rank_ == root && input == output;
  operation.in_pieces(total.value(), [&](std::uint64_t offset, int count) {
    const void* in = in_place ? nullptr : at(input, offset, request.type);
    void* out = rank_ == root ? at(output, offset, request.type) : nullptr;
    operation.add([&](MpiHandle* made) {
      return mpi_.adapter().reduce(in, out, count, type, op, root, communicator_, made);
    });
  });
}

/// Whether an output lies within an input.
bool overlap(const Request& request) {
  const auto* const input = static_cast<const std::byte*>(request.input);
  const auto* const output = static_cast<const std::byte*>(request.output);
  return std::less_equal<>{}(input, output) &&
         std::less<>{}(output,
                       input + bytes_of(request.input_count, size_of(request.type)).value());
}

/// Blocks that are too long for one count are reduced to their ranks one after another.
void MpiBackend::reduce_scatter(MpiOperation& operation, const Request& request, MpiHandle type,
                                MpiHandle op, Finish& finish) {
  void* output = request.output;
  if (request.output_count > Elements{0} && overlap(request)) {
    const std::size_t bytes = bytes_of(request.output_count, size_of(request.type)).value();
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    output = memory->data();
    finish = [memory, to = request.output, then = std::move(finish)] {
      std::memcpy(to, memory->data(), memory->size());
      if (then) then();
    };
  }
  if (request.output_count.value() <= static_cast<std::uint64_t>(options_.longest_count))
    return operation.add([&](MpiHandle* made) {
      return mpi_.adapter().reduce_scatter(request.input, output,
                                           static_cast<int>(request.output_count.value()), type, op,
                                           communicator_, made);
    });
  for (int root = 0; root < size_; ++root)
    reduce(operation, request, type, op,
           at(request.input, request.output_count.value() * static_cast<std::uint64_t>(root),
              request.type),
           output, request.output_count, root);
}

void MpiBackend::start_reduction(MpiOperation& operation, const Request& request, Finish& finish) {
  const MpiHandle type = type_for(request), op = operation_for(request);
  const bool gets = request.collective != Collective::reduce || rank_ == request.root;
  if (request.reducer.op() == ReduceOp::average && gets)
    finish = [this, request, then = std::move(finish)] {
      divide(request.type, request.output, request.output_count, size_);
      if (then) then();
    };
  if (request.collective == Collective::all_reduce)
    all_reduce(operation, request, type, op);
  else if (request.collective == Collective::reduce)
    reduce(operation, request, type, op, request.input, request.output, request.input_count,
           request.root);
  else
    reduce_scatter(operation, request, type, op, finish);
}

void MpiBackend::start(MpiOperation& operation, const Request& request, Finish& finish) {
  const MpiAdapter& mpi = mpi_.adapter();
  const auto bytes = [&](Elements count) {
    return operation.bytes(bytes_of(count, size_of(request.type)).value());
  };
  switch (request.collective) {
    case Collective::barrier:
      return operation.add([&](MpiHandle* made) { return mpi.barrier(communicator_, made); });
    case Collective::broadcast: {
      const bool sends = rank_ == request.root && request.input != request.output;
      if (sends && request.output_count > Elements{0})
        std::memcpy(request.output, request.input,
                    bytes_of(request.output_count, size_of(request.type)).value());
      return operation.add([&](MpiHandle* made) {
        return mpi.broadcast(request.output, bytes(request.output_count), request.root,
                             communicator_, made);
      });
    }
    case Collective::all_gather: {
      const std::byte* const own =
          at(request.output, request.input_count.value() * static_cast<std::uint64_t>(rank_),
             request.type);
      const void* const in = request.input == own ? nullptr : request.input;
      return operation.add([&](MpiHandle* made) {
        return mpi.all_gather(in, request.output, bytes(request.input_count), communicator_, made);
      });
    }
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter:
      return start_reduction(operation, request, finish);
    default:
      refuse(std::string{name_of(request.collective)}, "use the backend capstan");
  }
}

Work MpiBackend::start(const Request& request, Finish finish) {
  const std::string text = describe(request);
  auto made = operation(text);
  driver_->alone([&] { start(*made, request, finish); });
  return driver_->start(
      text, Operation::Output{request.type, request.output, request.output_count.value()},
      std::move(made), std::move(finish));
}

Work MpiBackend::start(const Message& message, Finish finish) {
  const std::string text = describe(message);
  require_tag(message.tag);
  auto made = operation(text);
  const MpiHandle type = made->bytes(bytes_of(message.count, size_of(message.type)).value());
  const MpiAdapter& mpi = mpi_.adapter();
  driver_->alone([&] {
    made->add([&](MpiHandle* request) {
      const auto call =
          message.sends ? +[](const MpiAdapter& a, const Message& m, MpiHandle t, MpiHandle c,
                              MpiHandle* r) { return a.send(m.data, t, m.peer, m.tag, c, r); }
                        : +[](const MpiAdapter& a, const Message& m, MpiHandle t, MpiHandle c,
                              MpiHandle* r) { return a.receive(m.data, t, m.peer, m.tag, c, r); };
      return call(mpi, message, type, communicator_, request);
    });
  });
  return driver_->start(text, {}, std::move(made), std::move(finish));
}

MessageInfo MpiBackend::run(const Message& message) {
  const Work work = start(message, {});
  work.wait();
  return work.message().value();
}

std::optional<MessageInfo> MpiBackend::probe(int source, int tag) {
  require_tag(tag);
  bool found = false;
  MpiStatus status{};
  const int code = mpi_.locked(
      [&] { return mpi_.adapter().probe(source, tag, communicator_, &found, &status); });
  mpi_.require(code, call_text("probe"));
  if (!found) return {};
  return MessageInfo{status.source, status.tag, Bytes{status.bytes}};
}

Tensor MpiBackend::receive(DataType type, int source, int tag) {
  require_tag(tag);
  const std::string text = fmt::format("receive({}, from {}, tag {})", name_of(type), source, tag);
  const Deadline deadline = Deadline::in(config_.timeout);
  bool found = false;
  MpiHandle message = 0;
  MpiStatus status{};
  for (;;) {
    const int code = mpi_.locked([&] {
      return mpi_.adapter().matched_probe(source, tag, communicator_, &found, &message, &status);
    });
    mpi_.require(code, call_text(text));
    if (found) break;
    if (deadline.expired())
      throw TimedOut(
          fmt::format("{}: no such message within {}", call_text(text), deadline.budget()));
    std::this_thread::yield();
  }
  // Bytes of a message that is no whole number of elements are received all the same.
  const std::uint64_t size = size_of(type).value();
  Tensor received{type, {static_cast<std::int64_t>((status.bytes + size - 1) / size)}};
  auto made = operation(text);
  const MpiHandle bytes = made->bytes(status.bytes);
  made->add([&](MpiHandle* request) {
    return mpi_.adapter().receive_matched(received.data(), bytes, &message, request);
  });
  driver_->start(text, {}, std::move(made), {}).wait();
  if (status.bytes % size != 0)
    throw Mismatch(fmt::format("{}: {} bytes are no whole number of {}", call_text(text),
                               status.bytes, name_of(type)));
  return received;
}

std::unique_ptr<Backend> MpiBackend::make_subgroup(std::span<const int> ranks) {
  const auto place = std::ranges::find(ranks, rank_);
  const bool is_member = place != ranks.end();
  MpiHandle group = 0;
  const int code = mpi_.locked([&] {
    return mpi_.adapter().make_group(communicator_, is_member,
                                     static_cast<int>(place - ranks.begin()), &group);
  });
  mpi_.require(code, call_text("subgroup"));
  if (!is_member) return nullptr;
  return std::make_unique<MpiBackend>(mpi_, group, config_);
}

std::shared_ptr<DeviceRuntime> MpiBackend::staging_for(const Device& device) const {
  if (device.type != DeviceType::cuda && device.type != DeviceType::rocm) return nullptr;
  const bool aware =
      device.type == DeviceType::cuda && options_.use_cuda_aware_mpi && mpi_.adapter().cuda_aware();
  if (aware) return nullptr;
  const auto runtime = config_.options.find("runtime");
  return DeviceRuntime::load(device.type, runtime == config_.options.end() ? "" : runtime->second);
}

std::unique_ptr<Backend> duplicate(LoadedMpi& mpi, MpiHandle communicator,
                                   const BackendConfig& config) {
  MpiHandle copy = 0;
  mpi.require(mpi.locked([&] { return mpi.adapter().duplicate(communicator, &copy); }),
              "mpi: MPI_Comm_dup");
  return std::make_unique<MpiBackend>(mpi, copy, config);
}

/// Throws InvalidArgument if the world is another one than the configuration says.
void require_world(std::string_view key, std::optional<int> asked, int got) {
  if (asked && *asked != got)
    throw InvalidArgument(fmt::format(
        "mpi: {}={}, but MPI's world says {}: leave it out, or start the ranks with MPI's launcher",
        key, *asked, got));
}

void require_options(const BackendConfig& config) {
  require_known_options("mpi", config,
                        {"use_cuda_aware_mpi", "thread_level", "enable_profiling", "buffer_size",
                         "enable_tuning", "longest_count", "runtime"});
  if (!config.unique_id.empty())
    throw InvalidArgument(
        "mpi: unique_id: MPI's ranks find each other by its launcher: leave it out");
}

class MpiFactory : public BackendFactory {
 public:
  std::string name() const override { return "mpi"; }
  int priority() const override { return 50; }
  Availability look() const override { return LoadedMpi::look(); }
  std::unique_ptr<Backend> create(const BackendConfig& config) const override {
    require_options(config);
    const MpiConfig options = MpiConfig::from_options(config.options);
    LoadedMpi& mpi = LoadedMpi::get();
    mpi.ensure_initialised(options);
    const MpiHandle world = mpi.adapter().world();
    require_world("world_size", config.world_size, mpi.adapter().size(world));
    require_world("rank", config.rank, mpi.adapter().rank(world));
    return duplicate(mpi, world, config);
  }
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend(const void* communicator, const BackendConfig& config) {
  if (!communicator) throw InvalidArgument("make_mpi_backend: pass the address of an MPI_Comm");
  require_options(config);
  LoadedMpi& mpi = LoadedMpi::get();
  if (!mpi.adapter().initialized() || mpi.adapter().finalized())
    throw InvalidArgument("make_mpi_backend: MPI is not initialised, so there is no communicator");
  return duplicate(mpi, mpi.adapter().communicator_at(communicator), config);
}

std::shared_ptr<const BackendFactory> mpi_factory() {
  return std::make_shared<MpiFactory>();
}

}  // namespace capstan
