// SPDX-License-Identifier: Apache-2.0

// MPI_Wait and its kin. While calls of Capstan are in the background a wait is a loop on a test,
// which completes their requests meanwhile. Without any it is MPI's own.
#include <sched.h>

#include "bindings/mpi/requests.hpp"

namespace capstan::mpi {
namespace {

/// Calls test(&done) until it is done or fails.
template <class Test>
int loop_on(const Test& test) {
  constexpr int spins = 1000;
  for (int round = 0;; ++round) {
    settle_pending();
    int done = 0;
    const int code = test(&done);
    if (code != MPI_SUCCESS || done) return code;
    if (round > spins) ::sched_yield();
  }
}

int wait(MPI_Request* request, MPI_Status* status) {
  if (!has_pending()) return own_as<decltype(wait)>(Id::Wait)(request, status);
  const auto test = own_as<int(MPI_Request*, int*, MPI_Status*)>(Id::Test);
  return loop_on([&](int* done) { return test(request, done, status); });
}

int wait_all(int count, MPI_Request requests[], MPI_Status statuses[]) {
  if (!has_pending()) return own_as<decltype(wait_all)>(Id::Waitall)(count, requests, statuses);
  const auto test = own_as<int(int, MPI_Request*, int*, MPI_Status*)>(Id::Testall);
  return loop_on([&](int* done) { return test(count, requests, done, statuses); });
}

int wait_any(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  if (!has_pending())
    return own_as<decltype(wait_any)>(Id::Waitany)(count, requests, index, status);
  const auto test = own_as<int(int, MPI_Request*, int*, int*, MPI_Status*)>(Id::Testany);
  return loop_on([&](int* done) { return test(count, requests, index, done, status); });
}

using Some = int(int, MPI_Request*, int*, int*, MPI_Status*);

int wait_some(int count, MPI_Request requests[], int* ended, int indices[], MPI_Status statuses[]) {
  if (!has_pending()) return own_as<Some>(Id::Waitsome)(count, requests, ended, indices, statuses);
  const auto test = own_as<Some>(Id::Testsome);
  return loop_on([&](int* done) {
    const int code = test(count, requests, ended, indices, statuses);
    *done = *ended != 0 ? 1 : 0;  // none, or MPI_UNDEFINED where none is active
    return code;
  });
}

/// A test is MPI's own, after what has ended was completed.
template <Id id, class... Parameters>
int test(Parameters... parameters) {
  if (has_pending()) settle_pending();
  return own_as<int(Parameters...)>(id)(parameters...);
}

}  // namespace

void serve_starts(void** served);

void serve_requests(void** served) {
  const auto put = [&](Id id, auto* function) {
    served[static_cast<int>(id)] = reinterpret_cast<void*>(function);
  };
  serve_starts(served);
  put(Id::Wait, &wait);
  put(Id::Waitall, &wait_all);
  put(Id::Waitany, &wait_any);
  put(Id::Waitsome, &wait_some);
  put(Id::Test, &test<Id::Test, MPI_Request*, int*, MPI_Status*>);
  put(Id::Testall, &test<Id::Testall, int, MPI_Request*, int*, MPI_Status*>);
  put(Id::Testany, &test<Id::Testany, int, MPI_Request*, int*, int*, MPI_Status*>);
  put(Id::Testsome, &test<Id::Testsome, int, MPI_Request*, int*, int*, MPI_Status*>);
  put(Id::Request_get_status, &test<Id::Request_get_status, MPI_Request, int*, MPI_Status*>);
}

}  // namespace capstan::mpi
