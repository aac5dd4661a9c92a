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

  Comm(int rank, int size, Options options) : rank_(rank), size_(size), options_(options) {}

  /// Makes the communicator: at once, or on a thread where calls do not block. Nobody waits for
  /// that thread, as start-up has a time limit of its own. What goes wrong is the communicator's
  /// failure.
  void open(Make make, bool in_background);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Options& options() const { return options_; }

  /// Throws what has ended the communicator, and InvalidArgument while it is being made.
  Communicator& world();
  /// ncclInProgress while it is being made or works are in flight; else the failure.
  ncclResult_t state();
  std::exception_ptr failure();

  /// Works that a call of a communicator that does not block has left in flight.
  void add(std::vector<Work> works);
  /// Waits for them, and for calls in streams.
  void flush();
  void finalize() { finalized_ = true; }
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
  void make(const Make& make);
  /// Waits for the works, and forgets them.
  void take_works();

  const int rank_, size_;
  const Options options_;
  std::mutex mutex_;
  std::unique_ptr<Communicator> world_;
  std::exception_ptr failure_;
  std::vector<Work> works_;
  std::vector<std::function<double()>> factors_;
  std::atomic<bool> making_ = false, finalized_ = false, aborted_ = false;
  Turns turns_;
};

/// The handle of a new communicator.
ncclComm_t handle_of(std::shared_ptr<Comm> comm);
/// Throws InvalidArgument for a handle that is null, or of a communicator that has been freed.
std::shared_ptr<Comm> comm_of(ncclComm_t handle);
/// Takes the handle away from the program.
std::shared_ptr<Comm> release(ncclComm_t handle);

}  // namespace capstan::nccl
