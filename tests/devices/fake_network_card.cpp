// SPDX-License-Identifier: Apache-2.0

// A network card with memory of a device, for Soft-RoCE: it registers memory that the driver's
// stand-in exports. The library's own calls of libibverbs arrive here.

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include "tests/devices/device_array.hpp"

extern "C" ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t length,
                                     std::uint64_t address, int descriptor, int access) {
  void* const mapped =  // until the process ends
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
             static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return nullptr;
  capstan::driver_knob("dma_bufs", 1);
  return ::ibv_reg_mr_iova(domain, mapped, length, address, access);
}
