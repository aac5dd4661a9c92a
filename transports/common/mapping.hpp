// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "capstan/quantity.hpp"

namespace capstan {

/// `size` rounded up to whole pages.
Bytes whole_pages(Bytes size);

/// Whether a segment can have `size` bytes; `require` throws InvalidArgument if not.
bool is_segment_size(Bytes size);
void require_segment_size(Bytes size);

/// Mapped memory, unmapped when destroyed. A guard page follows it, so that an access beyond the
/// end faults. Memory of at least 2 MiB is aligned to 2 MiB, so that the kernel can use huge pages.
class Mapping {
 public:
  /// The memory that forked children have in its place: zeros of their own, so that nothing they do
  /// there concerns others; or the same memory.
  enum class InChildren { zeros, the_memory };

  /// Zeros, private to this process. Costs memory only where touched. Throws SystemError.
  static Mapping anonymous(Bytes size, InChildren in_children = InChildren::zeros);
  /// The first `size` bytes of the file `fd`, shared with all processes that map them. `protection`
  /// as in mmap(2). Throws SystemError.
  static Mapping shared(int fd, Bytes size, int protection,
                        InChildren in_children = InChildren::zeros);

  Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }

 private:
  class ZerosInChildren;

  static Mapping reserve(Bytes size);
  void fill(Bytes size, int protection, int flags, int fd, InChildren in_children);

  std::byte* data_ = nullptr;
  std::size_t length_ = 0;  // with the guard page
  std::unique_ptr<ZerosInChildren> zeros_in_children_;
};

}  // namespace capstan
