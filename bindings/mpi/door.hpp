// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/mpi/requests.hpp"

namespace capstan::mpi {

/// Where a call goes: to Capstan, or to MPI, and why.
struct Decision {
  std::optional<Served> served{};
  Reason reason{};
};

/// From MPI_Init to MPI_Finalize.
class Door {
 public:
  static bool is_open() { return open_.load(std::memory_order_acquire); }
  static bool reports() { return reports_.load(std::memory_order_relaxed); }

  /// Whether the calls of this communicator stay MPI's, by what this thread has found out last:
  /// so that these cost next to nothing.
  static bool stays_with_mpi(MPI_Comm comm) {
    return last_refused_.comm == comm && last_refused_.generation == Channels::generation() &&
           !reports();
  }

  /// All ranks decide alike: by the communicator, the operation and its type, and the calls that
  /// came before. Arguments that MPI refuses are MPI's. `may_wait`: the call is a blocking one.
  static Decision decide(const Arguments& arguments, bool may_wait);

  /// Ends a channel that belongs to one persistent request.
  static void retire(Channel& channel);

  /// MPI has been initialised.
  static void open() noexcept;
  /// MPI is about to be finalised.
  static void close() noexcept;

 private:
  struct Refused {
    std::uint64_t generation;
    MPI_Comm comm;
  };

  static std::atomic<bool> open_, reports_;
  // Where the thread finds it without a call.
  __attribute__((tls_model("initial-exec"))) static thread_local constinit Refused last_refused_;
};

/// MPI_Init, MPI_Finalize, and what frees handles.
void serve_lifecycle(void** served);

}  // namespace capstan::mpi
