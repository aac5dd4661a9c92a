// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/executor/device_program.hpp"
#include "core/platform/device/device_kernels.hpp"
#include "tests/devices/gpu.hpp"

namespace capstan {

/// Ranks that share a GPU: each has a segment and a stream, and its kernels meet those of the
/// others.
class DeviceRanks {
 public:
  DeviceRanks(Gpu& gpu, int ranks, int lanes)
      : gpu_(gpu),
        kernels_(DeviceKernels::at(gpu.where())),
        segments_(ranks, lanes, Bytes{1 << 20}) {
    std::vector<std::byte*> addresses;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t bytes = segments_.total().value();
      addresses.push_back(owned_.emplace_back(gpu.allocate_shared(bytes)));
      gpu.write(addresses.back(), std::vector<std::byte>(bytes));
      states_.push_back(
          zeros(sizeof(kernels::device::LaneState) * static_cast<std::size_t>(lanes)));
      streams_.push_back(gpu.make_stream());
    }
    addresses_ = reinterpret_cast<std::byte**>(upload(addresses));
    abort_ = reinterpret_cast<std::uint64_t*>(zeros(sizeof(std::uint64_t)));
  }
  DeviceRanks(const DeviceRanks&) = delete;
  ~DeviceRanks() {
    for (std::byte* memory : owned_) gpu_.release(memory);
  }

  const DeviceSegments& segments() const { return segments_; }
  int ranks() const { return static_cast<int>(streams_.size()); }

  /// The launch of one rank's plan. `input` and `output` are memory of the device.
  kernels::device::ProgramArguments prepare(const Plan& plan, Rank rank, std::byte* input,
                                            std::byte* output) {
    const DeviceProgram program{plan, ranks()};
    const auto lanes = static_cast<std::size_t>(segments_.lanes());
    using namespace kernels::device;
    ProgramArguments arguments{};
    program.put_into(arguments);
    arguments.shape = segments_.shape();
    arguments.self = static_cast<std::uint32_t>(rank.value());
    arguments.blocks = reinterpret_cast<const ProgramBlock*>(upload(program.blocks));
    arguments.ops = reinterpret_cast<const ProgramOp*>(upload(program.ops));
    arguments.operands = reinterpret_cast<const ProgramOperand*>(upload(program.operands));
    arguments.segments = addresses_;
    arguments.input = input;
    arguments.output = output;
    arguments.scratch = zeros(program.scratch.value() * lanes + 1);
    arguments.lanes = reinterpret_cast<LaneState*>(states_[static_cast<std::size_t>(rank.value())]);
    arguments.pointers =
        reinterpret_cast<const void**>(zeros(sizeof(void*) * program.most_operands * lanes));
    arguments.abort = abort_;
    return arguments;
  }

  /// Starts the kernels of all ranks; they run side by side.
  void launch(const ByRank<kernels::device::ProgramArguments>& arguments) {
    for (const Rank rank : all_ranks(ranks()))
      kernels_.run(kernels_.program_kernel(DataType::f32, ReduceOp::sum), arguments[rank],
                   static_cast<unsigned>(segments_.lanes()),
                   streams_[static_cast<std::size_t>(rank.value())]);
  }
  /// Raises the abort word when the time is over: false then.
  bool wait() {
    const bool ended = std::ranges::all_of(
        streams_, [&](void* stream) { return gpu_.wait(stream, std::chrono::seconds{20}); });
    if (!ended)
      gpu_.write(reinterpret_cast<std::byte*>(abort_), std::vector<std::byte>(8, std::byte{1}));
    return ended;
  }

 private:
  std::byte* zeros(std::size_t bytes) { return upload(std::vector<std::byte>(bytes)); }
  template <class T>
  std::byte* upload(const std::vector<T>& values) {
    std::vector<std::byte> image(std::max<std::size_t>(values.size() * sizeof(T), 1));
    if (!values.empty()) std::memcpy(image.data(), values.data(), values.size() * sizeof(T));
    std::byte* const memory = owned_.emplace_back(gpu_.allocate(image.size()));
    gpu_.write(memory, image);
    return memory;
  }

  Gpu& gpu_;
  DeviceKernels& kernels_;
  DeviceSegments segments_;
  std::vector<std::byte*> owned_, states_;
  std::vector<void*> streams_;
  std::byte** addresses_ = nullptr;
  std::uint64_t* abort_ = nullptr;
};

}  // namespace capstan
