#pragma once

#include <memory>
#include <string>

#include "capstan/deadline.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/bootstrap/method.hpp"

namespace capstan {

/// Where rank 0 leaves a text for the others, at the launcher's. Each key serves once.
class LauncherKvs {
 public:
  virtual ~LauncherKvs() = default;

  /// Both throw BootstrapError, TimedOut. Rank 0:
  virtual void put(const std::string& key, const std::string& text, Deadline deadline) = 0;
  /// The others.
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
  /// All ranks, before they end without having met: what is left stays until all have it.
  virtual void leave(Deadline deadline) = 0;
};

/// For Method::pmix and Method::pmi.
std::unique_ptr<LauncherKvs> launcher_kvs(Method method, const Launch& launch);

}  // namespace capstan
