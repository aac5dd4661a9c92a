#include "core/engine/recurring_buffers.hpp"

#include <sys/resource.h>

#include <utility>

#include "core/memory/huge_pages.hpp"
#include "core/memory/registration/address_range.hpp"

namespace capstan {

/// Collapses a buffer into huge pages at its second use, as many buffers are used only once. Tries
/// again from time to time, as other memory may lie at the address by then: this costs little where
/// pages are huge already. The period doubles where collapsing fails, as for locked memory.
void RecurringBuffers::note(const void* begin, Bytes size) {
  Uses& uses = uses_of(begin);
  if (uses.size != size) uses = {.size = size, .generation = generation_};
  if (std::exchange(uses.generation, generation_) != generation_) uses.next = uses.count + 1;
  // New memory at the address has to wait for its second use, too.
  const bool is_new = note_faults(uses);
  if (std::exchange(uses.is_new, is_new) && !is_new && uses.can_be_huge) uses.next = uses.count + 1;
  if (++uses.count < uses.next) return;
  const bool within = collapse_pages(begin, size), ends = collapse_ends(begin, size);
  if (!within || !ends) uses.period *= 2;
  uses.can_be_huge = within;
  uses.next = uses.count + uses.period;
}

/// Whether the process has had as many page faults since the last use as would fill half of the
/// buffer. Asking takes half a microsecond, so it is done for long buffers only.
bool RecurringBuffers::note_faults(Uses& uses) {
  constexpr Bytes worth_asking{16 << 20};
  if (uses.size < worth_asking) return false;
  ::rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto faults = static_cast<std::uint64_t>(usage.ru_minflt);
  return faults - std::exchange(uses.faults, faults) >= uses.size.value() / page_size() / 2;
}

/// Two generations bound the memory: when the recent one is full it becomes the older one, and
/// buffers that were not used since the last such change are forgotten.
RecurringBuffers::Uses& RecurringBuffers::uses_of(const void* begin) {
  constexpr std::size_t many = 4096;
  if (const auto known = recent_.find(begin); known != recent_.end()) return known->second;
  if (recent_.size() >= many) older_ = std::exchange(recent_, {});
  Uses& uses = recent_[begin];
  if (const auto known = older_.extract(begin)) uses = known.mapped();
  return uses;
}

}  // namespace capstan
