// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view failure_key = "failure", success_key = "success";

std::string read_key(int rank) {
  return fmt::format("read/{}", rank);
}

/// Sleeps for longer and longer times.
class Pause {
 public:
  void take(Deadline deadline) {
    std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(next_, deadline.remaining()));
    next_ = std::min<std::chrono::milliseconds>(2 * next_, 20ms);
  }

 private:
  std::chrono::milliseconds next_ = 1ms;
};

}  // namespace

/// Does not wait in the store, which may be stopped for a while.
std::vector<std::byte> WatchedStore::get(std::string_view key, Deadline deadline) {
  for (Pause pause; !deadline.expired(); pause.take(deadline)) {
    if (auto value = store_.try_get(key)) return std::move(*value);
    look_();
  }
  return store_.get(key, deadline);
}

Deadline growth_deadline(const Settings& settings) {
  return Deadline::in(std::min(settings.timeout, settings.join_timeout));
}

void report_failure(Store& store, const std::string& why) noexcept {
  try {
    if (!store.try_get(failure_key)) put_text(store, failure_key, why);
  } catch (const std::exception&) {  // others see that this rank leaves
  }
}

void require_hope(Store& store) {
  if (const auto why = store.try_get(failure_key))
    throw BootstrapError({reinterpret_cast<const char*>(why->data()), why->size()});
  if (const std::vector<int> left = departures(store); !left.empty())
    throw BootstrapError(
        fmt::format("{} left before all had met: see its own output", list_ranks(left)));
}

void report_success(Store& store) {
  store.put(success_key, {});
}

void await_outcome(JobStore& store, int rank, Deadline deadline) {
  WatchedStore watched{store, [&] {
                         if (!store.try_get(failure_key)) return;
                         store.put(read_key(rank), {});
                         require_hope(store);
                       }};
  watched.get(success_key, deadline);
  store.put(read_key(rank), {});
}

void await_readers(Store& store, const Growth& growth, Deadline deadline) noexcept {
  try {
    for (int rank = growth.before; rank < growth.after; ++rank) {
      const auto is_awaited = [&] {
        return is_taken(store, rank) && !store.try_get(read_key(rank)) &&
               std::ranges::count(departures(store), rank) == 0;
      };
      for (Pause pause; is_awaited() && !deadline.expired(); pause.take(deadline)) continue;
    }
  } catch (const std::exception&) {  // nobody can be told any more
  }
}

}  // namespace capstan
