// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "capstan/export.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Elements in memory that the library has allocated (Communicator::allocate): ranks on the same
/// host read it in place, without a system call or a copy. It is a range like any other: whole or
/// in part (span().subspan(...)) it may be the input, the output or both of any call, and buffers
/// of other memory may be used beside it, here and on other ranks.
///
/// The destructor gives the memory back. It may run on any thread and after the communicator's
/// destructor, but not while an operation uses the memory. Distinct buffers may be used by distinct
/// threads.
template <Element T>
class SharedBuffer {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  SharedBuffer() = default;
  SharedBuffer(SharedBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() { return reinterpret_cast<T*>(memory_.get()); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.get()); }
  std::size_t size() const { return size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

 private:
  friend class Communicator;
  SharedBuffer(std::shared_ptr<std::byte> memory, std::size_t size)
      : memory_(std::move(memory)), size_(size) {}

  std::shared_ptr<std::byte> memory_;
  std::size_t size_ = 0;
};

}  // namespace capstan
