// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "capstan/error.hpp"
#include "signals.hpp"

namespace capstan::pytorch {

using namespace std::chrono_literals;

// Adding makes the file of a FileStore, in which check() cannot look before.
StoreAdapter::StoreAdapter(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {
  store_->add("capstan", 0);
}

void StoreAdapter::put(std::string_view key, std::span<const std::byte> value) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(value.data());
  store_->set(std::string(key), std::vector<std::uint8_t>(first, first + value.size()));
}

/// The store's own wait knows no signals, and stores of older versions are broken by one that is
/// cut short.
std::vector<std::byte> StoreAdapter::get(std::string_view key, Deadline deadline) {
  const std::string name(key);
  constexpr auto shortest = 1ms, longest = between_looks;
  for (auto pause = shortest; !store_->check({name}); pause = std::min(2 * pause, longest)) {
    if (deadline.expired())
      throw TimedOut(fmt::format("no rank has put \"{}\" into PyTorch's store within {}", name,
                                 deadline.budget()));
    std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(pause, deadline.remaining()));
    try {
      look_for_signals();
    } catch (...) {
      interruption_ = std::current_exception();
      throw;
    }
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
