// SPDX-License-Identifier: Apache-2.0

// Memory of devices is the host's; what was had, and how, is written down for programs that ask.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "bindings/nccl/cudart/runtime.hpp"

namespace capstan::cudart {
namespace {

constexpr std::size_t page = 4096;

struct Block {
  std::size_t size;
  cudaMemoryType type;
  int device;
  bool registered = false;  ///< memory of the program
};

struct Blocks {
  std::mutex mutex;
  std::map<std::uintptr_t, Block> by_address;
};

Blocks& blocks() {
  static auto* const all = new Blocks;
  return *all;
}

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

std::optional<Block> block_with(const void* address) {
  const std::scoped_lock lock{blocks().mutex};
  auto next = blocks().by_address.upper_bound(number(address));
  if (next == blocks().by_address.begin()) return std::nullopt;
  --next;
  if (number(address) - next->first >= next->second.size) return std::nullopt;
  return next->second;
}

void write_down(void* address, const Block& block) {
  const std::scoped_lock lock{blocks().mutex};
  require(blocks().by_address.emplace(number(address), block).second,
          cudaErrorHostMemoryAlreadyRegistered);
}

/// Takes a block away that was had in the same way.
void forget(void* address, bool registered, cudaError_t otherwise) {
  const std::scoped_lock lock{blocks().mutex};
  const auto found = blocks().by_address.find(number(address));
  require(found != blocks().by_address.end() && found->second.registered == registered, otherwise);
  blocks().by_address.erase(found);
}

void allocate(void** to, std::size_t size, cudaMemoryType type) {
  require(to);
  device(current_device());
  *to = nullptr;
  if (size == 0) return;
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  require(size / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) < pages,
          cudaErrorMemoryAllocation);
  void* const memory = std::aligned_alloc(page, (size + page - 1) / page * page);
  require(memory, cudaErrorMemoryAllocation);
  write_down(memory, {size, type, current_device()});
  *to = memory;
}

void release(void* address) {
  if (!address) return;
  forget(address, false, cudaErrorInvalidValue);
  std::free(address);
}

/// As CUDA does: what streams still use may not go.
void release_after_all_work(void* address) {
  require_that_it_may_wait();
  if (const auto block = block_with(address)) device(block->device).synchronize();
  release(address);
}

/// The copy that a stream runs. Source and target are the program's own until it has.
Stream::Work copy(void* to, const void* from, std::size_t size) {
  return [=] { std::memmove(to, from, size); };
}

bool reads_pageable(const void* from, cudaMemcpyKind kind) {
  return (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDefault) &&
         type_of(from) == cudaMemoryTypeUnregistered;
}

bool writes_pageable(void* to, cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToHost ||
         ((kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDefault) &&
          type_of(to) == cudaMemoryTypeUnregistered);
}

/// As CUDA does: memory that is not pinned is read before the call returns, and written, too.
cudaError_t copy_on(cudaStream_t stream, void* to, const void* from, std::size_t size,
                    cudaMemcpyKind kind) {
  require(kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection);
  require((to && from) || size == 0);
  if (size == 0) return cudaSuccess;
  if (writes_pageable(to, kind)) {
    put(stream, copy(to, from, size));
    return synchronize(stream);
  }
  if (!reads_pageable(from, kind)) {
    put(stream, copy(to, from, size));
    return cudaSuccess;
  }
  const auto* const bytes = static_cast<const std::byte*>(from);
  put(stream, [to, data = std::vector<std::byte>(bytes, bytes + size)] {
    std::memcpy(to, data.data(), data.size());
  });
  return cudaSuccess;
}

cudaError_t copy_now(void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
  require(kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection);
  require((to && from) || size == 0);
  if (size == 0) return cudaSuccess;
  require_that_it_may_wait();
  put(nullptr, copy(to, from, size));
  return synchronize(nullptr);
}

cudaError_t copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                      std::size_t width, std::size_t height) {
  require(to && from && width <= to_pitch && width <= from_pitch);
  require_that_it_may_wait();
  put(nullptr, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memmove(static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch, width);
  });
  return synchronize(nullptr);
}

void set_on(cudaStream_t stream, void* to, int value, std::size_t size) {
  require(to || size == 0);
  if (size > 0) put(stream, [=] { std::memset(to, value, size); });
}

/// Programs built with CUDA 12 give no room for more.
constexpr std::size_t size_of_attributes = offsetof(cudaPointerAttributes, reserved);

void describe(cudaPointerAttributes* to, const void* address) {
  require(to);
  std::memset(to, 0, CAPSTAN_CUDART_MAJOR == 12 ? size_of_attributes : sizeof *to);
  const auto block = block_with(address);
  void* const itself = const_cast<void*>(address);
  to->hostPointer = itself;
  to->device = block ? block->device : -2;  // CUDA's number of no device
  to->type = block ? block->type : cudaMemoryTypeUnregistered;
  to->devicePointer = block ? itself : nullptr;
}

}  // namespace

cudaMemoryType type_of(const void* address) {
  const auto block = block_with(address);
  return block ? block->type : cudaMemoryTypeUnregistered;
}

}  // namespace capstan::cudart

using namespace capstan::cudart;

CAPSTAN_CUDART_EXPORT cudaError_t cudaMalloc(void** to, std::size_t size) {
  return guarded([&] { allocate(to, size, cudaMemoryTypeDevice); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMallocManaged(void** to, std::size_t size, unsigned) {
  return guarded([&] { allocate(to, size, cudaMemoryTypeManaged); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMallocHost(void** to, std::size_t size) {
  return guarded([&] { allocate(to, size, cudaMemoryTypeHost); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaHostAlloc(void** to, std::size_t size, unsigned) {
  return cudaMallocHost(to, size);
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMallocAsync(void** to, std::size_t size,
                                                  cudaStream_t stream) {
  return guarded([&] {
    stream_of(stream);
    allocate(to, size, cudaMemoryTypeDevice);
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaFree(void* address) {
  return guarded([&] { release_after_all_work(address); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaFreeHost(void* address) {
  return cudaFree(address);
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return guarded([&] {
    if (!address) return;
    forget(address, false, cudaErrorInvalidValue);
    put(stream, [=] { std::free(address); });
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaHostRegister(void* address, std::size_t size, unsigned) {
  return guarded([&] {
    require(address && size > 0);
    write_down(address, {size, cudaMemoryTypeHost, current_device(), true});
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaHostUnregister(void* address) {
  return guarded([&] { forget(address, true, cudaErrorHostMemoryNotRegistered); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return guarded([&] {
    require(device && type_of(host) != cudaMemoryTypeUnregistered);
    *device = host;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                           const void* address) {
  return guarded([&] { describe(attributes, address); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size,
                                             cudaMemcpyKind kind) {
  return guarded([&] { return copy_now(to, from, size, kind); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size,
                                                  cudaMemcpyKind kind, cudaStream_t stream) {
  return guarded([&] { return copy_on(stream, to, from, size, kind); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int,
                                                 std::size_t size) {
  return cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice);
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int,
                                                      std::size_t size, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                               std::size_t from_pitch, std::size_t width,
                                               std::size_t height, cudaMemcpyKind) {
  return guarded([&] { return copy_rows(to, to_pitch, from, from_pitch, width, height); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemset(void* to, int value, std::size_t size) {
  return guarded([&] {
    require_that_it_may_wait();
    set_on(nullptr, to, value, size);
    return synchronize(nullptr);
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaMemsetAsync(void* to, int value, std::size_t size,
                                                  cudaStream_t stream) {
  return guarded([&] { set_on(stream, to, value, size); });
}
