// SPDX-License-Identifier: Apache-2.0

// How calls run, and what is known about it.

#include <fmt/format.h>

#include <cmath>

#include "core/communicator/checked_call.hpp"
#include "core/communicator/communicator_prepared.hpp"
#include "core/engine/run/engine.hpp"

namespace capstan {
namespace {

/// A call as far as this rank knows it without asking others. The lengths that other ranks send in
/// an all_to_all_v are taken to be those of this rank.
CheckedCall known_call(const Request& request, int rank, int size) {
  CheckedCall checked = check(request, rank, size);
  if (request.collective != Collective::all_to_all_v) return checked;
  std::vector<Elements>& lengths = checked.call.shape.counts;
  lengths.clear();
  for (const Elements from_peer : request.receive_counts) {
    lengths.insert(lengths.end(), request.counts.begin(), request.counts.end());
    lengths[lengths.size() - static_cast<std::size_t>(size - rank)] = from_peer;
  }
  return checked;
}

std::chrono::nanoseconds time_of(const Choice& choice) {
  if (!std::isfinite(choice.nanoseconds)) return std::chrono::nanoseconds::max();  // not known
  return std::chrono::nanoseconds{std::llround(choice.nanoseconds)};
}

}  // namespace

std::string Communicator::explain(const Request& request) const {
  if (request.stream) return Impl::of(*this).streams.explain(request);
  const CheckedCall checked = known_call(request, rank(), size());
  Engine& engine = Impl::of(*this).engine;
  const Choice choice = engine.choice(checked.call, checked.input, checked.output);
  const std::string refusal = engine.refusal(checked.call, choice);
  return fmt::format("{} ({}), {}: {}{}{}", choice.algorithm->name, choice.algorithm->summary,
                     choice.manner(), choice.reason, refusal.empty() ? "" : "; such calls fail: ",
                     refusal.substr(0, refusal.find('\n')));
}

std::chrono::nanoseconds Communicator::predicted_time(const Request& request) const {
  const CheckedCall checked = known_call(request, rank(), size());
  return time_of(Impl::of(*this).engine.choice(checked.call, checked.input, checked.output));
}

std::chrono::nanoseconds Communicator::predicted_time(int peer, Bytes bytes) const {
  if (peer < 0 || peer >= size())
    throw InvalidArgument(
        fmt::format("rank {}: predicted_time() of a message with rank {}: ranks are 0 to {}",
                    rank(), peer, size() - 1));
  return time_of(Impl::of(*this).engine.message_choice(Rank{peer}, bytes));
}

bool Communicator::is_settled(const Request& request) const {
  const CheckedCall checked = known_call(request, rank(), size());
  return Impl::of(*this).engine.is_settled(checked.call, checked.input, checked.output);
}

std::string Communicator::algorithm(const Request& request) const {
  const CheckedCall checked = known_call(request, rank(), size());
  return std::string{
      Impl::of(*this).engine.choice(checked.call, checked.input, checked.output).algorithm->name};
}

}  // namespace capstan
