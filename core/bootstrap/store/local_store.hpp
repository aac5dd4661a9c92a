// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "core/bootstrap/store/store.hpp"

namespace capstan {

/// A store inside one process, for a world of one rank. Any number of threads may use it.
class LocalStore final : public JobStore {
 public:
  void put(std::string_view key, std::span<const std::byte> value) override;
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override;
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override;
  const Secret& secret() const override { return secret_; }

 private:
  const Secret secret_ = Secret::random();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::byte>, std::less<>> values_;
};

}  // namespace capstan
