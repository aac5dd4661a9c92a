// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/nccl/nccl.h"
#include "bindings/nccl/turns.hpp"
#include "capstan/async/streams.hpp"
#include "capstan/communicator.hpp"

namespace capstan::nccl {

/// The state behind an ncclComm_t. Calls hold it by a shared pointer, so that one thread may abort
/// and free a communicator while another waits in it.
class Comm : public std::enable_shared_from_this<Comm> {
 public:
  /// How a communicator is asked for.
  struct Options {
    bool blocking = true;
    int device = 0;
    std::string name{};
  };
  using Make = std::function<Communicator()>;
  /// The devices of the ranks, as these have agreed.
  struct Devices {
    bool has_streams = false;  ///< all ranks have a vendor's driver
    /// Two ranks of one process have the same device, and so the same default stream: there the
    /// call of one would wait for that of the other, which waits for the first.
    bool is_shared = false;
  };

  Comm(int rank, int size, Options options) : rank_(rank), size_(size), options_(options) {}
  Comm(const Comm&) = delete;

  /// Makes the communicator: at once, or on a thread where calls do not block. Nobody waits for
  /// that thread, as start-up has a time limit of its own. What goes wrong is the communicator's
  /// failure. `known`: see below; empty: ranks agree on it, by a call of the new communicator.
  void open(Make make, bool in_background, std::optional<Devices> known = std::nullopt);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Options& options() const { return options_; }

  /// Throws what has ended the communicator, and InvalidArgument while it is being made.
  Communicator& world();
  /// The same though it has failed or been finalized, to shrink it.
  Communicator& world_after_failure();
  const Devices& devices() const { return devices_; }
  /// Whether calls on memory of devices go by streams(): all ranks have a vendor's driver.
  bool has_streams() const { return devices_.has_streams; }
  /// Made by all ranks together at the first such call. Throws as world() does.
  StreamCollectives& streams();
  /// ncclInProgress while it is being made or works are in flight; else the failure.
  ncclResult_t state();
  std::exception_ptr failure();

  /// Works that a call of a communicator that does not block has left in flight.
  void add(std::vector<Work> works);
  /// Waits for them, and for calls in streams of the stand-in for CUDA.
  void flush();
  /// Takes no more calls. One that blocks waits for those in streams.
  ncclResult_t finalize();
  void abort(const std::string& reason);
  bool aborted() const { return aborted_; }
  /// The communicator has failed: the first error counts.
  void fail(std::exception_ptr error);
  Turns& turns() { return turns_; }

  /// Factors of sums that the program has made, by operation.
  ncclRedOp_t add_factor(std::function<double()> factor);
  void remove_factor(ncclRedOp_t op);
  Reducer reducer(ncclRedOp_t op);

 private:
  void make(const Make& make, const std::optional<Devices>& known);
  bool is_idle() const;
  /// Waits for the works, and forgets them.
  void take_works();

  const int rank_, size_;
  const Options options_;
  std::mutex mutex_;
  std::unique_ptr<Communicator> world_;
  std::atomic<StreamCollectives*> streams_ = nullptr;  ///< of world_, once a call is in a stream
  std::exception_ptr failure_;
  std::vector<Work> works_;
  std::vector<std::function<double()>> factors_;
  std::atomic<bool> making_ = false, finalized_ = false, aborted_ = false;
  Devices devices_;  ///< once it is made
  Turns turns_;
};

/// Throws InvalidArgument for a number that is none of NCCL's types.
DataType type_of(ncclDataType_t type);

/// The handle of a new communicator.
ncclComm_t handle_of(std::shared_ptr<Comm> comm);
/// Throws InvalidArgument for a handle that is null, or of a communicator that has been freed.
std::shared_ptr<Comm> comm_of(ncclComm_t handle);
/// Takes the handle away from the program.
std::shared_ptr<Comm> release(ncclComm_t handle);

}  // namespace capstan::nccl
