// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/unique_id.hpp"
#include "handle.hpp"
#include "versions.hpp"

namespace capstan::pytorch {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using TensorList = std::vector<at::Tensor>;

/// The settings of the environment, with the time-out that PyTorch gives a group.
Settings settings_of(std::chrono::milliseconds timeout);

/// A communicator of a group. The progress thread may wait for the GIL in a callback of a future,
/// so the communicator is destroyed without it.
std::shared_ptr<Communicator> owned(Communicator communicator);

/// The backend "capstan" of torch.distributed: the collectives and messages of c10d over one
/// communicator. What it does not override PyTorch's base class refuses. All functions are
/// thread-safe but those of a batch (startCoalescing() to endCoalescing()), which one thread uses.
class Group final : public Base {
 public:
  /// `timeout` is the group's: how long an operation waits for a peer.
  Group(std::shared_ptr<Communicator> communicator, std::chrono::milliseconds timeout);
  /// Has no members before reconfigure(); `rank` and `size` are those of PyTorch until then.
  Group(int rank, int size, std::chrono::milliseconds timeout);
  ~Group() override;

  /// The interpreter ends: callbacks of futures end first, or those that wait are made to.
  static void end_callbacks();

  const std::string getBackendName() const override { return "capstan"; }

  WorkPtr broadcast(TensorList& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(TensorList& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(TensorList& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(TensorList& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<TensorList>& outputs, TensorList& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<TensorList>& outputs, TensorList& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<TensorList>& outputs, TensorList& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(TensorList& outputs, TensorList& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  /// Rank 0 names the ranks that have not come in time.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  WorkPtr send(TensorList& tensors, int destination, int tag) override;
  WorkPtr recv(TensorList& tensors, int source, int tag) override;
  WorkPtr recvAnysource(TensorList& tensors, int tag) override;

  /// Ranks count alike from the start, so there is nothing to agree on.
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

#if TORCH_VERSION_MAJOR >= 2
  WorkPtr allgather_into_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
#endif
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6)
  void setTimeout(std::chrono::milliseconds timeout) override;
  /// Lets go of the communicator: calls in flight end as they can, later ones are refused.
  void shutdown() override;
  void abort() override;
#endif
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return reconfigures_; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  /// Returns when all members have called it. Operations of the members before have ended.
  WorkPtr reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

 private:
  Group(std::shared_ptr<Communicator> communicator, int rank, int size,
        std::chrono::milliseconds timeout);
  std::shared_ptr<Communicator> communicator();
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  c10d::ReconfigureHandle handle_at(const UniqueId& meeting) const;
  std::vector<c10d::ReconfigureHandle> own_handles() const;
  void meet(const UniqueId& meeting, int rank, const std::vector<std::string>& handles,
            std::int64_t uuid, const Settings& settings);
#endif
  void discard_meetings();
  void abort_for(const std::string& reason);
  /// A handle for a call; within a batch the batch's.
  HandlePtr handle(c10d::OpType type, const char* title, std::chrono::milliseconds limit);
  void start(Handle& handle, const Request& request);
  WorkPtr launched(const HandlePtr& handle);
  WorkPtr message(c10d::OpType type, const char* title, bool sends, TensorList& tensors, int peer,
                  int tag);
  void start_all_gather(Handle& handle, const at::Tensor& output, const at::Tensor& input);
  void start_reduce_scatter(Handle& handle, const at::Tensor& output, const at::Tensor& input,
                            const c10d::ReduceOp& op);
  void start_all_to_all(Handle& handle, const at::Tensor& output, const at::Tensor& input,
                        std::vector<Elements> sent, std::vector<Elements> received);
  void start_sparse_all_reduce(Handle& handle, const at::Tensor& tensor, const c10d::ReduceOp& op);
  void all_reduce_fused(Handle& handle, const TensorList& tensors, const c10d::ReduceOp& op);
  void wait_for_ranks(std::chrono::milliseconds limit, bool wait_for_all);
  void report_to_first(std::chrono::milliseconds limit);
  void check_size(std::size_t tensors, const char* call) const;

  mutable std::mutex mutex_;  // of the pointer, and of what reconfigure() changes
  std::shared_ptr<Communicator> communicator_;
  const std::chrono::milliseconds longest_;  ///< the engine's own limit
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> sequence_ = 0;
  HandlePtr batch_;  ///< between startCoalescing() and endCoalescing()
  std::vector<Message> batch_messages_;

  const bool reconfigures_;
  std::mutex reconfiguring_;               ///< one reconfigure() at a time
  std::set<std::int64_t> uuids_;           ///< of all attempts
  std::int64_t uuid_ = -1;                 ///< of the members; -1: there were none
  mutable std::deque<UniqueId> meetings_;  ///< of handles that may be used
};

}  // namespace capstan::pytorch
