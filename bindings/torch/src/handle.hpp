// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "capstan/work.hpp"
#include "tensors.hpp"
#include "versions.hpp"

namespace capstan::pytorch {

/// PyTorch counts microseconds in 64 bits: timedelta.max arrives as some number far below 0, and is
/// for ever.
std::chrono::milliseconds saturated(std::chrono::milliseconds timeout);

/// A call's time-out, or `otherwise` where it has none, 0 or kUnsetTimeout. Throws a ValueError for
/// what is no duration.
std::chrono::milliseconds limit_of(std::chrono::milliseconds asked,
                                   std::chrono::milliseconds otherwise);

/// PyTorch's handle of operations that were started, one or, in a batch, many. The operations move
/// on while a thread waits for any of the group, and from getFuture() on by Capstan's progress
/// thread. Thread-safe once launched.
class Handle final : public c10d::Work {
 public:
  /// `limit`: how long wait() waits, unless it gets a time of its own; 0: for ever.
  Handle(int rank, c10d::OpType type, const char* title, std::uint64_t sequence,
         std::chrono::milliseconds limit)
      : c10d::Work(rank, type, title), sequence_(sequence), limit_(limit) {}
  /// Waits until the tensors are free if the handle was not launched, because a call has thrown.
  ~Handle() override;

  Tensors& tensors() { return tensors_; }
  /// Adds tensors that result() and the future give.
  void give(std::vector<at::Tensor> outputs);
  void add(capstan::Work work) { works_.push_back(std::move(work)); }
  /// After the last add(). `handle` lives until all operations have ended.
  static void launch(const c10::intrusive_ptr<Handle>& handle);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  /// The source of a receive that has completed. Throws for other operations.
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  /// Throws the first error. After `timeout` it throws too; the operations continue.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  /// Gives the tensors back: wait() throws. Other ranks get their results.
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
#if TORCH_VERSION_MAJOR >= 2
  std::uint64_t getSequencenumber() const override { return sequence_; }
#endif

 private:
  void one_ended();
  bool all_ended() const;
  void settle();
  void complete(c10::ivalue::Future& future);

  const std::uint64_t sequence_;
  const std::chrono::milliseconds limit_;
  Tensors tensors_;
  std::vector<at::Tensor> outputs_;
  std::vector<capstan::Work> works_;
  bool launched_ = false;
  std::atomic<std::size_t> running_ = 0;
  std::once_flag settled_;
  mutable std::mutex future_mutex_;  // of the following
  std::exception_ptr unsettled_;     // why results could not be copied back
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool ended_ = false;
};

using HandlePtr = c10::intrusive_ptr<Handle>;

}  // namespace capstan::pytorch
