// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace capstan {

/// Loads the fake driver of this test program, CUDA's, or HIP's with FAKE_HIP, as a program that
/// uses devices does. Later calls do nothing.
void load_driver();

/// A function of that driver by its name; null if there is none.
void* driver_symbol(const char* name);
template <class Function>
Function* driver_function(const char* name) {
  return reinterpret_cast<Function*>(driver_symbol(name));
}

/// See fake_device.cpp; returns the new value.
int driver_knob(const std::string& name, int change = 0);

/// The kind of memory of a test.
enum class Where {
  host,
  device,
  pool,     ///< on the second device; CUDA: without a context
  managed,  ///< accessible to host and device
};

/// Bytes of the host or of a device.
class Memory {
 public:
  Memory(Where where, std::size_t size);
  Memory(const Memory&) = delete;
  ~Memory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  void write(std::span<const std::byte> from);
  std::vector<std::byte> read() const;

 private:
  const Where where_;
  const std::size_t size_;
  std::byte* data_;
};

/// Elements on a device, accessible by copies only.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, Where where = Where::device)
      : count_(values.size()), memory_(where, values.size() * sizeof(T)) {
    memory_.write(std::as_bytes(std::span{values}));
  }
  /// The address on the device. The test must not access it.
  std::span<T> span() const { return {reinterpret_cast<T*>(memory_.data()), count_}; }
  std::vector<T> values() const {
    const auto bytes = memory_.read();
    const T* const first = reinterpret_cast<const T*>(bytes.data());
    return {first, first + count_};
  }

 private:
  std::size_t count_;
  Memory memory_;
};

}  // namespace capstan
