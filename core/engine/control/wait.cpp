// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace capstan {
namespace {

// The words of a record: checksum, beat and time, kind, number, steps, group size, four of the
// call, peers.
constexpr std::size_t at_beat = 1, at_kind = 2, at_number = 3, at_steps = 4, at_group = 5,
                      at_call = 6, at_peers = 10;
static_assert(at_peers + Wait::most_peers / 2 == WaitRecord::word_count);
using Words = std::array<std::uint64_t, WaitRecord::word_count>;

constexpr std::uint64_t any_flag = 1 << 8, gave_up_flag = 1 << 9, lost_flag = 1 << 10;

constexpr std::uint64_t pair(std::uint64_t low, std::uint64_t high) {
  return (low & 0xffff'ffff) | high << 32;
}
constexpr std::uint32_t low(std::uint64_t word) {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint32_t high(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}

/// Never 0, so that an empty record has no valid checksum.
std::uint64_t checksum(const Words& words) {
  std::uint64_t sum = 0x9e37'79b9'7f4a'7c15;
  for (std::size_t i = 1; i < words.size(); ++i) sum = extend(sum, words[i]);
  return sum | 1;
}

Words words_of(const Wait& wait, std::uint64_t beat) {
  Words words{};
  words[at_beat] = pair(beat, static_cast<std::uint64_t>(wait.waited.count()));
  words[at_kind] = pair(static_cast<std::uint64_t>(wait.kind) | (wait.any ? any_flag : 0) |
                            (wait.gave_up ? gave_up_flag : 0) | (wait.lost ? lost_flag : 0),
                        static_cast<std::uint64_t>(wait.peer_count));
  words[at_number] = wait.number;
  words[at_steps] = pair(wait.step, wait.steps);
  words[at_group] = wait.group_size;
  words[at_call] = wait.call.signature;
  words[at_call + 1] = wait.call.count;
  words[at_call + 2] = wait.call.root;
  words[at_call + 3] = wait.call.tensor;
  const std::size_t listed = std::min(wait.peers.size(), Wait::most_peers);
  for (std::size_t i = 0; i < listed; ++i)  // rank + 1; 0: none
    words[at_peers + i / 2] |= static_cast<std::uint64_t>(wait.peers[i].value() + 1)
                               << 32 * (i % 2);
  return words;
}

Wait wait_of(const Words& words) {
  Wait wait{.kind = static_cast<Wait::Kind>(words[at_kind] & 0xff),
            .any = (words[at_kind] & any_flag) != 0,
            .gave_up = (words[at_kind] & gave_up_flag) != 0,
            .lost = (words[at_kind] & lost_flag) != 0,
            .peer_count = static_cast<int>(high(words[at_kind])),
            .waited = std::chrono::milliseconds{high(words[at_beat])},
            .call = {words[at_call], words[at_call + 1], words[at_call + 2], words[at_call + 3]},
            .number = words[at_number],
            .step = low(words[at_steps]),
            .steps = high(words[at_steps]),
            .group_size = low(words[at_group])};
  for (std::size_t i = 0; i < Wait::most_peers; ++i)
    if (const auto rank = static_cast<std::uint32_t>(words[at_peers + i / 2] >> 32 * (i % 2)))
      wait.peers.emplace_back(static_cast<std::int32_t>(rank - 1));
  return wait;
}

}  // namespace

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(time).count());
}

void add(Wait& to, const Wait& other) {
  if (other.kind == Wait::Kind::none) return;
  Wait both = to.kind == Wait::Kind::none || other.kind < to.kind ? other : to;
  if (to.kind != Wait::Kind::none) {
    both.any = to.any && other.any;
    both.waited = std::max(to.waited, other.waited);
    both.peers.clear();
    std::ranges::set_union(to.peers, other.peers, std::back_inserter(both.peers));
    both.peer_count =
        std::max({to.peer_count, other.peer_count, static_cast<int>(both.peers.size())});
    both.peers.resize(std::min(both.peers.size(), Wait::most_peers));
  }
  to = std::move(both);
}

namespace {

std::string name_of_call(const Wait& wait) {
  const auto tag = wait.number == Wait::any_tag ? "any tag" : fmt::format("tag {}", wait.number);
  switch (wait.kind) {
    case Wait::Kind::none:
      return "no call";
    case Wait::Kind::collective:
      return fmt::format("{} #{}, step {} of {}", to_string(wait.call), wait.number, wait.step,
                         wait.steps);
    case Wait::Kind::receive:
      return fmt::format("a receive with {}", tag);
    case Wait::Kind::send:
      return fmt::format("a send with {}", tag);
    case Wait::Kind::form:
      return "split(), subgroup() or create_group()";
    case Wait::Kind::kernel:
      return fmt::format("the kernel of {} #{}", to_string(wait.call), wait.number);
    case Wait::Kind::survivors:
      return wait.number == Wait::grows ? "grow()" : "shrink()";
  }
  return "an unknown call";
}

}  // namespace

std::string to_string(const Wait& wait) {
  const std::string group =
      wait.group_size == 0 ? "" : fmt::format(" of a group of {} ranks", wait.group_size);
  return name_of_call(wait) + group;
}

void publish(WaitRecord& record, const Wait& wait, std::uint64_t beat) {
  Words words = words_of(wait, beat);
  words[0] = checksum(words);
  for (std::size_t i = 1; i < words.size(); ++i)
    record.words[i].store(words[i], std::memory_order_relaxed);
  record.words[0].store(words[0], std::memory_order_release);
}

std::optional<PublishedWait> read(const WaitRecord& record) {
  Words words{};
  words[0] = record.words[0].load(std::memory_order_acquire);
  if (words[0] == 0) return PublishedWait{};
  for (std::size_t i = 1; i < words.size(); ++i)
    words[i] = record.words[i].load(std::memory_order_relaxed);
  if (words[0] != checksum(words) ||
      (words[at_kind] & 0xff) > static_cast<std::uint64_t>(Wait::Kind::survivors))
    return std::nullopt;
  return PublishedWait{wait_of(words), low(words[at_beat])};
}

}  // namespace capstan
