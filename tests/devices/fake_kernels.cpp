// Kernels of the devices that need no device: those of the emulation, run by the worker of the
// streams.

#include "kernels/emulation/kernels.hpp"
#include "tests/devices/fake_device.hpp"

namespace capstan::fake {
namespace {

using kernels::device::EmulatedKernel;
using kernels::device::ReduceArguments;

}  // namespace

void* kernel_named(const char* name) {
  return reinterpret_cast<void*>(kernels::device::emulated_kernel<4>(name));
}

LaunchArguments::LaunchArguments(void** extra) {
  for (; reinterpret_cast<std::uintptr_t>(*extra) % 3 != 0; extra += 2) {
    if (reinterpret_cast<std::uintptr_t>(*extra) == 1) data = extra[1];
    if (reinterpret_cast<std::uintptr_t>(*extra) == 2) bytes = *static_cast<std::size_t*>(extra[1]);
  }
}

/// Puts the address at which the emulation accesses an operand in the place of the device's.
bool Devices::map_operands(ReduceArguments& arguments) {
  const std::lock_guard lock{mutex_};
  const auto mapped = [&](const void* address) {
    return found(address) ? const_cast<std::byte*>(reachable(address, 1)) : nullptr;
  };
  bool all = true;
  for (std::uint32_t s = 0; s < arguments.source_count; ++s)
    all = (arguments.sources[s] = mapped(arguments.sources[s])) && all;
  for (std::uint32_t d = 0; d < arguments.destination_count; ++d)
    all = (arguments.destinations[d] = mapped(arguments.destinations[d])) && all;
  return all;
}

int Devices::launch(void* kernel, unsigned blocks, unsigned threads, const void* arguments,
                    std::size_t bytes, void* stream) {
  if (bytes != sizeof(ReduceArguments) || !stream) return invalid_value;
  ReduceArguments call = *static_cast<const ReduceArguments*>(arguments);
  if (!map_operands(call)) return invalid_value;
  knob("kernels", 1);
  streams().put(static_cast<Stream*>(stream), {.action = [=] {
                  kernels::device::run_in_turn<4>({blocks, threads}, [&](const auto& machine) {
                    reinterpret_cast<EmulatedKernel<4>>(kernel)(machine, call);
                  });
                }});
  return success;
}

}  // namespace capstan::fake
