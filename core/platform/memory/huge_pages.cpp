// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/huge_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/platform/memory/registration/address_range.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace capstan {

namespace {

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

/// Another core may hold a page for a moment. The system then says "try again".
bool collapse(std::uint64_t begin, std::uint64_t end) {
  constexpr int most_tries = 4;
  for (int tries = 0; begin < end && tries < most_tries; ++tries) {
    if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_COLLAPSE) == 0) return true;
    if (errno != EAGAIN && errno != EBUSY) return false;
  }
  return begin >= end;
}

/// Bytes of a huge page that no memory backs yet; nothing unless the whole page is mapped.
std::optional<std::uint64_t> unused_bytes(std::uint64_t page) {
  std::vector<unsigned char> there(huge_page.value() / page_size());
  if (::mincore(reinterpret_cast<void*>(page), huge_page.value(), there.data()) != 0)
    return std::nullopt;
  const auto unused = std::ranges::count_if(there, [](unsigned char bits) { return !(bits & 1); });
  return static_cast<std::uint64_t>(unused) * page_size();
}

/// Collapses one huge page unless that adds more than half of the buffer, or half a page.
bool collapse_end(std::uint64_t page, Bytes of) {
  const auto unused = unused_bytes(page);
  return unused && *unused <= std::max(huge_page, of).value() / 2 &&
         collapse(page, page + huge_page.value());
}

}  // namespace

bool collapse_pages(const void* begin, Bytes size) {
  const std::uint64_t page = huge_page.value(), first = address_of(begin);
  return collapse((first + page - 1) / page * page, (first + size.value()) / page * page);
}

HugePlaces::HugePlaces(const void* begin, Bytes size)
    : begin_(address_of(begin)), end_(begin_ + size.value()), count_(0) {
  const std::uint64_t page = huge_page.value();
  if (begin_ < end_) count_ = (end_ - 1) / page - begin_ / page + 1;
}

bool HugePlaces::is_filled(std::size_t place) const {
  return begin_ <= address(place) && address(place) + huge_page.value() <= end_;
}

bool HugePlaces::collapse(std::size_t place) const {
  const std::uint64_t at = address(place);
  return is_filled(place) ? capstan::collapse(at, at + huge_page.value())
                          : collapse_end(at, Bytes{end_ - begin_});
}

bool can_collapse_pages() {
  const std::uint64_t twice =
      2 * huge_page.value();  // contains a whole huge page wherever it begins
  void* const memory =
      ::mmap(nullptr, twice, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  for (const std::uint64_t at :
       {std::uint64_t{0}, huge_page.value()})  // the kernel refuses empty pages
    static_cast<volatile std::byte*>(memory)[at] = std::byte{1};
  const bool collapsed = collapse_pages(memory, Bytes{twice});
  ::munmap(memory, twice);
  return collapsed;
}

}  // namespace capstan
