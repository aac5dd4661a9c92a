// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "capstan/error.hpp"

namespace capstan {
namespace {

// Rank 0's deadline passes at about the same moment as that of others. These wait a little longer
// for its verdict: then all ranks report the same, and none asks a store that rank 0 is about to
// stop.
constexpr std::chrono::seconds patience{1};

std::string process_key(int rank) {
  return fmt::format("process/{}", rank);
}
std::string seen_key(int rank) {
  return fmt::format("verdict/seen/{}", rank);
}

/// The keys of one barrier, and the rank that uses it.
struct Barrier {
  Store& store;
  std::string_view name;
  int rank;
  int size;
  Deadline deadline;

  std::string arrived(int r) const { return fmt::format("barrier/{}/arrived/{}", name, r); }
  std::string left(int r) const { return fmt::format("barrier/{}/left/{}", name, r); }
  std::string complete() const { return fmt::format("barrier/{}/complete", name); }

  void blame() const {
    blame_missing(store, fmt::format("barrier \"{}\"", name), rank, size, deadline,
                  [&](int r) { return !store.try_get(arrived(r)); });
  }
  /// Waits for a key that rank `of` puts.
  void await(const std::string& key, int of) const {
    try {
      store.get(key, deadline);
    } catch (const TimedOut&) {
      blame();
      blame_missing(store, fmt::format("end of barrier \"{}\"", name), rank, size, deadline,
                    [&](int r) { return r == of && !store.try_get(key); });
    }
  }
};

/// Rank 0 stays until those who wait for its verdict have read it, as it may serve the store.
void await_readers(Store& store, int size, const std::function<bool(int)>& is_missing) {
  const auto end = Deadline::in(patience);
  for (int r = 1; r < size; ++r) {
    if (is_missing(r)) continue;
    try {
      store.get(seen_key(r), end);
    } catch (const TimedOut&) {
      return;
    }
  }
}

std::optional<std::string> verdict_of_rank_0(Store& store) {
  try {
    return get_text(store, verdict_key, Deadline::in(patience));
  } catch (const Error&) {
    return std::nullopt;  // rank 0 may have stopped, or come much later than this one
  }
}

}  // namespace

void introduce(Store& store, int rank, const std::string& process) {
  put_text(store, process_key(rank), process);
}

std::string describe_missing(Store& store, std::span<const int> ranks) {
  constexpr std::size_t most = 8;
  std::vector<int> never;
  std::vector<std::string> texts;
  for (const int rank : ranks) {
    const auto process = texts.size() < most ? store.try_get(process_key(rank)) : std::nullopt;
    if (!process)
      never.push_back(rank);
    else
      texts.push_back(fmt::format(
          "rank {} ({}) did not come", rank,
          std::string_view{reinterpret_cast<const char*>(process->data()), process->size()}));
  }
  if (!never.empty()) texts.insert(texts.begin(), list_ranks(never) + " never joined");
  return fmt::format("{}", fmt::join(texts, ", and "));
}

void blame_missing(Store& store, const std::string& what, int rank, int size, Deadline deadline,
                   const std::function<bool(int)>& is_missing) {
  std::optional<std::string> who;
  if (rank != 0) who = verdict_of_rank_0(store);
  if (who) {
    store.put(seen_key(rank), {});
  } else {
    std::vector<int> missing;
    for (int r = 0; r < size; ++r)
      if (is_missing(r)) missing.push_back(r);
    if (missing.empty()) return;
    who = describe_missing(store, missing);
    if (rank == 0) {
      put_text(store, verdict_key, *who);
      await_readers(store, size, [&](int r) { return std::ranges::binary_search(missing, r); });
    }
  }
  throw TimedOut(fmt::format(
      "rank {}: {}: {} within {}: see whether it started, crashed, hangs or is stopped (its own "
      "output tells), and allow more time (CAPSTAN_JOIN_TIMEOUT) if it is only slow",
      rank, what, *who, deadline.budget()));
}

void put_text(Store& store, std::string_view key, std::string_view value) {
  store.put(key, std::as_bytes(std::span{value.data(), value.size()}));
}

std::string get_text(Store& store, std::string_view key, Deadline deadline) {
  const auto value = store.get(key, deadline);
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

/// Others need the store until they have seen that the barrier is complete, so rank 0 waits for
/// them.
void barrier(Store& store, std::string_view name, int rank, int size, Deadline deadline) {
  const Barrier b{store, name, rank, size, deadline};
  store.put(b.arrived(rank), {});
  if (rank == 0) {
    for (int r = 1; r < size; ++r) b.await(b.arrived(r), r);
    store.put(b.complete(), {});
    for (int r = 1; r < size; ++r) b.await(b.left(r), r);
  } else {
    b.await(b.complete(), 0);
    store.put(b.left(rank), {});
  }
}

std::string list_ranks(std::span<const int> ranks, std::size_t count) {
  if (count == 1) return fmt::format("rank {}", ranks[0]);
  const std::size_t listed = std::min(ranks.size(), most_listed_ranks);
  std::string text = "ranks ";
  for (std::size_t i = 0; i < listed; ++i) {
    const bool last = i + 1 == count;
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (listed < count) text += fmt::format(" and {} more", count - listed);
  return text;
}

}  // namespace capstan
