// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/sequence.hpp"

#include <fmt/format.h>

#include <mutex>
#include <set>

namespace capstan::values {
namespace {

using Shape = std::vector<std::int64_t>;

/// The communicators that have a Sequence.
struct InUse {
  std::mutex mutex;
  std::set<const Communicator*> communicators;
};

InUse& in_use() {
  static auto* const all = new InUse;
  return *all;
}

void occupy(const Communicator& communicator) {
  const std::scoped_lock lock{in_use().mutex};
  if (!in_use().communicators.insert(&communicator).second)
    throw InvalidArgument(fmt::format(
        "rank {}: a second Sequence of one communicator: their operations would have no common "
        "order. Use the first one, or split() the communicator",
        communicator.rank()));
}

void vacate(const Communicator& communicator) {
  const std::scoped_lock lock{in_use().mutex};
  in_use().communicators.erase(&communicator);
}

Request request_of(Collective collective, const Tensor& in, Tensor& out, Reducer reducer,
                   int root) {
  Request request;
  request.collective = collective;
  request.type = in.type();
  request.input = in.data();
  request.input_count = in.count();
  request.output = out.data();
  request.output_count = out.count();
  request.reducer = std::move(reducer);
  request.root = root;
  return request;
}

/// `factor` times as long, or a part as long as one of `parts`, along the first dimension.
Shape times(Shape shape, int factor) {
  if (shape.empty()) shape = {1};
  shape[0] *= factor;
  return shape;
}
Shape divided(const Tensor& tensor, int parts, const char* call) {
  Shape shape = tensor.shape();
  if (shape.empty() || shape[0] % parts != 0)
    throw InvalidArgument(fmt::format(
        "{} of a tensor {} among {} ranks: its first length has to be a multiple of their number",
        call, to_string(tensor), parts));
  shape[0] /= parts;
  return shape;
}

std::span<std::byte> bytes_of(Tensor& tensor) {
  return {tensor.data(), tensor.bytes().value()};
}

// The operations that collectives start, once their tensors are there.

auto start_all_reduce(const Reducer& reducer) {
  return [reducer](Communicator& communicator, const Tensor& in, Tensor& out) {
    out = Tensor{in.type(), in.shape()};
    return communicator.start(request_of(Collective::all_reduce, in, out, reducer, 0));
  };
}

Work start_all_gather(Communicator& communicator, const Tensor& in, Tensor& out) {
  out = Tensor{in.type(), times(in.shape(), communicator.size())};
  return communicator.start(request_of(Collective::all_gather, in, out, {}, 0));
}

auto start_reduce_scatter(const Reducer& reducer) {
  return [reducer](Communicator& communicator, const Tensor& in, Tensor& out) {
    out = Tensor{in.type(), divided(in, communicator.size(), "reduce_scatter")};
    return communicator.start(request_of(Collective::reduce_scatter, in, out, reducer, 0));
  };
}

auto start_broadcast(int root) {
  return [root](Communicator& communicator, const Tensor& in, Tensor& out) {
    out = in;
    return communicator.start_broadcast(out.view(), root);
  };
}

auto start_reduce(int root, const Reducer& reducer) {
  return [root, reducer](Communicator& communicator, const Tensor& in, Tensor& out) {
    out = communicator.rank() == root ? Tensor{in.type(), in.shape()} : Tensor{in.type(), {0}};
    return communicator.start(request_of(Collective::reduce, in, out, reducer, root));
  };
}

Work start_all_to_all(Communicator& communicator, const Tensor& in, Tensor& out) {
  (void)divided(in, communicator.size(), "all_to_all");
  out = Tensor{in.type(), in.shape()};
  return communicator.start(request_of(Collective::all_to_all, in, out, {}, 0));
}

AsyncTask run_send(MutableBuffer<Turn> turn, ReadBuffer<bool>, ReadBuffer<Tensor> in,
                   int destination, int tag) {
  co_await when_all(turn, in);
  Tensor& data = const_cast<Tensor&>(in.get());  // is only read
  Message message = Message::to(destination, bytes_of(data), tag);
  message.type = data.type();
  message.count = data.count();
  const Work work = turn.get().communicator().start_transfer(message);
  turn.release();
  co_await work;
}

AsyncTask run_receive(MutableBuffer<Turn> turn, ReadBuffer<bool>, WriteBuffer<Tensor> out,
                      Tensor space, int source, int tag) {
  co_await when_all(turn, out);
  Message message = Message::from(source, bytes_of(space), tag);
  message.type = space.type();
  message.count = space.count();
  const Work work = turn.get().communicator().start_transfer(message);
  turn.release();
  co_await work;
  out.emplace(std::move(space));
}

AsyncTask run_backward(MutableBuffer<Turn> turn, WriteBuffer<bool> begin,
                       ReadBuffer<bool> started) {
  co_await when_all(turn, begin);
  (void)turn.get();
  begin.emplace(true);
  begin.release();
  co_await when_all(started);
  (void)started.get();
}

/// Starts when `after` says that what is further on has started. Every rank starts it, even if
/// nothing depends on the result here: then with zeros.
AsyncTask run_gradient(Communicator& communicator, ReadBuffer<bool> after,
                       WriteBuffer<bool> started, ReadBuffer<bool>, ReadBuffer<Tensor> later,
                       WriteBuffer<Tensor> out, ReadBuffer<Tensor> gradient,
                       ReadBuffer<Tensor> value,
                       std::function<Work(Communicator&, const Tensor&, Tensor&)> start) {
  co_await when_all(after, started);
  Tensor mine;
  const bool begun = after.find() != nullptr;
  if (begun) {
    co_await when_all(gradient, value);
    const Tensor* const upstream = gradient.find();
    const Tensor zeros = upstream ? Tensor{} : filled_like(value.get(), 0.0);
    const Work work = start(communicator, upstream ? *upstream : zeros, mine);
    started.emplace(true);
    started.release();
    co_await work;
  }
  co_await when_all(later, out);
  const Tensor* const rest = later.find();
  if (begun && mine.count() != Elements{0})
    out.emplace(rest ? *rest + mine : std::move(mine));
  else if (rest)
    out.emplace(*rest);
}

}  // namespace

/// The turns of operations; and, in reverse, those of gradients.
class Sequence::Order final : public detail::BackwardOrder {
 public:
  explicit Order(Communicator& communicator) : turn(std::in_place, communicator) {}

