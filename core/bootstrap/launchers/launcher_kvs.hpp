// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "capstan/deadline.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/bootstrap/method.hpp"

namespace capstan {

/// The launcher's key-value store, in which rank 0 puts a text for the other ranks. Each key serves
/// once. Calls throw BootstrapError, TimedOut.
class LauncherKvs {
 public:
  virtual ~LauncherKvs() = default;

  /// Called by rank 0.
  virtual void put(const std::string& key, const std::string& text, Deadline deadline) = 0;
  /// Called by all other ranks. Waits for rank 0.
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
  /// Called by all ranks instead of joining a store, before they end: values must stay until every
  /// rank has read them.
  virtual void leave(Deadline deadline) = 0;
};

/// The key-value store of Method::pmix or Method::pmi.
std::unique_ptr<LauncherKvs> launcher_kvs(Method method, const Launch& launch);

}  // namespace capstan
