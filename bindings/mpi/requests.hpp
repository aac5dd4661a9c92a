// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "bindings/mpi/channels.hpp"

namespace capstan::mpi {

/// A call that is served: on which channel, and how it reduces.
struct Served {
  Channel* channel;
  const Reduction* reduction = nullptr;
};

/// Starts a call in the background. A generalized request of MPI stands for it.
int start_in_background(const Served& served, const Arguments& arguments, MPI_Request* request);
/// Makes a persistent request; all ranks call it. A persistent receive from this process itself
/// stands for it, which a message completes when the call has ended. Nothing: no group can be had.
std::optional<int> make_persistent(const Served& served, const Arguments& arguments,
                                   MPI_Request* request);

/// Moves calls in the background on, and completes nothing: may be called from within MPI.
/// Returns how many have ended.
int advance_pending();
/// The same, and completes the requests of those that have ended.
void settle_pending();
/// Calls in the background, and persistent requests.
bool has_pending();
/// Waits for all that is in the background; before MPI_Finalize.
void finish_pending();

/// Operations and types that are freed while a call in the background may need them are freed
/// later.
int free_operation(MPI_Op* op);
int free_type(MPI_Datatype* type);

/// MPI_Start and its kin, MPI_Wait and its kin: MPI's own, which see to the calls in the
/// background.
void serve_requests(void** served);

}  // namespace capstan::mpi
