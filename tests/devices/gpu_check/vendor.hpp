// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "core/platform/device/at_place.hpp"
#include "core/platform/device/device_memory.hpp"

namespace capstan::gpu_check {

/// Functions of the vendor's library that only checks need, by CUDA's and HIP's name.
class Vendor {
 public:
  explicit Vendor(const DeviceBuffer& where) : where_(where) {}

  bool has_graphs() const { return find("cuGraphLaunch", "hipGraphLaunch") != nullptr; }
  /// The card's own copy from device to device.
  void copy(void* to, const void* from, std::size_t bytes, void* stream) const {
    call("copying", "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", to, from, bytes, stream);
  }
  /// A graph, to be launched, of what `body` puts into the stream; it is never freed.
  template <class Body>
  void* captured(void* stream, const Body& body) const {
    constexpr int relaxed = 2;
    void *graph = nullptr, *launchable = nullptr;
    call("capturing", "cuStreamBeginCapture_v2", "hipStreamBeginCapture", stream, relaxed);
    body();
    call("capturing", "cuStreamEndCapture", "hipStreamEndCapture", stream, &graph);
    call("making a graph", "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags",
         &launchable, graph, 0ULL);
    return launchable;
  }
  void launch(void* graph, void* stream) const {
    call("launching a graph", "cuGraphLaunch", "hipGraphLaunch", graph, stream);
  }

 private:
  void* find(const char* cuda, const char* hip) const {
    const bool is_hip = where_.driver->name() == "HIP";
    void* const library =
        ::dlopen(is_hip ? "libamdhip64.so" : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return library ? ::dlsym(library, is_hip ? hip : cuda) : nullptr;
  }
  template <class... Arguments>
  void call(const char* what, const char* cuda, const char* hip, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(find(cuda, hip));
    if (!function) throw std::runtime_error(std::string{"the driver lacks "} + cuda);
    at_place(where_, what, [&](DeviceDriver&) { return function(arguments...); });
  }

  const DeviceBuffer where_;
};

}  // namespace capstan::gpu_check
