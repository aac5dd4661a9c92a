// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/executor/device_program.hpp"
#include "kernels/emulation/kernels.hpp"

namespace capstan {

/// Memory as devices hand it out: aligned, and zero at first.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size = 0) : bytes_(size + line) {}
  std::byte* data() {
    return bytes_.data() + -reinterpret_cast<std::uintptr_t>(bytes_.data()) % line;
  }

 private:
  static constexpr std::size_t line = 128;
  std::vector<std::byte> bytes_;
};

/// A call as one rank makes it.
struct DeviceCall {
  const Plan* plan;
  std::byte* input;
  std::byte* output;
};

/// How a thread runs a program; how a test spoils one.
using RunProgram = std::function<void(const kernels::device::EmulatedMachine<4>&,
                                      const kernels::device::ProgramArguments&)>;
using Spoil = std::function<void(Rank, DeviceProgram&)>;

/// The kernel of a call, by the name that modules have for it.
inline RunProgram program_kernel(const Call& call) {
  const ReduceOp op = reduces(call.collective) ? call.op : ReduceOp::sum;
  return kernels::device::emulated_program_kernel(
      fmt::format("capstan_run_{}_{}", name_of(call.type), name_of(op)));
}

/// Ranks whose kernels run on threads, side by side, and reach each other's segments.
class EmulatedRanks {
 public:
  static constexpr unsigned threads_of_lane = 8;

  EmulatedRanks(int ranks, int lanes, Bytes staging_region = Bytes{4096})
      : segments_(ranks, lanes, staging_region) {
    for (int rank = 0; rank < ranks; ++rank) {
      memory_.emplace_back(segments_.total().value());
      states_.emplace_back(static_cast<std::size_t>(lanes));
    }
    for (AlignedBytes& memory : memory_) addresses_.push_back(memory.data());
  }

  const DeviceSegments& segments() const { return segments_; }
  int ranks() const { return static_cast<int>(memory_.size()); }

  /// Before run().
  void use(std::function<RunProgram(const Call&)> kernels) { kernel_of_ = std::move(kernels); }
  void spoil(Spoil spoil) { spoil_ = std::move(spoil); }

  /// Makes these calls on all ranks, back to back in one kernel each. After `limit` all waits end,
  /// and the answer is false.
  bool run(const ByRank<std::vector<DeviceCall>>& calls, std::uint64_t seed = 1,
           std::chrono::milliseconds limit = std::chrono::minutes{2}) {
    Alarm alarm{abort_, limit};
    std::vector<std::jthread> threads;
    for (const Rank rank : all_ranks(ranks()))
      threads.emplace_back([this, rank, seed, &list = calls[rank]] {
        run_rank(rank, list, seed * 131 + static_cast<std::uint64_t>(rank.value()));
      });
    threads.clear();
    return __atomic_load_n(&abort_, __ATOMIC_RELAXED) == 0;
  }
  /// The same, one rank after another, for what must not wait.
  bool run_in_order(const std::vector<Rank>& order, const ByRank<std::vector<DeviceCall>>& calls,
                    std::chrono::milliseconds limit) {
    Alarm alarm{abort_, limit};
    for (const Rank rank : order) run_rank(rank, calls[rank], 1);
    return __atomic_load_n(&abort_, __ATOMIC_RELAXED) == 0;
  }

 private:
  /// Raises the flag when its time is over.
  class Alarm {
   public:
    Alarm(std::uint64_t& flag, std::chrono::milliseconds limit)
        : thread_([this, &flag, limit] {
            std::unique_lock lock{mutex_};
            if (!changed_.wait_for(lock, limit, [&] { return over_; }))
              __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
          }) {}
    ~Alarm() {
      const std::lock_guard lock{mutex_};
      over_ = true;
      changed_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    std::jthread thread_;
  };

  void run_rank(Rank rank, const std::vector<DeviceCall>& calls, std::uint64_t seed) {
    using namespace kernels::device;
    const auto lanes = static_cast<unsigned>(segments_.lanes());
    std::vector<DeviceProgram> programs;
    std::size_t scratch = 1, operands = 1;
    for (const DeviceCall& call : calls) {
      programs.emplace_back(*call.plan, ranks());
      if (spoil_) spoil_(rank, programs.back());
      scratch = std::max<std::size_t>(scratch, programs.back().scratch.value());
      operands = std::max<std::size_t>(operands, programs.back().most_operands);
    }
    AlignedBytes scratch_memory{scratch * lanes};
    std::vector<const void*> pointers(operands * lanes);
    std::vector<ProgramArguments> arguments;
    std::vector<RunProgram> kernels;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      kernels.push_back(kernel_of_(calls[i].plan->call));
      ProgramArguments& call = arguments.emplace_back();
      programs[i].put_into(call);
      call.shape = segments_.shape();
      call.self = static_cast<std::uint32_t>(rank.value());
      call.blocks = programs[i].blocks.data();
      call.ops = programs[i].ops.data();
      call.operands = programs[i].operands.data();
      call.segments = addresses_.data();
      call.input = calls[i].input;
      call.output = calls[i].output;
      call.scratch = scratch_memory.data();
      call.lanes = states_[static_cast<std::size_t>(rank.value())].data();
      call.pointers = pointers.data();
      call.abort = &abort_;
      // A lane may be in another call than the others.
      call.scratch_bytes = scratch;
      call.most_operands = static_cast<std::uint32_t>(operands);
    }
    kernels::device::run<4>({lanes, threads_of_lane, seed}, [&](const auto& machine) {
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        kernels[i](machine, arguments[i]);
        machine.sync_block();  // as between kernels of a stream
      }
    });
  }

  DeviceSegments segments_;
  std::vector<AlignedBytes> memory_;
  std::vector<std::byte*> addresses_;
  std::vector<std::vector<kernels::device::LaneState>> states_;  // by rank and lane
  std::function<RunProgram(const Call&)> kernel_of_ = program_kernel;
  Spoil spoil_;
  std::uint64_t abort_ = 0;
};

}  // namespace capstan
