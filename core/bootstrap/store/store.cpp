#include "core/bootstrap/store/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// The keys of one barrier, and the rank that uses it.
struct Barrier {
  Store& store;
  std::string_view name;
  int rank;
  int size;
  Deadline deadline;

  std::string arrived(int r) const { return fmt::format("barrier/{}/arrived/{}", name, r); }
  std::string left(int r) const { return fmt::format("barrier/{}/left/{}", name, r); }
  std::string verdict() const { return fmt::format("barrier/{}/verdict", name); }

  std::vector<int> absent() const {
    std::vector<int> ranks;
    for (int r = 0; r < size; ++r) {
      if (!store.try_get(arrived(r))) ranks.push_back(r);
    }
    return ranks;
  }

  [[noreturn]] void fail(const std::string& who, const char* what) const {
    throw TimedOut(fmt::format(
        "rank {}: barrier \"{}\": {} {} within {}: see whether it started, crashed or hangs (its "
        "own output tells), and allow more time if it is only slow",
        rank, name, who, what, deadline.budget()));
  }
};

/// Rank 0 waits for all ranks and publishes the result: empty, or the ranks that never came. All
/// ranks take the result from there, so they report the same ranks.
void lead(const Barrier& b) {
  try {
    for (int r = 1; r < b.size; ++r) b.store.get(b.arrived(r), b.deadline);
  } catch (const TimedOut&) {
    if (const auto ranks = b.absent(); !ranks.empty()) {
      put_text(b.store, b.verdict(), list_ranks(ranks));
      b.fail(list_ranks(ranks), "never joined");
    }
  }
  put_text(b.store, b.verdict(), "");
}

/// Other ranks need the store until they have read the result, so rank 0 waits for them.
void see_off(const Barrier& b) {
  int r = 1;
  try {
    for (; r < b.size; ++r) b.store.get(b.left(r), b.deadline);
  } catch (const TimedOut&) {
    b.fail(list_ranks({&r, 1}), "joined but did not confirm");
  }
}

/// Fails a barrier without a result: rank 0 has not come, or has a later deadline than this rank.
/// Throws `timed_out`, the store's last answer, if the store ends now.
[[noreturn]] void fail_without_verdict(const Barrier& b, const TimedOut& timed_out) {
  std::vector<int> ranks;
  try {
    ranks = b.absent();
  } catch (const BootstrapError&) {
    throw timed_out;
  }
  if (ranks.empty()) b.fail("rank 0", "joined but did not answer");
  b.fail(list_ranks(ranks), "never joined");
}

void follow(const Barrier& b) {
  // Rank 0's deadline passes at about the same moment. This rank waits a little longer for the
  // result: then all ranks report the same, and none asks a store that rank 0 is about to stop.
  constexpr std::chrono::seconds patience{1};
  const auto deadline =
      b.deadline.is_never() ? b.deadline : Deadline::in(b.deadline.remaining() + patience);
  std::string who;
  try {
    who = get_text(b.store, b.verdict(), deadline);
  } catch (const TimedOut& error) {
    fail_without_verdict(b, error);
  }
  if (!who.empty()) b.fail(who, "never joined");
  b.store.put(b.left(b.rank), {});
}

}  // namespace

void put_text(Store& store, std::string_view key, std::string_view value) {
  store.put(key, std::as_bytes(std::span{value.data(), value.size()}));
}

std::string get_text(Store& store, std::string_view key, Deadline deadline) {
  const auto value = store.get(key, deadline);
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

void barrier(Store& store, std::string_view name, int rank, int size, Deadline deadline) {
  const Barrier b{store, name, rank, size, deadline};
  store.put(b.arrived(rank), {});
  if (rank != 0) return follow(b);
  lead(b);
  see_off(b);
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
