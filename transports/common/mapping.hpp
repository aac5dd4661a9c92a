#pragma once

#include <cstddef>

#include "capstan/quantity.hpp"

namespace capstan {

/// `size` rounded up to whole pages.
Bytes whole_pages(Bytes size);

/// Whether a segment can have `size` bytes; `require` throws InvalidArgument if not.
bool is_segment_size(Bytes size);
void require_segment_size(Bytes size);

/// Mapped memory, unmapped when destroyed. It is followed by a guard page, so that running off its
/// end faults, and aligned to 2 MiB when it is at least that large, so that the kernel can back it
/// with huge pages.
class Mapping {
 public:
  /// Zeros that this process alone sees. Costs memory only where touched. Throws SystemError.
  static Mapping anonymous(Bytes size);
  /// The first `size` bytes of the file `fd`, shared with all who map them. `protection` as in
  /// mmap(2). Throws SystemError.
  static Mapping shared(int fd, Bytes size, int protection);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }

 private:
  static Mapping reserve(Bytes size);
  void fill(Bytes size, int protection, int flags, int fd);

  std::byte* data_ = nullptr;
  std::size_t length_ = 0;  // with the guard page
};

}  // namespace capstan
