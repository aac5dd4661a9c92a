// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/progress.hpp"

#include "bindings/mpi/requests.hpp"

namespace capstan::mpi {
namespace {

MPI_Comm own_comm;
bool hooked = false;

/// A receive that nothing matches: to test it moves MPI on. (A probe may find a message that the
/// program will receive, and look no further.)
MPI_Request never;
constexpr int never_sent = 0x7fff;  // the highest tag that every MPI has

/// Open MPI calls this wherever it waits.
int advance_from_mpi() {
  return advance_pending();
}

using Hook = int (*)(int (*)());

Hook hook(const char* name) {
  return reinterpret_cast<Hook>(symbol(name));
}

}  // namespace

void start_progress() {
  require(calls.Comm_dup(MPI_COMM_SELF, &own_comm));
  require(calls.Comm_set_errhandler(own_comm, MPI_ERRORS_RETURN));
  require(calls.Irecv(nullptr, 0, MPI_BYTE, 0, never_sent, own_comm, &never));
  if (const Hook add = hook("opal_progress_register")) hooked = add(&advance_from_mpi) == 0;
}

void stop_progress() {
  if (hooked) hook("opal_progress_unregister")(&advance_from_mpi);
  hooked = false;
  calls.Cancel(&never);
  own_as<int(MPI_Request*, MPI_Status*)>(Id::Wait)(&never, MPI_STATUS_IGNORE);
  calls.Comm_free(&own_comm);
}

bool mpi_moves_capstan() {
  return hooked;
}

MPI_Comm own_communicator() {
  return own_comm;
}

void move_mpi() {
  int done = 0;
  own_as<int(MPI_Request*, int*, MPI_Status*)>(Id::Test)(&never, &done, MPI_STATUS_IGNORE);
}

void wait_beside_mpi(const Work& work) {
  constexpr std::chrono::microseconds between{50};
  while (!work.wait_for(between)) move_mpi();
}

}  // namespace capstan::mpi
