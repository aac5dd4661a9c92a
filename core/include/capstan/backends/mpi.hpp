// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "capstan/backends/backend.hpp"
#include "capstan/backends/config.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// How MPI is initialised and used. BackendConfig::options has the same under the names beside.
struct MpiConfig {
  /// Tensors on devices are passed to an MPI library that says it takes them; otherwise, or when
  /// this is off, they are staged through pinned host memory. "use_cuda_aware_mpi", 0 or 1.
  bool use_cuda_aware_mpi = true;
  /// The level that MPI is initialised with: 0 single, 1 funneled, 2 serialized, 3 multiple. From 2
  /// on other threads may wait for works, and futures work. "thread_level".
  int thread_level = 1;
  /// The library counts what it sends, where it can, in its own way. "enable_profiling".
  bool enable_profiling = false;
  /// The bytes up to which a message may be sent before its receive. Only another value than this
  /// one changes what the library does by itself. "buffer_size".
  int buffer_size = 65536;
  /// Large all-reduces run by Rabenseifner's algorithm. "enable_tuning".
  bool enable_tuning = false;
  /// For tests: the most elements that are passed to MPI in one count. "longest_count".
  int longest_count = 1 << 30;

  /// Sets the library's own variables in the environment of this process, where they are not set
  /// yet. The backend does so before it initialises MPI. Throws InvalidArgument when MPI has been
  /// initialised already and a variable would be needed, or a value makes no sense; NotSupported
  /// where there is no MPI.
  void apply() const;
  /// Throws InvalidArgument for values that make no sense.
  static MpiConfig from_options(const std::map<std::string, std::string>& options);
};

/// The MPI library that this process uses.
struct MpiState {
  std::string library;            ///< "Open MPI" or "MPICH"
  std::string version;            ///< in its own words
  bool initialised = false;       ///< by anybody, and not finalised
  bool initialised_here = false;  ///< by a backend, which finalises it when the process exits
  int thread_level = 0;           ///< that was got; may be lower or higher than the one asked for
  bool cuda_aware = false;        ///< says the library, once it is initialised
};
/// Loads the library, and initialises nothing. Throws NotSupported with reason and remedy where
/// there is none.
MpiState mpi_state();

/// A backend over a duplicate of a communicator of the program, to which `communicator` points (an
/// MPI_Comm*). MPI has been initialised. All of its ranks call it.
[[nodiscard]] std::unique_ptr<Backend> make_mpi_backend(const void* communicator,
                                                        const BackendConfig& config = {});

}  // namespace CAPSTAN_EXPORT capstan
