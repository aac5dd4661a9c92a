// SPDX-License-Identifier: Apache-2.0

// The runtimes of CUDA and HIP, for tests: see standin_nccl.cpp. Device memory is the host's.

#include <cstdlib>
#include <cstring>

#include "tests/backends/standin_streams.hpp"

namespace standin {

std::atomic<int> objects = 0;

}  // namespace standin

namespace {

using standin::Event;
using standin::objects;
using standin::Stream;

constexpr int not_ready = 600;

}  // namespace

EXPORT int standin_objects() {
  return objects;
}

#define RUNTIME(vendor, HOST_ALLOC, HOST_FREE)                                   \
  EXPORT int vendor##SetDevice(int device) {                                     \
    return device < 8 ? 0 : 101;                                                 \
  }                                                                              \
  EXPORT int vendor##StreamCreateWithFlags(void** stream, unsigned) {            \
    *stream = new Stream;                                                        \
    return 0;                                                                    \
  }                                                                              \
  EXPORT int vendor##StreamDestroy(void* stream) {                               \
    return delete static_cast<Stream*>(stream), 0;                               \
  }                                                                              \
  EXPORT int vendor##EventCreateWithFlags(void** event, unsigned) {              \
    *event = new Event;                                                          \
    return 0;                                                                    \
  }                                                                              \
  EXPORT int vendor##EventRecord(void* event, void* stream) {                    \
    auto& recorded = *static_cast<Event*>(event);                                \
    recorded.stream = static_cast<Stream*>(stream);                              \
    recorded.number = recorded.stream->last();                                   \
    return 0;                                                                    \
  }                                                                              \
  EXPORT int vendor##EventQuery(void* event) {                                   \
    const auto& recorded = *static_cast<Event*>(event);                          \
    return recorded.stream->has_done(recorded.number) ? 0 : not_ready;           \
  }                                                                              \
  EXPORT int vendor##EventDestroy(void* event) {                                 \
    return delete static_cast<Event*>(event), 0;                                 \
  }                                                                              \
  EXPORT int vendor##Malloc(void** memory, std::size_t size) {                   \
    ++objects;                                                                   \
    *memory = std::malloc(size);                                                 \
    return 0;                                                                    \
  }                                                                              \
  EXPORT int vendor##Free(void* memory) {                                        \
    return --objects, std::free(memory), 0;                                      \
  }                                                                              \
  EXPORT int vendor##HOST_ALLOC(void** memory, std::size_t size, unsigned) {     \
    return vendor##Malloc(memory, size);                                         \
  }                                                                              \
  EXPORT int vendor##HOST_FREE(void* memory) {                                   \
    return vendor##Free(memory);                                                 \
  }                                                                              \
  EXPORT int vendor##Memcpy(void* to, const void* from, std::size_t size, int) { \
    std::memcpy(to, from, size);                                                 \
    return 0;                                                                    \
  }                                                                              \
  EXPORT const char* vendor##GetErrorString(int) {                               \
    return "invalid device ordinal";                                             \
  }

RUNTIME(cuda, HostAlloc, FreeHost)
RUNTIME(hip, HostMalloc, HostFree)
