// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"

namespace capstan::pytorch {

namespace {

/// For Store::wait: 0 means for ever there.
std::chrono::milliseconds time_left(Deadline deadline) {
  constexpr std::chrono::milliseconds shortest{1}, longest{std::chrono::hours{24}};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::min<Deadline::Clock::duration>(deadline.remaining(), longest));
  return std::max(left, shortest);
}

}  // namespace

// Adding makes the file of a FileStore, in which check() cannot look before.
StoreAdapter::StoreAdapter(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {
  store_->add("capstan", 0);
}

void StoreAdapter::put(std::string_view key, std::span<const std::byte> value) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(value.data());
  store_->set(std::string(key), std::vector<std::uint8_t>(first, first + value.size()));
}

std::vector<std::byte> StoreAdapter::get(std::string_view key, Deadline deadline) {
  const std::string name(key);
  try {
    store_->wait({name}, time_left(deadline));
  } catch (const std::exception&) {
    if (!deadline.expired()) throw;
    throw TimedOut(fmt::format("no rank has put \"{}\" into PyTorch's store within {}", name,
                               deadline.budget()));
  }
  return read(name);
}

std::optional<std::vector<std::byte>> StoreAdapter::try_get(std::string_view key) {
  const std::string name(key);
  if (!store_->check({name})) return std::nullopt;
  return read(name);
}

std::vector<std::byte> StoreAdapter::read(const std::string& key) {
  const std::vector<std::uint8_t> value = store_->get(key);
  std::vector<std::byte> bytes(value.size());
  std::transform(value.begin(), value.end(), bytes.begin(),
                 [](std::uint8_t byte) { return std::byte{byte}; });
  return bytes;
}

}  // namespace capstan::pytorch
