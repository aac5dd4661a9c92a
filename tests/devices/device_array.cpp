// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/device_array.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace capstan {
namespace {

/// The stand-in, or the driver of the machine where the program names it.
void* library() {
  const char* const named = std::getenv("CAPSTAN_TEST_DRIVER");
  static void* const loaded =
      ::dlopen(named ? named : FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!loaded) throw std::runtime_error(::dlerror());
  return loaded;
}

template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library(), name));
  if (!function || function(arguments...) != 0) throw std::runtime_error(name);
}

using Address = unsigned long long;
[[maybe_unused]] Address to_address(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

#ifdef FAKE_HIP
void initialize() {}
void* allocate(Where where, std::size_t size) {
  void* memory = nullptr;
  if (where == Where::managed) return call("hipMallocManaged", &memory, size, 1U), memory;
  call("hipSetDevice", where == Where::pool ? 1 : 0);
  call("hipMalloc", &memory, size);
  call("hipSetDevice", 0);
  return memory;
}
void release(void* memory) {
  call("hipFree", memory);
}
void copy_bytes(void* to, const void* from, std::size_t size) {
  call("hipMemcpy", to, from, size, 4);
}
#else
void initialize() {
  call("cuInit", 0U);
}
template <class Body>
void in_primary_context(const Body& body) {
  static void* const context = [] {
    void* found = nullptr;
    call("cuDevicePrimaryCtxRetain", &found, 0);
    return found;
  }();
  call("cuCtxPushCurrent_v2", context);
  body();
  void* former = nullptr;
  call("cuCtxPopCurrent_v2", &former);
}
void* allocate(Where where, std::size_t size) {
  Address memory = 0;
  if (where == Where::pool)
    call("cuMemAlloc_v2", &memory, size);
  else
    in_primary_context([&] {
      if (where == Where::managed)
        call("cuMemAllocManaged", &memory, size, 1U);
      else
        call("cuMemAlloc_v2", &memory, size);
    });
  return reinterpret_cast<void*>(memory);
}
void release(void* memory) {
  in_primary_context([&] { call("cuMemFree_v2", to_address(memory)); });
}
void copy_bytes(void* to, const void* from, std::size_t size) {
  in_primary_context([&] { call("cuMemcpy", to_address(to), to_address(from), size); });
}
#endif

}  // namespace

void load_driver() {
  static const bool once = (initialize(), library() != nullptr);
  static_cast<void>(once);
}

void* driver_symbol(const char* name) {
  return ::dlsym(library(), name);
}

int driver_knob(const std::string& name, int change) {
  const auto knob = driver_function<int(const char*, int)>("fake_knob");
  return knob ? knob(name.c_str(), change) : 0;
}

Memory::Memory(Where where, std::size_t size)
    : where_(where),
      size_(size),
      data_(where == Where::host
                ? new std::byte[size]
                : static_cast<std::byte*>(allocate(where, std::max<std::size_t>(size, 1)))) {}

Memory::~Memory() {
  if (where_ == Where::host)
    delete[] data_;
  else
    release(data_);
}

void Memory::write(std::span<const std::byte> from) {
  copy_bytes(data_, from.data(), from.size());
}

std::vector<std::byte> Memory::read() const {
  std::vector<std::byte> bytes(size_);
  copy_bytes(bytes.data(), data_, size_);
  return bytes;
}

}  // namespace capstan
