// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "capstan/deadline.hpp"
#include "capstan/store.hpp"
#include "core/platform/net/secret.hpp"

namespace capstan {

// Every call of the library's own stores throws BootstrapError when the store is gone (the process
// that hosted it ended), and InvalidArgument for a key or value of a forbidden size. A get that
// times out names the ranks that never joined or have left.

/// A store by which the ranks of a job meet.
class JobStore : public Store {
 public:
  /// The secret that the ranks share. Where they share none, it is no secret, and the store is as
  /// private as its program made it.
  virtual const Secret& secret() const = 0;
};

void put_text(Store& store, std::string_view key, std::string_view value);
std::string get_text(Store& store, std::string_view key, Deadline deadline);

/// Where rank 0 puts the text that says which ranks are missing.
inline constexpr std::string_view verdict_key = "verdict";

/// Tells which process a rank is, for errors of other ranks: "host b, process 4711".
void introduce(Store& store, int rank, const std::string& process);

/// "rank 2 never joined, and rank 3 (host b, process 4711) did not come", as ranks have introduced
/// themselves.
std::string describe_missing(Store& store, std::span<const int> ranks);

/// Ends a wait for ranks in a step of start-up, which `what` names, on all ranks alike: rank 0
/// decides who is blamed, and the others take its verdict, at most a second after the deadline.
/// `is_missing` says whether a rank keeps this one waiting. Throws TimedOut, or returns if nobody
/// does any more.
void blame_missing(Store& store, const std::string& what, int rank, int size, Deadline deadline,
                   const std::function<bool(int)>& is_missing);

/// Returns when all ranks 0 .. size-1 have called it with the same `name`; a name serves once per
/// store. Throws TimedOut naming the ranks that never came, on every rank that did come, at most a
/// second after the deadline.
///
/// Rank 0 returns last, when no other rank needs the store any more: it may then destroy a store
/// that it hosts.
void barrier(Store& store, std::string_view name, int rank, int size, Deadline deadline);

/// "rank 3", "ranks 3 and 5", "ranks 1, 2, 3 and 40 more".
inline constexpr std::size_t most_listed_ranks = 16;
/// `ranks` are the first of `count`, as many as are listed.
std::string list_ranks(std::span<const int> ranks, std::size_t count);
inline std::string list_ranks(std::span<const int> ranks) {
  return list_ranks(ranks, ranks.size());
}

}  // namespace capstan