  void begin_backward() override {
    if (!std::exchange(has_gradients, false)) return;
    WriteBuffer<bool> begin = reverse.write();
    schedule(run_backward(turn.mutate(), std::move(begin), reverse.result()));
    reverse = {};
  }

  Async<Turn> turn;
  ReverseValue<bool> reverse;
  bool has_gradients = false;
};

Sequence::Sequence(Communicator& communicator) : communicator_(communicator) {
  occupy(communicator);
  order_ = std::make_shared<Order>(communicator);
}

Sequence::~Sequence() {
  order_->reverse.close();
  MutableBuffer<bool> all_have_ended = alive_.mutate();
  try {
    current_scheduler().wait(all_have_ended);
  } catch (const Deadlock& error) {
    std::fputs(fmt::format("capstan: rank {}: operations of a sequence never end: {}\n", rank(),
                           error.what())
                   .c_str(),
               stderr);
  }
  vacate(communicator_);
}

void Sequence::check_order() const {
  if (in_task())
    throw InvalidArgument(
        fmt::format("rank {}: an operation of a sequence was called inside of a task, where the "
                    "order of calls is "
                    "that of chance: pass turn() to the task, and start operations by it",
                    rank()));
  if (std::this_thread::get_id() != thread_)
    throw InvalidArgument(fmt::format(
        "rank {}: an operation of a sequence was called by another thread than the one that made "
        "it: the order is that of one thread's calls. split() the communicator for the other one",
        rank()));
}

MutableBuffer<Turn> Sequence::turn() {
  check_order();
  return order_->turn.mutate();
}

AsyncTask Sequence::run(MutableBuffer<Turn> turn, ReadBuffer<bool>, ReadBuffer<Tensor> in,
                        WriteBuffer<Tensor> out, Start start) {
  co_await when_all(turn, in, out);
  const Work work = start(turn.get().communicator(), in.get(), out.get());
  turn.release();
  co_await work;
}

AsyncTask Sequence::run_in_place(MutableBuffer<Turn> turn, ReadBuffer<bool>,
                                 MutableBuffer<Tensor> data, Start start) {
  co_await when_all(turn, data);
  Tensor& tensor = data.get();
  const Work work = start(turn.get().communicator(), tensor, tensor);
  turn.release();
  co_await work;
}

Async<Tensor> Sequence::call(const Async<Tensor>& in, Start start) {
  Async<Tensor> out;
  schedule(run(turn(), alive_.read(), in.read(), out.write(), std::move(start)));
  return out;
}

Dual<Tensor> Sequence::call(const Dual<Tensor>& in, Start start, Start gradient) {
  auto result = Dual<Tensor>::result_of(call(in.value(), std::move(start)), {in});
  result.node().order = order_;
  order_->has_gradients = true;
  auto order = order_->reverse.accumulate();
  auto step = in.node().grad.accumulate();
  schedule(run_gradient(communicator_, std::move(order.later), std::move(order.out), alive_.read(),
                        std::move(step.later), std::move(step.out), result.grad().result(),
                        result.value().read(), std::move(gradient)));
  return result;
}

Async<Tensor> Sequence::all_reduce(const Async<Tensor>& in, Reducer reducer) {
  return call(in, start_all_reduce(reducer));
}

void Sequence::all_reduce_in_place(Async<Tensor>& data, Reducer reducer) {
  schedule(run_in_place(turn(), alive_.read(), data.mutate(),
                        [reducer](Communicator& communicator, const Tensor&, Tensor& tensor) {
                          return communicator.start_all_reduce(tensor.view(), reducer);
                        }));
}

Async<Tensor> Sequence::broadcast(const Async<Tensor>& in, int root) {
  return call(in, start_broadcast(root));
}

Async<Tensor> Sequence::reduce(const Async<Tensor>& in, int root, Reducer reducer) {
  return call(in, start_reduce(root, reducer));
}

Async<Tensor> Sequence::all_gather(const Async<Tensor>& in) {
  return call(in, start_all_gather);
}

Async<Tensor> Sequence::reduce_scatter(const Async<Tensor>& in, Reducer reducer) {
  return call(in, start_reduce_scatter(reducer));
}

Async<Tensor> Sequence::all_to_all(const Async<Tensor>& in) {
  return call(in, start_all_to_all);
}

void Sequence::send(const Async<Tensor>& in, int destination, int tag) {
  schedule(run_send(turn(), alive_.read(), in.read(), destination, tag));
}

Async<Tensor> Sequence::receive(DataType type, std::vector<std::int64_t> shape, int source,
                                int tag) {
  Async<Tensor> out;
  schedule(
      run_receive(turn(), alive_.read(), out.write(), Tensor{type, std::move(shape)}, source, tag));
  return out;
}

Dual<Tensor> Sequence::all_reduce(const Dual<Tensor>& in, ReduceOp sum_or_average) {
  if (sum_or_average != ReduceOp::sum && sum_or_average != ReduceOp::average)
    throw InvalidArgument(fmt::format("all_reduce of {} has no gradient here: use sum or average",
                                      name_of(sum_or_average)));
  return call(in, start_all_reduce(sum_or_average), start_all_reduce(sum_or_average));
}

Dual<Tensor> Sequence::broadcast(const Dual<Tensor>& in, int root) {
  return call(in, start_broadcast(root), start_reduce(root, ReduceOp::sum));
}

Dual<Tensor> Sequence::all_gather(const Dual<Tensor>& in) {
  return call(in, start_all_gather, start_reduce_scatter(ReduceOp::sum));
}

Dual<Tensor> Sequence::reduce_scatter(const Dual<Tensor>& in) {
  return call(in, start_reduce_scatter(ReduceOp::sum), start_all_gather);
}

}  // namespace capstan::values
