#include "core/memory/huge_pages.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace capstan {

namespace {

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

bool collapse(std::uint64_t begin, std::uint64_t end) {
  return begin >= end || ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_COLLAPSE) == 0;
}

std::uint64_t small_page() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// How much of a huge page is not in use yet; nothing where it is not all mapped.
std::optional<std::uint64_t> unused_bytes(std::uint64_t page) {
  std::vector<unsigned char> there(huge_page.value() / small_page());
  if (::mincore(reinterpret_cast<void*>(page), huge_page.value(), there.data()) != 0)
    return std::nullopt;
  const auto unused = std::ranges::count_if(there, [](unsigned char bits) { return !(bits & 1); });
  return static_cast<std::uint64_t>(unused) * small_page();
}

/// Unless that takes much more memory than there is.
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

bool collapse_ends(const void* begin, Bytes size) {
  if (size == Bytes{0}) return true;
  const std::uint64_t page = huge_page.value(), first = address_of(begin),
                      last = first + size.value();
  const std::uint64_t head = first / page * page, tail = last / page * page;
  bool huge = first == head || collapse_end(head, size);
  if (last > tail && (tail > head || first == head)) huge = collapse_end(tail, size) && huge;
  return huge;
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
  Uses& uses = uses_of(begin);
  if (uses.size != size) uses = {.size = size, .occasion = occasion_};
  if (std::exchange(uses.occasion, occasion_) != occasion_) uses.next = uses.count + 1;
  const bool is_new = note_faults(uses);  // not at once then, either: it may be the only use
  if (std::exchange(uses.is_new, is_new) && !is_new && uses.can_be_huge) uses.next = uses.count + 1;
  if (++uses.count < uses.next) return;
  const bool within = collapse_pages(begin, size), ends = collapse_ends(begin, size);
  if (!within || !ends) uses.period *= 2;
  uses.can_be_huge = within;
  uses.next = uses.count + uses.period;
}

/// Whether the process has had as many page faults since the last use as would fill half of the
/// buffer. Asking takes half a microsecond, so only of long ones.
bool RecurringBuffers::note_faults(Uses& uses) {
  constexpr Bytes worth_asking{16 << 20};
  if (uses.size < worth_asking) return false;
  ::rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto faults = static_cast<std::uint64_t>(usage.ru_minflt);
  return faults - std::exchange(uses.faults, faults) >= uses.size.value() / small_page() / 2;
}

/// Those that are not used any more are forgotten: when there are many, those that have not been
/// used since it was so before.
RecurringBuffers::Uses& RecurringBuffers::uses_of(const void* begin) {
  constexpr std::size_t many = 4096;
  if (const auto known = recent_.find(begin); known != recent_.end()) return known->second;
  if (recent_.size() >= many) older_ = std::exchange(recent_, {});
  Uses& uses = recent_[begin];
  if (const auto known = older_.extract(begin)) uses = known.mapped();
  return uses;
}

}  // namespace capstan
