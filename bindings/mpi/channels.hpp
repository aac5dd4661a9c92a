// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bindings/mpi/options.hpp"
#include "bindings/mpi/report.hpp"
#include "bindings/mpi/transfer.hpp"
#include "capstan/communicator.hpp"

namespace capstan::mpi {

/// The counterpart of a communicator of MPI: a group over the links of the world, which the first
/// blocking collective forms, as all ranks come to it. What comes before that is MPI's: a call that
/// must not wait cannot form one.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  explicit Channel(MPI_Comm comm);
  /// The channel of the world, which has been joined.
  Channel(MPI_Comm comm, Communicator world);

  Place place() const { return place_; }
  /// Why all calls of this communicator are MPI's; all ranks find the same.
  std::optional<Reason> refusal() const { return refusal_; }
  bool is_formed() const { return formed_.load(std::memory_order_acquire); }
  /// Forms the group. All ranks call it. False, and a refusal, if it cannot be had on some rank.
  bool form();
  Communicator& group() { return *group_; }
  /// A group for one persistent call, which has it to itself while it holds the pointer: ranks may
  /// start persistent calls in different orders. All ranks call it in the same order and get the
  /// same one: the first that has been given back on all of them, else a new one. Null if some rank
  /// cannot have a new one.
  std::shared_ptr<Channel> lend();
  /// Ends the groups for persistent calls, those that are lent once they are given back.
  void end_lending();
  std::optional<Communicator> take_group() { return std::move(group_); }

 private:
  std::optional<Reason> examine();
  std::vector<std::uint8_t> available() const;

  const MPI_Comm comm_;
  Place place_;
  std::vector<int> members_;  // their ranks in the world
  std::optional<Reason> refusal_;
  std::mutex forming_;
  std::atomic<bool> formed_ = false;
  std::optional<Communicator> group_;
  mutable std::mutex lending_;
  std::vector<std::shared_ptr<Channel>> for_persistent_;  // the same on all ranks
};

/// The channels of this process, from MPI_Init to MPI_Finalize.
class Channels {
 public:
  /// Joins the world by way of MPI. All ranks call it. Null, and a line on standard error, if a
  /// rank cannot.
  static std::unique_ptr<Channels> open(const Options& options);

  /// Counts communicators that were freed: a handle that was looked up before one of them was may
  /// mean another communicator now.
  static std::uint64_t generation() { return generation_.load(std::memory_order_acquire); }

  /// Null for an error of MPI. It lasts until MPI frees the communicator, which no program does
  /// during a call; what takes longer than a call shares it.
  Channel* find(MPI_Comm comm);
  /// Ends a group once all of its ranks have done so.
  void retire(Channel& channel);
  /// Whether the world can no longer be used, as a rank has gone.
  bool has_failed() const;
  /// Waits until no peer needs a group any more.
  void close();

 private:
  Channels() = default;
  static int forget(MPI_Comm, int, void* attribute, void* self);
  void drop_retired();

  static std::atomic<std::uint64_t> generation_;
  int keyval_ = MPI_KEYVAL_INVALID;
  std::shared_ptr<Channel> world_;
  struct Retired {
    Communicator group;
    Work barrier;
  };
  std::mutex mutex_;  // of the retired groups
  std::vector<Retired> retired_;
};

}  // namespace capstan::mpi
