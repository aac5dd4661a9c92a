// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace capstan {

/// Memory of ended operations of one size, for the next ones of the same thread: a program that has
/// many messages under way makes and drops as many operations at a time, more than a general
/// allocator keeps at hand.
// measured: docs/lab-notebook.md#memory-of-operations
template <std::size_t size>
class SpareOperations {
 public:
  static void* take() {
    Spare& spare = spare_;
    if (!spare.first) return ::operator new(size);
    --spare.count;
    return std::exchange(spare.first, *static_cast<void**>(spare.first));
  }
  static void give_back(void* memory) noexcept {
    Spare& spare = spare_;
    if (spare.count >= most(spare)) return ::operator delete(memory);
    *static_cast<void**>(memory) = std::exchange(spare.first, memory);
    ++spare.count;
  }

 private:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr unsigned most_kept = 0;  // the sanitizer sees uses after the end
#else
  static constexpr unsigned most_kept = 256;
#endif

  /// Needs no constructor, so that each use is as cheap as that of a variable.
  struct Spare {
    void* first;
    unsigned count;
    bool opened, closed;
  };
  /// Frees the memory when the thread ends. Operations that end later are freed at once.
  struct Closer {
    ~Closer() {
      spare_.closed = true;
      while (spare_.first)
        ::operator delete(std::exchange(spare_.first, *static_cast<void**>(spare_.first)));
    }
  };

  static unsigned most(Spare& spare) {
    if (!spare.opened) {
      thread_local const Closer closer;
      static_cast<void>(&closer);
      spare.opened = true;
    }
    return spare.closed ? 0 : most_kept;
  }

  static inline thread_local constinit Spare spare_{};
};

/// Allocates operations for std::allocate_shared.
template <class T>
struct OperationMemory {
  using value_type = T;

  OperationMemory() = default;
  template <class Other>
  explicit(false) OperationMemory(const OperationMemory<Other>&) {}

  T* allocate(std::size_t) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(SpareOperations<sizeof(T)>::take());
  }
  void deallocate(T* memory, std::size_t) noexcept {
    SpareOperations<sizeof(T)>::give_back(memory);
  }
  bool operator==(const OperationMemory&) const = default;
};

/// Makes an operation that programs start again and again.
template <class T, class... Arguments>
std::shared_ptr<T> make_operation(Arguments&&... arguments) {
  return std::allocate_shared<T>(OperationMemory<T>{}, std::forward<Arguments>(arguments)...);
}

}  // namespace capstan
