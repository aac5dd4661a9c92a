// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

#include "capstan/backends/factory.hpp"
#include "capstan/backends/mpi.hpp"
#include "core/extras/backends/mpi/adapter_interface.hpp"

namespace capstan {

/// The MPI library of this process: chosen and loaded once, initialised once, and finalised once
/// when the process exits, if it was initialised here. Thread-safe.
class LoadedMpi {
 public:
  /// Loads it. Throws NotSupported.
  static LoadedMpi& get();
  /// The same, without an exception.
  static Availability look();

  const MpiAdapter& adapter() const { return *adapter_; }
  bool is_open_mpi() const;
  /// Initialises MPI unless somebody has. Throws InvalidArgument when it has been finalised, or is
  /// initialised and the configuration asks for what has to be set before.
  void ensure_initialised(const MpiConfig& config);
  MpiState state();

  /// Calls of MPI by several threads come one after another.
  template <class Body>
  auto locked(const Body& body) {
    const std::lock_guard lock{mutex_};
    return body();
  }
  /// Throws for an error code of MPI; `call` is "rank 1: mpi: all_reduce(...)".
  void require(int code, const std::string& call) const;

 private:
  static LoadedMpi* load(std::string& reason);
  explicit LoadedMpi(const MpiAdapter* adapter) : adapter_(adapter) {}
  static void finalise();

  const MpiAdapter* adapter_;
  std::recursive_mutex mutex_;  // of calls, and of:
  bool initialised_here_ = false;
};

}  // namespace capstan
