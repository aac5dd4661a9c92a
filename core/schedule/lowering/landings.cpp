// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/landings.hpp"

#include <algorithm>
#include <utility>

namespace capstan {
namespace {

Elements offset_of(const auto& entry) {
  return entry.arrival.landing.offset;
}
Elements end_of(const auto& entry) {
  return entry.arrival.landing.end();
}

/// The peers of pushes, each once, in the order of the pushes.
std::vector<Rank> peers_of(auto pushes) {
  std::ranges::sort(pushes, {}, [](const auto* push) { return push->order; });
  std::vector<Rank> peers;
  for (const auto* push : pushes)
    if (std::ranges::find(peers, push->peer) == peers.end()) peers.push_back(push->peer);
  return peers;
}

}  // namespace

void Landings::add(const Arrival& arrival) {
  Entry entry{arrival, added_++};
  if (entries_.empty() || end_of(entries_.back()) <= arrival.landing.offset)
    return entries_.push_back(std::move(entry));
  const auto place =
      std::ranges::upper_bound(entries_, arrival.landing.offset, {}, offset_of<Entry>);
  entries_.insert(place, std::move(entry));
}

const Arrival* Landings::around(const Span& span) const {
  if (span.buffer != Buffer::scratch) return nullptr;
  const auto found = std::ranges::upper_bound(entries_, span.offset, {}, end_of<Entry>);
  if (found == entries_.end() || offset_of(*found) > span.offset || span.end() > end_of(*found))
    return nullptr;
  return &found->arrival;
}

std::vector<Arrival> Landings::take_overlapping(const Span& span) {
  if (span.buffer != Buffer::scratch) return {};
  const auto first = std::ranges::upper_bound(entries_, span.offset, {}, end_of<Entry>);
  auto last = first;
  while (last != entries_.end() && offset_of(*last) < span.end()) ++last;
  std::vector<Entry> found(first, last);
  entries_.erase(first, last);
  std::ranges::sort(found, {}, &Entry::order);
  std::vector<Arrival> taken;
  for (const Entry& entry : found) taken.push_back(entry.arrival);
  return taken;
}

void Pushes::add(Rank peer, const Operand& source, Elements length) {
  const auto place =
      from(source.place).emplace(source.offset, Push{peer, source.place, length, added_++});
  Elements& longest = longest_[static_cast<std::size_t>(source.place)];
  longest = std::max(longest, length);
  to_[peer].push_back(place);
}

void Pushes::add_overlapping(const Span& span, std::vector<const Push*>& found) const {
  const auto place = static_cast<Place>(span.buffer);
  const Elements longest = longest_[static_cast<std::size_t>(place)];
  const Elements begin = span.offset - std::min(span.offset, longest);
  for (auto at = from(place).lower_bound(begin); at != from(place).end() && at->first < span.end();
       ++at)
    if (at->first + at->second.length > span.offset) found.push_back(&at->second);
}

std::vector<Rank> Pushes::reading(const Span& span) const {
  std::vector<const Push*> found;
  add_overlapping(span, found);
  // In place, input and output are the same memory.
  const Place other = span.buffer == Buffer::output ? Place::input : Place::output;
  if (span.buffer != Buffer::scratch)
    for (const auto& [offset, push] : from(other)) found.push_back(&push);
  return peers_of(std::move(found));
}

std::vector<Rank> Pushes::reading_reused() const {
  std::vector<const Push*> found;
  for (const Place place : {Place::scratch, Place::staging})
    for (const auto& [offset, push] : from(place)) found.push_back(&push);
  return peers_of(std::move(found));
}

void Pushes::flushed(Rank peer) {
  const auto found = to_.find(peer);
  if (found == to_.end()) return;
  for (const auto place : found->second) from(place->second.place).erase(place);
  to_.erase(found);
}

}  // namespace capstan
