#pragma once

#include <span>
#include <string>
#include <string_view>

#include "capstan/deadline.hpp"
#include "capstan/store.hpp"
#include "core/net/secret.hpp"

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
