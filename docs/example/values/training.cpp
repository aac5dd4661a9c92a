// SPDX-License-Identifier: Apache-2.0

// A small network learns the product of two numbers. Each rank has a share of the examples;
// gradients are added by a collective. All ranks, and one rank with all examples, get the same
// weights.
//   capstan run -n 3 -- ./training
#include <capstan/values/sequence.hpp>
#include <cmath>
#include <cstdio>

using namespace capstan::values;
using capstan::DataType;
using capstan::Tensor;

namespace {

constexpr int examples = 12, hidden = 8, steps = 60;

struct Weights {
  Dual<Tensor> first, second;
};

Weights weights_at_start() {
  Tensor first{DataType::f64, {2, hidden}}, second{DataType::f64, {hidden, 1}};
  for (std::size_t i = 0; i < 2 * hidden; ++i)
    first.elements<double>()[i] = std::sin(1.0 + 3.0 * i);
  for (std::size_t i = 0; i < hidden; ++i) second.elements<double>()[i] = std::cos(2.0 * i) / 2;
  return {first, second};
}

/// The square of the error of one example.
Dual<Tensor> loss_of(const Weights& weights, int example) {
  const double x = example % 4 / 4.0, y = example / 4 / 3.0;
  const auto in = Dual<Tensor>::constant(Tensor::of<double>({x, y}, {1, 2}));
  const auto out = Dual<Tensor>::constant(Tensor::of<double>({x * y}, {1, 1}));
  const Dual<Tensor> error = matmul(tanh(matmul(in, weights.first)), weights.second) - out;
  return sum(error * error);
}

/// The gradient of one example by all weights, in one row.
Async<Tensor> gradient_of(const Weights& weights, int example) {
  Weights mine{Dual<Tensor>{Async<Tensor>{weights.first.value()}},
               Dual<Tensor>{Async<Tensor>{weights.second.value()}}};
  loss_of(mine, example).backward();
  return compute(
      [](const Tensor& a, const Tensor& b) {
        Tensor row{DataType::f64, {1, 3 * hidden}};
        std::ranges::copy(a.elements<double>(), row.elements<double>().begin());
        std::ranges::copy(b.elements<double>(), row.elements<double>().begin() + 2 * hidden);
        return row;
      },
      mine.first.grad().to_async(), mine.second.grad().to_async());
}

/// The rows of all examples added in their order: the same bits, however many ranks there are.
Tensor sum_of_rows(const Tensor& rows) {
  Tensor sum{DataType::f64, {1, 3 * hidden}};
  for (std::int64_t i = 0; i < rows.shape()[0]; ++i) sum += Tensor{rows.view().slice(0, i, 1)};
  return sum;
}
Tensor stacked(const Tensor& rows, const Tensor& row) {
  Tensor all{DataType::f64, {rows.shape()[0] + 1, 3 * hidden}};
  capstan::copy(all.view().slice(0, 0, rows.shape()[0]), rows.view());
  capstan::copy(all.view().slice(0, rows.shape()[0], 1), row.view());
  return all;
}

void learn(Weights& weights, const Async<Tensor>& gradient) {
  const auto move = [&](Dual<Tensor>& weight, std::int64_t begin, std::int64_t count) {
    weight = Dual<Tensor>{compute(
        [=](const Tensor& w, const Tensor& g) {
          Tensor part{g.view().slice(1, begin, count)};
          part.reshape(w.shape());
          return w - part * 0.05;
        },
        weight.value(), gradient)};
  };
  move(weights.first, 0, 2 * hidden);
  move(weights.second, 2 * hidden, hidden);
}

/// The examples [begin, end) on this rank; `combine` makes all ranks' rows of this one's.
template <class Combine>
Weights train(int begin, int end, Combine combine) {
  Weights weights = weights_at_start();
  for (int step = 0; step < steps; ++step) {
    Async<Tensor> rows = Tensor{DataType::f64, {0, 3 * hidden}};
    for (int example = begin; example < end; ++example)
      rows = compute(stacked, rows, gradient_of(weights, example));
    learn(weights, compute(sum_of_rows, combine(rows)));
  }
  return weights;
}

double loss_of_all(const Weights& weights) {
  double total = 0;
  for (int example = 0; example < examples; ++example)
    total += capstan::to_number(loss_of(weights, example).value().get_wait());
  return total;
}

}  // namespace

int main() try {
  auto communicator = capstan::Communicator::from_environment();
  Sequence world{communicator};
  const int each = examples / world.size();
  const Weights together = train(each * world.rank(), each * (world.rank() + 1),
                                 [&](const Async<Tensor>& rows) { return world.all_gather(rows); });
  const Weights alone =
      train(0, examples, [](const Async<Tensor>& rows) { return Async<Tensor>{rows}; });
  const bool same = together.first.value().get_wait() == alone.first.value().get_wait() &&
                    together.second.value().get_wait() == alone.second.value().get_wait();
  const double before = loss_of_all(weights_at_start()), after = loss_of_all(together);
  std::printf("rank %d: the loss fell from %.4f to %.4f; weights are %s\n", world.rank(), before,
              after, same ? "those of one rank, bit by bit" : "WRONG");
  return same && after < before / 4 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
