// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace capstan {
namespace {

using State = Culprit::State;
using Suspect = WaitGraph::Suspect;

bool is_gone(const Suspect& suspect) {
  return suspect.state == State::dead || suspect.state == State::left;
}

/// The action that a rank owes and that `waiter` waits for, as text.
std::string omission(const Suspect& suspect, const std::string& waiter) {
  const Wait& wait = suspect.wait;
  const auto tag = wait.number == Wait::any_tag ? "" : fmt::format(" with tag {}", wait.number);
  switch (wait.kind) {
    case Wait::Kind::collective:
      return fmt::format("does nothing for {} #{}", to_string(wait.call), wait.number);
    case Wait::Kind::receive:
      return fmt::format("has sent no message{} to {}", tag, waiter);
    case Wait::Kind::send:
      return fmt::format("has not taken a message{} of {}", tag, waiter);
    case Wait::Kind::form:
      return "has not called split(), subgroup() or create_group()";
    case Wait::Kind::kernel:
      return fmt::format("runs no kernel for {} #{}", to_string(wait.call), wait.number);
    case Wait::Kind::survivors:
      return fmt::format("has not called {}", to_string(wait));
    case Wait::Kind::none:
      break;
  }
  return "does not do what others wait for";
}

/// In a receive from itself.
bool waits_for_itself(Rank rank, const RankView& view) {
  return std::ranges::find(view.wait.peers, rank) != view.wait.peers.end();
}

std::string waiters_of(const Suspect& suspect) {
  const std::size_t count = suspect.waiters.size();
  return fmt::format("{} wait{} for it, {}{}",
                     count == 1 ? "1 rank" : fmt::format("{} ranks", count), count == 1 ? "s" : "",
                     count == 1 ? "for " : "the longest ", seconds(suspect.longest));
}

}  // namespace

bool Diagnosis::is_loss() const {
  return std::ranges::any_of(graph_.suspects(), is_gone);
}

std::vector<Culprit> Diagnosis::culprits() const {
  std::vector<Culprit> all;
  for (const Suspect& suspect : graph_.suspects())
    all.push_back(names_.culprit(suspect.rank, suspect.state));
  return all;
}

Rank Diagnosis::lost(Rank directly) const {
  std::optional<Rank> first;
  for (const Suspect& suspect : graph_.suspects()) {
    const auto member = names_.member(suspect.rank);
    if (!member || !is_gone(suspect)) continue;
    if (*member == directly) return directly;
    if (!first) first = *member;
  }
  return first.value_or(directly);
}

std::string Diagnosis::verdict_on(const Suspect& suspect) const {
  const std::string who = names_.full(suspect.rank);
  const RankView& view = graph_.view(suspect.rank);
  const std::string what = omission(suspect, names_.brief(suspect.waiter));
  switch (suspect.state) {
    case State::absent:
      return fmt::format("{} {}; {}", who, what, waiters_of(suspect));
    case State::stopped:
      return fmt::format("{} is stopped (by SIGSTOP or a debugger) and {}; {}", who, what,
                         waiters_of(suspect));
    case State::silent:
      return fmt::format(
          "{} is stopped or cannot be reached: nothing has come from it for long, "
          "and it {}; {}",
          who, what, waiters_of(suspect));
    case State::waiting:
      if (waits_for_itself(suspect.rank, view))
        return fmt::format("{} waits for itself, in {}, and has sent itself no such message", who,
                           to_string(view.wait));
      return fmt::format("{} waits for itself by way of others, in {}", who, to_string(view.wait));
    case State::left:
    case State::dead:
      break;
  }
  return fmt::format("{} is gone ({})", who, view.departed.value_or("as others have found"));
}

std::string Diagnosis::verdict() const {
  constexpr std::size_t most = 4;
  const auto& suspects = graph_.suspects();
  if (suspects.empty()) return "no report tells which rank holds this up";
  std::string text;
  for (std::size_t i = 0; i < std::min(suspects.size(), most); ++i)
    text += (i > 0 ? ", and " : "") + verdict_on(suspects[i]);
  if (suspects.size() > most)
    text += fmt::format(", and {} more ranks like these", suspects.size() - most);
  return text;
}

std::string Diagnosis::advice() const {
  const State state = graph_.suspects().empty() ? State::absent : graph_.suspects().front().state;
  switch (state) {
    case State::absent:
      return "see what it does instead, or raise CAPSTAN_TIMEOUT";
    case State::stopped:
      return "resume it (kill -CONT), or raise CAPSTAN_TIMEOUT";
    case State::silent:
      return "see whether it is stopped and whether its host can be reached, or raise "
             "CAPSTAN_TIMEOUT";
    case State::waiting: {
      const Rank first = graph_.suspects().front().rank;
      return waits_for_itself(first, graph_.view(first))
                 ? "send the message before the receive waits, or receive from another rank"
                 : "these ranks wait for each other: make the order of their calls fit";
    }
    case State::left:
    case State::dead:
      break;
  }
  const Wait::Kind kind = graph_.view(graph_.self()).wait.kind;
  if (kind == Wait::Kind::receive || kind == Wait::Kind::send)
    return "find out why it ended; messages between other ranks continue, collectives of this "
           "communicator fail";
  return "find out why it ended; the communicator can no longer be used";
}

std::string Diagnosis::edge(const WaitGraph::Edge& edge) const {
  const Wait& wait = graph_.view(edge.from).wait;
  return fmt::format("{} {} {}, in {} for {}", names_.brief(edge.from),
                     wait.gave_up ? "gave up waiting for" : "for", names_.brief(edge.to),
                     to_string(wait), seconds(wait.waited));
}

std::string Diagnosis::chain() const {
  constexpr std::size_t most = 12;
  const auto& edges = graph_.edges();
  if (edges.empty()) return "";
  std::string text = "Who waits for whom: ";
  for (std::size_t i = 0; i < std::min(edges.size(), most); ++i)
    text += (i > 0 ? "; " : "") + edge(edges[i]);
  if (edges.size() > most) text += fmt::format("; and {} more", edges.size() - most);
  return text + ".";
}

std::exception_ptr Diagnosis::error(const std::string& what, Rank directly) const {
  const std::string text = fmt::format("{}. {}: {}. {}", verdict(), what, advice(), chain());
  if (is_loss()) return std::make_exception_ptr(PeerLost{lost(directly), text, culprits()});
  return std::make_exception_ptr(TimedOut{text, culprits()});
}

}  // namespace capstan
