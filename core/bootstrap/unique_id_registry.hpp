// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/bootstrap/store/store_server.hpp"
#include "core/bootstrap/unique_id.hpp"

namespace capstan {

/// The servers behind the unique ids that this process has created. One ends when all its ranks
/// have joined and left (noticed at the next creation), when a rank of this process gives up before
/// all have joined, or with the process.
class UniqueIdRegistry {
 public:
  static constexpr const char* scope = "unique id";
  static UniqueIdRegistry& instance();

  UniqueId create(const std::string& address);
  /// Stops the server of `id`, if it is in this process and ranks are still to come.
  void abandon_unless_complete(const UniqueId& id);

 private:
  void end_servers();

  std::mutex mutex_;
  std::vector<std::pair<UniqueId, std::shared_ptr<StoreServer>>> servers_;
};

}  // namespace capstan
