// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "capstan/store.hpp"
#include "versions.hpp"

namespace capstan::pytorch {

/// PyTorch's store as the place where ranks meet.
class StoreAdapter final : public Store {
 public:
  explicit StoreAdapter(c10::intrusive_ptr<c10d::Store> store);

  void put(std::string_view key, std::span<const std::byte> value) override;
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override;
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override;

  /// The exception of a handler of signals that has ended a wait in get(); null: none.
  const std::exception_ptr& interruption() const { return interruption_; }

 private:
  std::vector<std::byte> read(const std::string& key);

  c10::intrusive_ptr<c10d::Store> store_;
  std::exception_ptr interruption_;
};

}  // namespace capstan::pytorch
