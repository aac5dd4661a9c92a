#include "core/memory/huge_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace capstan {

namespace {

bool collapse(std::uint64_t begin, std::uint64_t end) {
  return begin >= end || ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_COLLAPSE) == 0;
}

}  // namespace

bool collapse_pages(const void* begin, Bytes size) {
  const std::uint64_t page = huge_page.value();
  const auto first = reinterpret_cast<std::uint64_t>(begin), last = first + size.value();
  const std::uint64_t inner = (first + page - 1) / page * page, end = last / page * page;
  const bool collapsed = collapse(inner, end);
  collapse(first / page * page, std::min(inner, last / page * page + page));
  if (end >= inner) collapse(end, (last + page - 1) / page * page);
  return collapsed;
}

bool can_collapse_pages() {
  const std::uint64_t twice = 2 * huge_page.value();  // contains a whole one wherever it begins
  void* const memory =
      ::mmap(nullptr, twice, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  for (const std::uint64_t at : {std::uint64_t{0}, huge_page.value()})  // what is empty is refused
    static_cast<volatile std::byte*>(memory)[at] = std::byte{1};
  const bool collapsed = collapse_pages(memory, Bytes{twice});
  ::munmap(memory, twice);
  return collapsed;
}

/// Not at once, as many buffers are used only once. Now and then again, as a buffer may have been
/// freed meanwhile and another one begin there; what is huge already costs little. Ever more rarely
/// where it fails, as for memory that is locked.
void RecurringBuffers::note(const void* begin, Bytes size) {
  constexpr std::size_t most_kept = 1024;
  if (uses_.size() >= most_kept) uses_.clear();
  Uses& uses = uses_[begin];
  if (uses.size != size) uses = {.size = size};
  if (++uses.count < uses.next) return;
  if (!collapse_pages(begin, size)) uses.period *= 2;
  uses.next = uses.count + uses.period;
}

}  // namespace capstan
