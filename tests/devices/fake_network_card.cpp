// SPDX-License-Identifier: Apache-2.0

// A network card with memory of a device, for Soft-RoCE: it registers memory that the driver's
// stand-in exports. The library's own calls of libibverbs arrive here.

#include <dlfcn.h>
#include <sys/mman.h>

#include "tests/devices/device_array.hpp"
#include "transports/verbs/library.hpp"

namespace {

ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t length,
                      std::uint64_t address, int descriptor, int access) {
  void* const mapped =  // until the process ends
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
             static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return nullptr;
  capstan::driver_knob("dma_bufs", 1);
  static const auto reg_mr = reinterpret_cast<decltype(&::ibv_reg_mr_iova)>(
      ::dlsym(::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD), "ibv_reg_mr_iova"));
  return reg_mr(domain, mapped, length, address, access);
}

/// Before main(): where there is no libibverbs, there is no card either.
const bool is_in_place = [] {
  if (!::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NODELETE)) return false;
  capstan::verbs::library().reg_dmabuf_mr = reg_dmabuf_mr;
  return true;
}();

}  // namespace
