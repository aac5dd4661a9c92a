// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "capstan/tensor.hpp"

namespace capstan {

/// The runtime of CUDA or HIP, loaded at run time: streams, events, memory and copies. Thread-safe.
/// Failures are a BackendError with the runtime's own text.
class [[gnu::visibility("hidden")]] DeviceRuntime {
 public:
  /// Loads the runtime of CUDA or HIP. `path` names a library instead of the usual ones. Throws
  /// NotSupported with the names that were looked for.
  static std::shared_ptr<DeviceRuntime> load(DeviceType type, const std::string& path = {});

  /// The device of the calling thread from now on.
  void use(int device) const;
  void* make_stream() const;
  void free_stream(void* stream) const noexcept;
  void* record_event(void* stream) const;
  bool has_ended(void* event) const;
  void free_event(void* event) const noexcept;
  void* allocate(std::size_t bytes) const;
  void free(void* memory) const noexcept;
  /// Page-locked host memory.
  std::shared_ptr<std::byte> pinned(std::size_t bytes) const;
  /// Between host and device, in either direction; returns when it is done.
  void copy(void* to, const void* from, std::size_t bytes) const;

 private:
  struct Functions {
    int (*set_device)(int);
    int (*stream_create)(void**, unsigned flags);
    int (*stream_destroy)(void*);
    int (*event_create)(void**, unsigned flags);
    int (*event_record)(void*, void*);
    int (*event_query)(void*);
    int (*event_destroy)(void*);
    int (*malloc)(void**, std::size_t);
    int (*free)(void*);
    int (*host_malloc)(void**, std::size_t, unsigned flags);
    int (*host_free)(void*);
    int (*memcpy)(void*, const void*, std::size_t, int kind);
    const char* (*error_string)(int);
  };
  void require(int code, std::string_view call) const;
  void find(void* library, bool cuda);

  std::string name_;  ///< "CUDA", "HIP"
  Functions functions_{};
};

}  // namespace capstan
