#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "core/device/device_memory.hpp"
#include "tests/devices/device_array.hpp"

namespace capstan {

template <class Function>
Function* driver_function(const char* name) {
  static void* const library = ::dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

/// A stream of the program, and kernels in it.
class Stream {
 public:
  explicit Stream(const void* memory) {
    const auto where = find_device_buffer(memory).value();
    int former = 0;
    if (where.driver->enter(where.place, former) != 0 || where.driver->make_stream(stream_) != 0)
      ADD_FAILURE() << "no stream";
    where.driver->leave(former);
  }
  void* get() const { return stream_; }

  /// The body runs when its turn has come, and may access memory by on_device_data().
  void launch(std::function<void()> body) {
    static const auto launch_ = driver_function<int(void*, void (*)(void*), void*)>("fake_launch");
    launch_(
        stream_,
        [](void* body_) {
          const std::unique_ptr<std::function<void()>> owned{
              static_cast<std::function<void()>*>(body_)};
          (*owned)();
        },
        new std::function<void()>{std::move(body)});
  }
  /// Launches again what was launched here while streams were captured.
  void replay() {
    static const auto replay_ = driver_function<void(void*)>("fake_replay");
    replay_(stream_);
  }
  /// 0, or the error of the stream.
  int synchronize() {
    static const auto wait = driver_function<int(void*)>("fake_synchronize");
    return wait(stream_);
  }

 private:
  void* stream_ = nullptr;
};

template <class T>
T* on_device_data(const DeviceArray<T>& array) {
  static const auto data = driver_function<void*(const void*)>("fake_data");
  return static_cast<T*>(data(array.span().data()));
}

}  // namespace capstan
