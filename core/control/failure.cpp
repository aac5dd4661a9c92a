#include "core/control/failure.hpp"

#include <algorithm>

#include "capstan/error.hpp"

namespace capstan {

void Failure::raise() const {
  switch (kind) {
    case Kind::peer_lost:
      throw PeerLost(culprit, text);
    case Kind::timed_out:
      throw TimedOut(text);
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
    return {Kind::peer_lost, lost->lost(), error.what()};
  if (dynamic_cast<const TimedOut*>(&error)) return {Kind::timed_out, Rank{}, error.what()};
  if (dynamic_cast<const Mismatch*>(&error)) return {Kind::mismatch, Rank{}, error.what()};
  return {Kind::aborted, Rank{}, error.what()};
}

void publish(AbortRecord& record, const Failure& failure) {
  if (record.kind.load(std::memory_order_relaxed) != 0) return;
  record.culprit = failure.culprit.value();
  const std::size_t length = std::min(failure.text.size(), AbortRecord::text_bytes - 1);
  std::copy_n(failure.text.data(), length, record.text);
  record.text[length] = '\0';
  record.kind.store(static_cast<std::uint32_t>(failure.kind), std::memory_order_seq_cst);
}

std::optional<Failure> read(const AbortRecord& record, int ranks) {
  const std::uint32_t kind = record.kind.load(std::memory_order_acquire);
  if (kind == 0) return std::nullopt;
  const char* end = std::find(record.text, record.text + AbortRecord::text_bytes, '\0');
  Failure failure{Failure::Kind::aborted, Rank{record.culprit}, std::string(record.text, end)};
  const bool is_rank = failure.culprit.value() >= 0 && failure.culprit.value() < ranks;
  if (kind <= static_cast<std::uint32_t>(Failure::Kind::aborted) && is_rank)
    failure.kind = static_cast<Failure::Kind>(kind);
  return failure;
}

}  // namespace capstan
