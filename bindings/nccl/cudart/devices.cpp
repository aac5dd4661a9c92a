// SPDX-License-Identifier: Apache-2.0

// Devices: all are alike, and are the host.

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <span>

#include "bindings/nccl/cudart/runtime.hpp"

namespace capstan::cudart {
namespace {

/// Programs ask by the capability whether a device adds bf16 and fp8, as Capstan does.
constexpr int capability = 9;
constexpr int threads_of_a_block = 1024, threads_of_a_warp = 32;

std::size_t memory(int name) {
  return static_cast<std::size_t>(::sysconf(name)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// The attributes that are not 0.
int attribute(int which, int index) {
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      return threads_of_a_block;
    case cudaDevAttrWarpSize:
      return threads_of_a_warp;
    case cudaDevAttrComputeCapabilityMajor:
      return capability;
    case cudaDevAttrPciBusId:
      return index + 1;
    case cudaDevAttrMultiProcessorCount:
    case cudaDevAttrAsyncEngineCount:
    case cudaDevAttrIntegrated:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrHostRegisterSupported:
      return 1;
    default:
      return 0;
  }
}

/// Where cudaDeviceProp has an attribute, by CUDA's version. What lies before is the same in all.
struct Place {
  std::size_t offset;
  int attribute;
};
struct Layout {
  std::size_t size;
  std::array<Place, 8> places;
};

constexpr Layout cuda_13 = {
    sizeof(cudaDeviceProp),
    {{{offsetof(cudaDeviceProp, multiProcessorCount), cudaDevAttrMultiProcessorCount},
      {offsetof(cudaDeviceProp, integrated), cudaDevAttrIntegrated},
      {offsetof(cudaDeviceProp, canMapHostMemory), cudaDevAttrCanMapHostMemory},
      {offsetof(cudaDeviceProp, concurrentKernels), cudaDevAttrConcurrentKernels},
      {offsetof(cudaDeviceProp, pciBusID), cudaDevAttrPciBusId},
      {offsetof(cudaDeviceProp, asyncEngineCount), cudaDevAttrAsyncEngineCount},
      {offsetof(cudaDeviceProp, unifiedAddressing), cudaDevAttrUnifiedAddressing},
      {offsetof(cudaDeviceProp, managedMemory), cudaDevAttrManagedMemory}}}};
static_assert(cuda_13.size == 1008 && offsetof(cudaDeviceProp, multiProcessorCount) == 384 &&
              offsetof(cudaDeviceProp, concurrentKernels) == 560 &&
              offsetof(cudaDeviceProp, pciBusID) == 568 &&
              offsetof(cudaDeviceProp, asyncEngineCount) == 584 &&
              offsetof(cudaDeviceProp, managedMemory) == 636);
[[maybe_unused]] constexpr Layout cuda_12 = {1032,
                                             {{{388, cudaDevAttrMultiProcessorCount},
                                               {396, cudaDevAttrIntegrated},
                                               {400, cudaDevAttrCanMapHostMemory},
                                               {576, cudaDevAttrConcurrentKernels},
                                               {584, cudaDevAttrPciBusId},
                                               {600, cudaDevAttrAsyncEngineCount},
                                               {604, cudaDevAttrUnifiedAddressing},
                                               {652, cudaDevAttrManagedMemory}}}};
/// The size of cudaDeviceProp in programs that were built with CUDA 11.
[[maybe_unused]] constexpr Layout cuda_11 = {712, {}};

void describe(void* to, int index, const Layout& layout) {
  require(to);
  device(index);
  std::memset(to, 0, layout.size);
  auto& properties = *static_cast<cudaDeviceProp*>(to);
  std::snprintf(properties.name, sizeof properties.name, "Capstan: host memory as device %d",
                index);
  std::memcpy(properties.uuid.bytes, &index, sizeof index);
  properties.totalGlobalMem = memory(_SC_PHYS_PAGES);
  properties.warpSize = threads_of_a_warp;
  properties.maxThreadsPerBlock = threads_of_a_block;
  properties.major = capability;
  for (const Place& place : layout.places) {
    const int value = attribute(place.attribute, index);
    if (place.offset != 0) std::memcpy(static_cast<char*>(to) + place.offset, &value, sizeof value);
  }
}

int device_of(const char* id) {
  unsigned domain = 0, bus = 0;
  require(id && std::sscanf(id, "%x:%x", &domain, &bus) == 2);
  device(static_cast<int>(bus) - 1);
  return static_cast<int>(bus) - 1;
}

/// Peer access between devices, from the first to the second. Memory can be reached without it:
/// it is kept because CUDA refuses to enable access twice.
struct Peers {
  std::mutex mutex;
  std::set<std::pair<int, int>> open;
};

Peers& peers() {
  static auto* const all = new Peers;
  return *all;
}

void open_peer(int peer) {
  device(peer);
  require(peer != current_device(), cudaErrorInvalidDevice);
  const std::scoped_lock lock{peers().mutex};
  require(peers().open.emplace(current_device(), peer).second, cudaErrorPeerAccessAlreadyEnabled);
}

void close_peer(int peer) {
  const std::scoped_lock lock{peers().mutex};
  require(peers().open.erase({current_device(), peer}) == 1, cudaErrorPeerAccessNotEnabled);
}

cudaError_t synchronize_device() {
  require_that_it_may_wait();
  return device(current_device()).synchronize();
}

}  // namespace
}  // namespace capstan::cudart

using namespace capstan::cudart;

CAPSTAN_CUDART_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  return guarded([&] {
    require(count);
    *count = device_count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaGetDevice(int* index) {
  return guarded([&] {
    require(index);
    *index = current_device();
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaSetDevice(int index) {
  return guarded([&] {
    device(index);
    current_device() = index;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaInitDevice(int index, unsigned, unsigned) {
  return guarded([&] { device(index); });
}

#if CAPSTAN_CUDART_MAJOR == 12
CAPSTAN_CUDART_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  return guarded([&] { describe(properties, index, cuda_11); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaGetDeviceProperties_v2(void* properties, int index) {
  return guarded([&] { describe(properties, index, cuda_12); });
}
#else
CAPSTAN_CUDART_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  return guarded([&] { describe(properties, index, cuda_13); });
}
#endif

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which,
                                                         int index) {
  return guarded([&] {
    require(value && which > 0 && which < cudaDevAttrMax);
    device(index);
    *value = attribute(which, index);
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int index) {
  return guarded([&] {
    require(id && length > 0);
    device(index);
    const int written =
        std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0", index + 1);
    require(written < length);
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* index, const char* id) {
  return guarded([&] {
    require(index);
    *index = device_of(id);
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  for (int* const bound : {least, greatest})
    if (bound) *bound = 0;
  return cudaSuccess;
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int index, int peer) {
  return guarded([&] {
    require(can);
    device(index);
    device(peer);
    *can = index != peer;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return guarded([&] { open_peer(peer); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return guarded([&] { close_peer(peer); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceSynchronize() {
  return guarded([] { return synchronize_device(); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDeviceReset() {
  return guarded([] { return synchronize_device(); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  return cudaRuntimeGetVersion(version);
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  return guarded([&] {
    require(version);
    *version = CAPSTAN_CUDART_MAJOR * 1000;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  return guarded([&] {
    require(available && total);
    *available = memory(_SC_AVPHYS_PAGES);
    *total = memory(_SC_PHYS_PAGES);
  });
}
