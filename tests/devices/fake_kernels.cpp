// SPDX-License-Identifier: Apache-2.0

// Kernels of the devices that need no device: those of the emulation. Reductions are run by the
// worker of the streams, programs beside each other, as they wait for each other.

#include <algorithm>
#include <cstring>

#include "kernels/emulation/kernels.hpp"
#include "tests/devices/fake_device.hpp"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();
#endif

namespace capstan::fake {
namespace {

/// Kernels that are ended early continue with what is there. Their results are undefined, and they
/// may race for them: the thread sanitizer does not look then.
class UndefinedResults {
 public:
  explicit UndefinedResults([[maybe_unused]] bool expected) {
#if defined(__SANITIZE_THREAD__)
    if ((expected_ = expected)) __tsan_ignore_thread_begin();
#endif
  }
  UndefinedResults(const UndefinedResults&) = delete;
  ~UndefinedResults() {
#if defined(__SANITIZE_THREAD__)
    if (expected_) __tsan_ignore_thread_end();
#endif
  }

 private:
  [[maybe_unused]] bool expected_ = false;
};

using kernels::device::EmulatedKernel;
using kernels::device::EmulatedProgramKernel;
using kernels::device::ProgramArguments;
using kernels::device::ReduceArguments;

}  // namespace

void* kernel_named(const char* name) {
  if (const auto program = kernels::device::emulated_program_kernel(name))
    return reinterpret_cast<void*>(program);
  return reinterpret_cast<void*>(kernels::device::emulated_kernel<4>(name));
}

LaunchArguments::LaunchArguments(void** extra) {
  for (; reinterpret_cast<std::uintptr_t>(*extra) % 3 != 0; extra += 2) {
    if (reinterpret_cast<std::uintptr_t>(*extra) == 1) data = extra[1];
    if (reinterpret_cast<std::uintptr_t>(*extra) == 2) bytes = *static_cast<std::size_t*>(extra[1]);
  }
}

/// Puts the address at which the emulation accesses memory in the place of the device's.
template <class T>
bool Devices::map(T*& address) {
  if (!address) return true;
  const std::byte* const mapped = found(address) ? reachable(address, 1) : nullptr;
  address = reinterpret_cast<T*>(const_cast<std::byte*>(mapped));
  return mapped != nullptr;
}

bool Devices::map_operands(ReduceArguments& arguments) {
  const std::lock_guard lock{mutex_};
  bool all = true;
  for (std::uint32_t s = 0; s < arguments.source_count; ++s)
    all = arguments.sources[s] && map(arguments.sources[s]) && all;
  for (std::uint32_t d = 0; d < arguments.destination_count; ++d)
    all = arguments.destinations[d] && map(arguments.destinations[d]) && all;
  return all;
}

/// When the kernel starts: the list of segments lies on the device, too.
bool Devices::map_operands(ProgramArguments& a, std::vector<std::byte*>& segments) {
  const std::lock_guard lock{mutex_};
  if (!map(a.blocks) || !map(a.ops) || !map(a.operands) || !map(a.segments) || !map(a.input) ||
      !map(a.output) || !map(a.scratch) || !map(a.lanes) || !map(a.pointers))
    return false;
  segments.assign(a.segments, a.segments + a.shape.ranks);
  a.segments = segments.data();
  return std::ranges::all_of(segments, [&](std::byte*& segment) {
    const Allocation* const memory = found(segment);
    return memory && memory->shared && map(segment);
  });
}

void Devices::put(Stream* stream, const Command& command) {
  knob("kernels", 1);
  if (knob("capturing", 0) == 0) return streams().put(stream, command);
  const std::lock_guard lock{mutex_};
  captured_.emplace_back(stream, command);
}

void Devices::replay(Stream* stream) {
  const std::lock_guard lock{mutex_};
  for (const auto& [from, command] : captured_)
    if (from == stream) streams().put(stream, command);
}

int Devices::launch(void* kernel, unsigned blocks, unsigned threads, const void* arguments,
                    std::size_t bytes, void* stream) {
  if (!stream || knob("fail_launch", 0) != 0) return invalid_value;
  auto* const on = static_cast<Stream*>(stream);
  if (bytes == sizeof(ProgramArguments)) {
    constexpr unsigned threads_of_processor = 8;  // for each block
    const ProgramArguments given = *static_cast<const ProgramArguments*>(arguments);
    const unsigned fewer = std::min(threads, threads_of_processor);
    const bool ended_early = knob("ended_early", 0) != 0;
    put(on, {.action =
                 [=, this] {
                   ProgramArguments call = given;
                   std::vector<std::byte*> segments;
                   if (!map_operands(call, segments)) {
                     on->error = launch_failed;
                     return;
                   }
                   kernels::device::run<4>({blocks, fewer}, [&](const auto& machine) {
                     const UndefinedResults undefined{ended_early};
                     reinterpret_cast<EmulatedProgramKernel>(kernel)(machine, call);
                   });
                 },
             .beside = true});
    return success;
  }
  ReduceArguments call = *static_cast<const ReduceArguments*>(arguments);
  if (bytes != sizeof(ReduceArguments) || !map_operands(call)) return invalid_value;
  put(on, {.action = [=] {
        kernels::device::run_in_turn<4>({blocks, threads}, [&](const auto& machine) {
          reinterpret_cast<EmulatedKernel<4>>(kernel)(machine, call);
        });
      }});
  return success;
}

}  // namespace capstan::fake
