// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/local_store.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "core/bootstrap/store/wire.hpp"

namespace capstan {

void LocalStore::put(std::string_view key, std::span<const std::byte> value) {
  wire::check_key(key);
  wire::check_value(key, value);
  const std::lock_guard lock{mutex_};
  values_.insert_or_assign(std::string{key}, std::vector(value.begin(), value.end()));
  changed_.notify_all();
}

std::vector<std::byte> LocalStore::get(std::string_view key, Deadline deadline) {
  wire::check_key(key);
  std::unique_lock lock{mutex_};
  const auto present = [&] { return values_.contains(key); };
  if (deadline.is_never()) {
    changed_.wait(lock, present);
  } else if (!changed_.wait_until(lock, deadline.when(), present)) {
    throw TimedOut(fmt::format(
        "get(\"{}\"): nobody put this key within {}; the store belongs to this process alone", key,
        deadline.budget()));
  }
  return values_.find(key)->second;
}

std::optional<std::vector<std::byte>> LocalStore::try_get(std::string_view key) {
  wire::check_key(key);
  const std::lock_guard lock{mutex_};
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

}  // namespace capstan
