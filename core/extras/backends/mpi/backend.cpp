// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/mpi/backend.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/extras/backends/mpi/average.hpp"

namespace capstan {
namespace {

constexpr int serialized = 2;  // the least level at which another thread may call MPI

const std::byte* at(const void* data, std::uint64_t elements, DataType type) {
  return static_cast<const std::byte*>(data) + elements * size_of(type).value();
}
std::byte* at(void* data, std::uint64_t elements, DataType type) {
  return static_cast<std::byte*>(data) + elements * size_of(type).value();
}

/// Whether an output lies within an input.
bool overlap(const Request& request) {
  const auto* const input = static_cast<const std::byte*>(request.input);
  const auto* const output = static_cast<const std::byte*>(request.output);
  return std::less_equal<>{}(input, output) &&
         std::less<>{}(output,
                       input + bytes_of(request.input_count, size_of(request.type)).value());
}

}  // namespace

std::string MpiBackend::reason_for_no_thread() const {
  const int level = mpi_.adapter().thread_level();
  if (level >= serialized) return {};
  return fmt::format(
      "rank {}: mpi: MPI was initialised for thread level {}, and other threads "
      "need 2 (serialized): set thread_level=2, or wait for the work",
      rank_, level);
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

}  // namespace capstan
