// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/recurring_buffers.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "core/platform/memory/huge_pages.hpp"
#include "core/platform/memory/registration/address_range.hpp"

namespace capstan {

RecurringBuffers::System RecurringBuffers::System::real() {
  return {.now = [] { return Time{std::chrono::steady_clock::now().time_since_epoch()}; },
          .move = [](const void* begin, Bytes size,
                     std::size_t place) { return HugePlaces{begin, size}.collapse(place); }};
}

/// Looks at a buffer from its eighth use on, as many buffers are used a few times only, and again
/// from time to time, as other memory may lie at the address by then: this costs little where pages
/// are huge already. The period doubles where collapsing fails, as for locked memory.
// measured: docs/lab-notebook.md#huge-pages-in-steps
void RecurringBuffers::note(const void* begin, Bytes size) {
  save_up(size);
  Uses& uses = uses_of(begin);
  if (uses.size != size) uses = {.size = size, .generation = generation_};
  const auto look_anew = [&] {
    if (uses.count >= first_look) uses.next = uses.count + 1, uses.place = 0;
  };
  if (std::exchange(uses.generation, generation_) != generation_) look_anew();
  // New memory at the address has to wait for its second use, too.
  const bool is_new = note_faults(uses);
  if (std::exchange(uses.is_new, is_new) && !is_new && uses.can_be_huge) look_anew();
  if (++uses.count >= uses.next) look_at(begin, uses);
}

/// Goes on with a look as far as what is saved allows.
void RecurringBuffers::look_at(const void* begin, Uses& uses) {
  const HugePlaces places{begin, uses.size};
  if (uses.place == 0) uses.all_huge = uses.can_be_huge = true;
  for (; uses.place < places.count() && saved_ >= price_; ++uses.place) {
    const bool huge = move(begin, uses);
    uses.all_huge = uses.all_huge && huge;
    if (places.is_filled(uses.place)) uses.can_be_huge = uses.can_be_huge && huge;
  }
  if (uses.place < places.count()) return;
  if (!uses.all_huge) uses.period *= 2;
  uses.next = uses.count + uses.period;
  uses.place = 0;
}

/// Moves one page and pays for it: what was saved up for it, even if it took less, so that a second
/// page does not follow in the same short call. A rank that lost its core meanwhile took longer
/// than the page.
bool RecurringBuffers::move(const void* begin, const Uses& uses) {
  constexpr Time nothing_to_do = std::chrono::microseconds{20};  // it was huge, or cannot be
  const Time start = system_.now();
  const bool huge = system_.move(begin, uses.size, uses.place);
  last_use_ = system_.now();
  constexpr int much_longer = 4;
  const Time took = std::min(last_use_ - start, much_longer * price_);
  const bool moved = took > nothing_to_do;
  saved_ -= moved ? std::max(took, price_) : took;
  if (moved) price_ = took;
  return huge;
}

/// A tenth of the time since the last use, as far as calls with such buffers take so long: programs
/// also compute. No more is kept than such a call may bring, or a page costs.
void RecurringBuffers::save_up(Bytes size) {
  constexpr int share = 10, bytes_per_nanosecond = 4;
  const Time longest{static_cast<Time::rep>(size.value() / bytes_per_nanosecond)};
  const Time now = system_.now();
  const Time since = last_use_ == Time{} ? Time{} : now - last_use_;
  last_use_ = now;
  saved_ = std::min(saved_ + std::min(since, longest) / share, std::max(longest / share, price_));
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
