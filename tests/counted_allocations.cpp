// SPDX-License-Identifier: Apache-2.0
#include "tests/counted_allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t count = 0;
thread_local bool is_out = false;

[[maybe_unused]] void* allocate(std::size_t size) {
  ++count;
  void* const memory = is_out ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (!memory) throw std::bad_alloc{};
  return memory;
}

}  // namespace

// Sanitizers check that each allocation is freed as it was made.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t size) {
  return allocate(size);
}
void* operator new[](std::size_t size) {
  return allocate(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace capstan::test {

std::uint64_t allocations() {
  return count;
}

bool& memory_is_out() {
  return is_out;
}

}  // namespace capstan::test
