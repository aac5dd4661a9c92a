// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/failure.hpp"

#include <algorithm>
#include <span>

namespace capstan {

void Failure::raise() const {
  switch (kind) {
    case Kind::peer_lost:
      throw PeerLost(lost, text, culprits);
    case Kind::timed_out:
      throw TimedOut(text, culprits);
    case Kind::mismatch:
      throw Mismatch(text);
    case Kind::none:
    case Kind::aborted:
      break;
  }
  throw Aborted(text);
}

std::exception_ptr Failure::exception() const {
  try {
    raise();
  } catch (const Error&) {
    return std::current_exception();
  }
}

Failure Failure::of(const std::exception& error) {
  if (const auto* lost = dynamic_cast<const PeerLost*>(&error))
    return {Kind::peer_lost, lost->lost(), error.what(), lost->culprits()};
  if (const auto* late = dynamic_cast<const TimedOut*>(&error))
    return {Kind::timed_out, Rank{}, error.what(), late->culprits()};
  if (dynamic_cast<const Mismatch*>(&error)) return {Kind::mismatch, Rank{}, error.what()};
  return {Kind::aborted, Rank{}, error.what()};
}

void publish(AbortRecord& record, const Failure& failure) {
  if (record.kind.load(std::memory_order_relaxed) != 0) return;
  record.lost = failure.lost.value();
  record.culprit_count = std::min(failure.culprits.size(), AbortRecord::most_culprits);
  for (std::size_t i = 0; i < record.culprit_count; ++i)
    record.culprits[i] = {failure.culprits[i].world_rank.value(),
                          static_cast<std::int32_t>(failure.culprits[i].state)};
  const std::size_t length = std::min(failure.text.size(), AbortRecord::text_bytes - 1);
  std::copy_n(failure.text.data(), length, record.text);
  record.text[length] = '\0';
  record.kind.store(static_cast<std::uint32_t>(failure.kind), std::memory_order_seq_cst);
}

std::optional<Failure> read(const AbortRecord& record, int ranks) {
  const std::uint32_t kind = record.kind.load(std::memory_order_acquire);
  if (kind == 0) return std::nullopt;
  const char* end = std::find(record.text, record.text + AbortRecord::text_bytes, '\0');
  Failure failure{Failure::Kind::aborted, Rank{record.lost}, {record.text, end}};
  const bool is_rank = failure.lost.value() >= 0 && failure.lost.value() < ranks;
  if (kind <= static_cast<std::uint32_t>(Failure::Kind::aborted) && is_rank)
    failure.kind = static_cast<Failure::Kind>(kind);
  const std::size_t count = std::min<std::size_t>(record.culprit_count, AbortRecord::most_culprits);
  for (const auto& [world_rank, state] : std::span{record.culprits}.first(count))
    failure.culprits.push_back(
        {.world_rank = Rank{world_rank}, .state = static_cast<Culprit::State>(state)});
  return failure;
}

}  // namespace capstan
