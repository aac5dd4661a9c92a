// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/notes.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "core/base/printable.hpp"
#include "core/engine/control/peers.hpp"

namespace capstan {
namespace {

const CallNote* note_in(const Control& control, std::uint64_t key) {
  const auto found = std::ranges::find_if(control.notes, [&](const CallNote& note) {
    return note.key.load(std::memory_order_acquire) == key;
  });
  return found == std::end(control.notes) ? nullptr : found;
}

/// Without its middle, where it is too long: names of types differ at their ends.
std::string shortened(std::string_view name, std::size_t most) {
  constexpr std::string_view dots = "...";
  if (name.size() <= most) return std::string{name};
  const std::size_t tail = (most - dots.size()) / 2, head = most - dots.size() - tail;
  return std::string{name.substr(0, head)}.append(dots).append(name.substr(name.size() - tail));
}

}  // namespace

void Notes::keep(Control& own, std::uint64_t key, std::string_view name,
                 std::span<const Elements> counts) {
  if (note_in(own, key)) return;
  CallNote& note = own.notes[next_++ % Control::note_count];
  note.key.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // a reader that sees a new word sees this 0
  const std::string fitting = shortened(name, CallNote::name_room - 1);
  note.name[fitting.copy(note.name, fitting.size())] = '\0';
  note.counts = counts.size();
  const std::size_t room = std::min(counts.size(), CallNote::count_room);
  for (std::size_t i = 0; i < room; ++i) note.count[i] = counts[i].value();
  note.key.store(key, std::memory_order_release);
}

std::optional<CallDetails> Notes::find(const Control& control, std::uint64_t key) {
  const CallNote* const note = note_in(control, key);
  if (!note) return std::nullopt;
  const char* const end = std::find(note->name, note->name + CallNote::name_room, '\0');
  const std::size_t room = std::min<std::size_t>(note->counts, CallNote::count_room);
  CallDetails details{.name = printable({note->name, end}),
                      .counts = {note->count, note->count + room}};
  std::atomic_thread_fence(std::memory_order_acquire);
  if (note->key.load(std::memory_order_relaxed) != key) return std::nullopt;
  return details;
}

/// In pieces that are copied at once.
void Notes::show(Peers& peers, Rank peer, std::uint64_t key) {
  if (shown_[peer] == key || peers.mapped(peer)) return;
  const CallNote* const note = note_in(peers.own_control(), key);
  if (!note) return;
  shown_[peer] = key;
  constexpr std::size_t piece = Transport::snapshot.value();
  for (std::size_t at = sizeof *note; at > 0; at -= piece)  // the key goes last
    peers.show(peer, reinterpret_cast<const std::byte*>(note) + at - piece, piece);
}

}  // namespace capstan
