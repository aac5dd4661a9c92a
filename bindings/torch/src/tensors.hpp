// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "capstan/message.hpp"
#include "capstan/reducer.hpp"
#include "capstan/types.hpp"
#include "versions.hpp"

namespace capstan::pytorch {

/// The memory of a dense tensor on the host.
struct Memory {
  DataType type;
  void* data;
  Elements count;
  ForeignType foreign{};
};

/// To be moved: elements of a type that Capstan does not know, like int16, travel as bytes.
Memory memory_to_move(const at::Tensor& tensor);
/// To be combined with other ranks' elements. Refuses types that Capstan has no arithmetic for.
Memory memory_to_reduce(const at::Tensor& tensor);

/// The operation for elements of `type`. bool is a byte of 0 or 1, whose sums would not be one.
Reducer reducer_of(const c10d::ReduceOp& op, at::ScalarType type);
/// From now on the operations of this thread's calls keep this promise of bits; empty: their
/// group's. Returns the promise so far.
std::string promise_bits(const std::string& promise);

/// The one tensor of a list, as backends get them. `call` is for the error.
at::Tensor& only(std::vector<at::Tensor>& tensors, const char* call);
/// Refuses what Capstan cannot reach: tensors on other devices, sparse and quantized ones.
void check_reachable(const at::Tensor& tensor);
/// A tensor whose memory holds the values that it shows: PyTorch negates and conjugates some only
/// when it reads them.
at::Tensor resolved(const at::Tensor& tensor);
/// Refuses tensors of different types.
void check_same_type(const at::Tensor& a, const at::Tensor& b, const char* call);

/// The tensors of one operation. They live until it has ended, whether the program still has them
/// or not. A tensor that does not lie dense is replaced by a dense copy, and several tensors by
/// one; settle() copies results back.
class Tensors {
 public:
  /// From now on integers of 16 bits, which Capstan does not add, are replaced by ones of 32. What
  /// does not fit in 16 bits at the end wraps around, as it does in each addition.
  void widen() { widens_ = true; }
  at::Tensor input(const at::Tensor& tensor);
  at::Tensor output(const at::Tensor& tensor);
  /// Both read and written.
  at::Tensor in_place(const at::Tensor& tensor);
  /// One tensor with the elements of all of them, in order.
  at::Tensor inputs(const std::vector<at::Tensor>& tensors);
  at::Tensor outputs(const std::vector<at::Tensor>& tensors);

  /// settle() calls it.
  void at_end(std::function<void()> step) { last_steps_.push_back(std::move(step)); }

  /// Called once, when the operation has succeeded.
  void settle();

 private:
  at::Tensor kept(at::Tensor tensor);
  /// `tensor` is to hold what `from` does in the end. Refuses one that has no place for it.
  void copy_back(const at::Tensor& tensor, at::Tensor from);
  /// The type in which elements take part.
  at::ScalarType type_of(const at::Tensor& tensor) const;
  bool takes_part(const at::Tensor& tensor) const;

  bool widens_ = false;
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to, from
  std::vector<std::function<void()>> last_steps_;
};

}  // namespace capstan::pytorch
