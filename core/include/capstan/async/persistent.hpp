// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/communicator.hpp"
#include "capstan/export.hpp"
#include "capstan/request.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A collective call that is described and checked once, and then started again and again on the
/// same buffers, as a persistent collective of MPI 4:
///
///   capstan::PersistentCall sum{world, capstan::request::in_place(Collective::all_reduce, data)};
///   for (int step = 0; step < 100; ++step) {
///     fill(data);
///     sum.start();
///     compute();
///     sum.wait();
///   }
///
/// All ranks start their calls in the same order, persistent ones and others. The communicator
/// outlives the call, and the buffers outlive each operation. Used by one thread at a time.
class PersistentCall {
 public:
  /// Waits for nobody. Throws what start() would throw for this request.
  PersistentCall(Communicator& communicator, Request request);

  /// Starts the call. Throws InvalidArgument while the operation before has not ended.
  const Work& start();
  /// Returns when the operation that was started last has completed, at once if there is none.
  /// Throws its error.
  void wait() const;
  /// Whether wait() would return at once. Asking moves the operation on.
  bool is_completed() const;

  /// The operation that was started last; empty before.
  const Work& work() const { return work_; }
  const Request& request() const { return request_; }

 private:
  Communicator* communicator_;
  Request request_;
  Work work_;
};

}  // namespace CAPSTAN_EXPORT capstan
