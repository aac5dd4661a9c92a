// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/export.hpp"
#include "capstan/values/dual.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// The right to start operations on a communicator, of which one task at a time has it.
class Turn {
 public:
  explicit Turn(Communicator& communicator) : communicator_(&communicator) {}
  /// Await what is started: `co_await turn.communicator().start_all_reduce(tensor.view())`.
  Communicator& communicator() const { return *communicator_; }

 private:
  Communicator* communicator_;
};

/// Collectives and messages on values: a distributed program written like a sequential one.
///
///   Sequence world(communicator);
///   Async<Tensor> sums = world.all_reduce(gradient);    // returns at once
///   weights -= sums * 0.1;                              // so does this
///
/// Each is a task that waits for its tensors, starts the operation, and awaits it. Operations start
/// in the order of the calls, whatever becomes ready first: so all ranks, which run one program,
/// start them in the same order, and a program that is right with one scheduler is right with all.
/// Several are under way at once, and tasks compute meanwhile (a progress thread moves operations
/// on).
///
/// Calls are made by the thread that made the Sequence, and not inside of a task, where their order
/// would be that of chance: InvalidArgument. A task that is to start operations gets turn(), which
/// takes its place in the order like a call. A communicator has one Sequence; split() gives tasks
/// that are independent of each other communicators of their own.
///
/// Tensors of all ranks have the shapes that Communicator asks for. A tensor that failed instead of
/// being computed fails this operation and all later ones of the sequence with its error, as
/// other ranks wait for what this one cannot start: they get a PeerLost when the communicator is
/// destroyed, or TimedOut. An operation that fails leaves its error to its results.
///
/// The destructor waits for all operations. The communicator outlives the Sequence.
class Sequence {
 public:
  explicit Sequence(Communicator& communicator);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  /// All ranks' tensors combined, on every rank.
  Async<Tensor> all_reduce(const Async<Tensor>& in, Reducer reducer = {});
  /// The same in place.
  void all_reduce_in_place(Async<Tensor>& data, Reducer reducer = {});
  /// The root's tensor, on every rank. Others pass one of the same shape and type.
  Async<Tensor> broadcast(const Async<Tensor>& in, int root);
  /// All ranks' tensors combined at the root, an empty tensor elsewhere.
  Async<Tensor> reduce(const Async<Tensor>& in, int root, Reducer reducer = {});
  /// The tensors of all ranks, one after another along the first dimension.
  Async<Tensor> all_gather(const Async<Tensor>& in);
  /// This rank's part, along the first dimension, of all ranks' tensors combined.
  Async<Tensor> reduce_scatter(const Async<Tensor>& in, Reducer reducer = {});
  /// Block r of the result, along the first dimension, is this rank's block of rank r's tensor.
  Async<Tensor> all_to_all(const Async<Tensor>& in);
  /// The n-th message to a rank with a tag is its n-th receive from here with that tag.
  void send(const Async<Tensor>& in, int destination, int tag = 0);
  Async<Tensor> receive(DataType type, std::vector<std::int64_t> shape, int source, int tag = 0);

  // With gradients. That of an operation is the matching operation on the gradients of the results:
  // all_reduce's is all_reduce, all_gather's reduce_scatter, reduce_scatter's all_gather, and
  // broadcast's reduce. They start in the reverse order, at the place of backward() in the order of
  // calls; every rank calls it. The gradient is that of the sum of all ranks' results.
  Dual<Tensor> all_reduce(const Dual<Tensor>& in, ReduceOp sum_or_average = ReduceOp::sum);
  Dual<Tensor> broadcast(const Dual<Tensor>& in, int root);
  Dual<Tensor> all_gather(const Dual<Tensor>& in);
  Dual<Tensor> reduce_scatter(const Dual<Tensor>& in);

  /// The next place in the order, for a task that starts operations itself, as many as it likes.
  /// All ranks start the same ones. The task releases it after the last.
  MutableBuffer<Turn> turn();

 private:
  class Order;
  using Start = std::function<Work(Communicator&, const Tensor&, Tensor&)>;

  static AsyncTask run(MutableBuffer<Turn> turn, ReadBuffer<bool> alive, ReadBuffer<Tensor> in,
                       WriteBuffer<Tensor> out, Start start);
  static AsyncTask run_in_place(MutableBuffer<Turn> turn, ReadBuffer<bool> alive,
                                MutableBuffer<Tensor> data, Start start);
  Async<Tensor> call(const Async<Tensor>& in, Start start);
  Dual<Tensor> call(const Dual<Tensor>& in, Start start, Start gradient);
  void check_order() const;

  Communicator& communicator_;
  const std::thread::id thread_ = std::this_thread::get_id();
  Async<bool> alive_ = true;  ///< is read by all operations
  std::shared_ptr<Order> order_;
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
