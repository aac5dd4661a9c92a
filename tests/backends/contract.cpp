// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/contract.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

namespace capstan {
namespace {

using ::testing::HasSubstr;

template <class Body>
std::string text_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// The value that a rank gives: small, so that products of four ranks fit in eight bits.
double given(int rank, std::size_t index) {
  return static_cast<double>((index * 7 + static_cast<std::size_t>(rank) * 3) % 3 + 1);
}

double combined(ReduceOp op, int ranks, std::size_t index) {
  double result = given(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = given(rank, index);
    if (op == ReduceOp::product) result *= next;
    if (op == ReduceOp::min) result = std::min(result, next);
    if (op == ReduceOp::max) result = std::max(result, next);
    if (op == ReduceOp::sum || op == ReduceOp::average) result += next;
  }
  return op == ReduceOp::average ? result / ranks : result;
}

/// Works on tensors of the element type T inside one rank of a backend.
template <class T>
class Checks {
 public:
  explicit Checks(Backend& world) : world_(world), p_(world.world_size()), r_(world.rank()) {}

  Tensor input(std::vector<std::int64_t> shape, std::size_t first = 0) const {
    Tensor tensor{*data_type_of<T>, std::move(shape)};
    auto elements = tensor.elements<T>();
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<T>(given(r_, first + i));
    return tensor;
  }
  Tensor output(std::vector<std::int64_t> shape) const {
    return {*data_type_of<T>, std::move(shape)};
  }
  TensorView view(Tensor& tensor) const { return view_for(world_, tensor); }

  void expect_combined(const Tensor& result, ReduceOp op, std::size_t first = 0) const {
    const auto elements = result.elements<T>();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      T expected = static_cast<T>(combined(op, p_, first + i));
      if constexpr (std::is_integral_v<T>)
        expected = static_cast<T>(std::trunc(combined(op, p_, first + i)));
      if (elements[i] != expected && std::abs(double(elements[i]) - double(expected)) > 1e-5)
        return (void)(ADD_FAILURE()
                      << "rank " << r_ << ", " << name_of(op) << " of " << to_string(result) << "["
                      << i << "]: " << double(elements[i]) << ", not " << double(expected));
    }
  }

  void all_reduce(ReduceOp op, std::int64_t count) const {
    Tensor mine = input({count}), sum = output({count});
    world_.all_reduce(view(mine), view(sum), op);
    expect_combined(sum, op);
    EXPECT_EQ(mine, input({count})) << "the input is not written";
    world_.all_reduce(view(mine), op);
    expect_combined(mine, op);
  }

  void reduce_to(int root, ReduceOp op) const {
    Tensor mine = input({17}), result = output({17});
    world_.reduce(view(mine), view(result), root, op);
    if (r_ == root)
      expect_combined(result, op);
    else
      EXPECT_EQ(result, output({17})) << "only the root's output is written";
  }

  void broadcast_from(int root) const {
    Tensor data = input({3, 5});
    world_.broadcast(view(data), root);
    const auto elements = data.template elements<T>();
    for (std::size_t i = 0; i < elements.size(); ++i)
      ASSERT_EQ(static_cast<double>(elements[i]), given(root, i)) << "root " << root;
  }

  /// Rank r's slice along the dimension is what rank r gave.
  void all_gather(int dimension) const {
    Tensor mine = input({2, 3, 4});
    std::vector<std::int64_t> shape = mine.shape();
    shape[static_cast<std::size_t>(dimension)] *= p_;
    Tensor all = output(shape);
    world_.all_gather(view(mine), view(all), dimension);
    const std::int64_t length = mine.shape()[static_cast<std::size_t>(dimension)];
    for (int rank = 0; rank < p_; ++rank) {
      const Tensor slice{all.view().slice(dimension, rank * length, length)};
      const auto elements = slice.elements<T>();
      for (std::size_t i = 0; i < elements.size(); ++i)
        ASSERT_EQ(static_cast<double>(elements[i]), given(rank, i))
            << "dimension " << dimension << ", slice of rank " << rank;
    }
  }

  void reduce_scatter(int dimension, ReduceOp op) const {
    std::vector<std::int64_t> shape{2, 3, 4};
    Tensor result = output(shape);
    shape[static_cast<std::size_t>(dimension)] *= p_;
    Tensor mine = input(shape), all = input(shape);
    world_.reduce_scatter(view(mine), view(result), op, dimension);
    auto elements = all.template elements<T>();
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<T>(combined(op, p_, i));
    const std::int64_t length = result.shape()[static_cast<std::size_t>(dimension)];
    EXPECT_EQ(result, Tensor(all.view().slice(dimension, r_ * length, length)))
        << "dimension " << dimension;
  }

  Backend& world_;
  const int p_, r_;
};

template <class T>
void check_type(Backend& world) {
  const Checks<T> check{world};
  using enum ReduceOp;
  for (const ReduceOp op : {sum, product, min, max, average})
    for (const std::int64_t count : {0, 1, 3, 1000, 70001}) check.all_reduce(op, count);
}

void check_collectives(Backend& world) {
  const Checks<float> check{world};
  for (int root = 0; root < world.world_size(); ++root) {
    check.broadcast_from(root);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) check.reduce_to(root, op);
  }
  const int dimensions = world.capabilities().host_memory ? 3 : 1;
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    check.all_gather(dimension);
    check.reduce_scatter(dimension, ReduceOp::max);
  }
  check.reduce_scatter(0, ReduceOp::sum);
  world.barrier();
}

/// Forms that return a tensor, and tensors with strides.
void check_host_tensors(Backend& world) {
  const Checks<float> check{world};
  const int p = world.world_size();
  const Tensor mine = check.input({p, 2});
  check.expect_combined(world.all_reduce(mine), ReduceOp::sum);
  EXPECT_EQ(world.all_gather(mine, 1).shape(), (std::vector<std::int64_t>{p, 2 * p}));
  EXPECT_EQ(world.reduce_scatter(mine).shape(), (std::vector<std::int64_t>{1, 2}));
  const Tensor reduced = world.reduce(mine, p - 1, ReduceOp::max);
  if (world.rank() == p - 1) check.expect_combined(reduced, ReduceOp::max);

  Tensor rows = check.input({4, 6}), sums = check.output({4, 6});
  const TensorView columns{rows.data(), DataType::f32, {6, 4}, {1, 6}};
  world.all_reduce(columns, TensorView{sums.data(), DataType::f32, {6, 4}, {1, 6}});
  check.expect_combined(sums, ReduceOp::sum);
  world.all_reduce(columns);
  EXPECT_EQ(rows, sums);
}

void check_background(Backend& world) {
  if (!world.asynchronous()) {
    Tensor data{DataType::f32, {1}};
    EXPECT_THROW((void)world.start_all_reduce(view_for(world, data)), NotSupported);
    return;
  }
  const Checks<double> check{world};
  constexpr int count = 8;
  std::vector<Tensor> inputs, outputs;
  std::vector<Work> works;
  for (int i = 0; i < count; ++i) {
    inputs.push_back(check.input({100 + i}));
    outputs.push_back(check.output({100 + i}));
  }
  for (std::size_t i = 0; i < count; ++i)
    works.push_back(world.start_all_reduce(check.view(inputs[i]), check.view(outputs[i])));
  works.push_back(world.start_barrier());
  for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
  for (const Tensor& output : outputs) check.expect_combined(output, ReduceOp::sum);

  Tensor mine = check.input({2, 4}), all = check.output({2, 4 * world.world_size()});
  const int dimension = world.capabilities().host_memory ? 1 : 0;
  if (dimension == 0) all.reshape({2 * world.world_size(), 4});
  world.start_all_gather(check.view(mine), check.view(all), dimension).wait();
  const Tensor own{
      all.view().slice(dimension, world.rank() * mine.shape()[dimension], mine.shape()[dimension])};
  EXPECT_EQ(own, mine);
  // A rank that waits in a call meets ranks that have started it.
  if (world.rank() % 2 == 0)
    world.broadcast(check.view(mine), 0);
  else
    world.start_broadcast(check.view(mine), 0).wait();
}

/// Operations that end at one time: the callback of each waits for the next one.
void check_callbacks_that_wait(Backend& world) {
  if (!world.asynchronous()) return;
  constexpr std::size_t count = 4;
  std::vector<Work> works;
  for (std::size_t i = 0; i < count; ++i) works.push_back(world.start_barrier());
  std::atomic<std::size_t> called = 0, ended = 0;
  for (std::size_t i = 0; i + 1 < count; ++i)
    works[i].on_complete([&, i](const Work&) {
      ended += works[i + 1].wait_for(std::chrono::seconds{20}) ? 1 : 0;
      ++called;
    });
  for (const Work& work : works) work.wait();
  while (called + 1 < count) std::this_thread::yield();
  EXPECT_EQ(ended + 1, count);
}

/// Each rank sends to the next.
void check_messages(Backend& world) {
  if (!world.point_to_point()) return;
  const Checks<std::int32_t> check{world};
  const int p = world.world_size(), next = (world.rank() + 1) % p,
            before = (world.rank() + p - 1) % p;
  Tensor mine = check.input({5, 2}), got = check.output({5, 2});
  if (!world.capabilities().tags) {  // messages that cross would wait for each other
    if (p == 1) return;
    if (world.rank() % 2 == 0) world.send(check.view(mine), next);
    EXPECT_EQ(world.receive(check.view(got), before).size, got.bytes());
    if (world.rank() % 2 == 1) world.send(check.view(mine), next);
    EXPECT_EQ(got.elements<std::int32_t>()[7], static_cast<int>(given(before, 7)));
    return;
  }
  if (world.asynchronous()) {
    const Work sent = world.start_send(check.view(mine), next);
    const MessageInfo info = world.receive(check.view(got), before);
    EXPECT_EQ(info.source, before);
    EXPECT_EQ(info.size, got.bytes());
    sent.wait();
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT_EQ(got.elements<std::int32_t>()[i], static_cast<int>(given(before, i)));
    Tensor again = check.output({5, 2});
    const Work received = world.start_receive(check.view(again), before);
    world.send(check.view(mine), next);
    received.wait();
    EXPECT_EQ(again, got);
  }
  const Work first = world.start_send(check.view(mine), next, 7);
  const Work second = world.start_send(check.view(mine), next, 8);
  EXPECT_EQ(world.receive(DataType::i32, before, 8).shape(), (std::vector<std::int64_t>{10}));
  std::optional<MessageInfo> probed;
  while (!(probed = world.probe(before, 7))) std::this_thread::yield();
  EXPECT_EQ(probed->size, mine.bytes());
  EXPECT_EQ(probed->tag, 7);
  EXPECT_EQ(world.receive_like(mine, before, 7).shape(), mine.shape());
  first.wait();
  second.wait();
}

void check_message_sizes(Backend& world) {
  if (!world.point_to_point() || !world.capabilities().tags) return;
  const Checks<std::int32_t> check{world};
  const int p = world.world_size(), next = (world.rank() + 1) % p,
            before = (world.rank() + p - 1) % p;
  Tensor mine = check.input({10}), shorter = check.output({9}), longer = check.output({11});
  const Work a = world.start_send(check.view(mine), next, 1);
  EXPECT_THROW(world.receive(check.view(shorter), before, 1), Truncated);
  const Work b = world.start_send(check.view(mine), next, 2);
  EXPECT_THROW(world.receive(check.view(longer), before, 2), Mismatch);
  const Work c = world.start_send(check.view(mine), next, 3);
  EXPECT_EQ(world.receive(DataType::i32, any_source, any_tag).count(), Elements{10});
  for (const Work& work : {a, b, c}) work.wait();
}

void check_subgroups(Backend& world) {
  if (!world.capabilities().subgroups) {
    const int self[] = {0};
    EXPECT_THROW((void)world.subgroup(self), NotSupported);
    return;
  }
  std::vector<int> even;
  for (int rank = 0; rank < world.world_size(); rank += 2) even.insert(even.begin(), rank);
  const auto group = world.subgroup(even);
  ASSERT_EQ(group != nullptr, world.rank() % 2 == 0) << "outsiders get nothing";
  Tensor outside = Checks<float>{world}.input({7}), before = outside;
  if (group) {
    EXPECT_EQ(group->world_size(), static_cast<int>(even.size()));
    EXPECT_EQ(even[static_cast<std::size_t>(group->rank())], world.rank()) << "in this order";
    const Checks<float> check{*group};
    check.all_reduce(ReduceOp::sum, 50);
    check.all_gather(0);
    for (int root = 0; root < group->world_size(); ++root) check.broadcast_from(root);
    group->barrier();
    group->close();
  }
  EXPECT_EQ(outside, before) << "outsiders see nothing";
  world.barrier();
}

/// A refused call concerns this rank alone, and the backend stays usable.
void check_refusals(Backend& world) {
  Tensor three{DataType::f32, {3}}, four{DataType::f32, {4}};
  const TensorView a = view_for(world, three), b = view_for(world, four);
  TensorView null = a;
  null.data = nullptr;
  const std::string rank = "rank " + std::to_string(world.rank());
  const std::string text = text_of([&] { world.all_reduce(null); });
  EXPECT_THAT(text, HasSubstr(rank));
  EXPECT_THAT(text, HasSubstr("all_reduce"));
  EXPECT_THAT(text, HasSubstr("null"));
  EXPECT_THROW(world.all_reduce(a, b), InvalidArgument);
  EXPECT_THROW(world.broadcast(a, world.world_size()), InvalidArgument);
  EXPECT_THROW(world.broadcast(a, -1), InvalidArgument);
  EXPECT_THROW(world.all_gather(a, b, 1), InvalidArgument);
  EXPECT_THROW(world.all_reduce(a, ReduceOp::bit_xor), InvalidArgument);
  if (world.point_to_point()) {
    EXPECT_THROW(world.send(a, world.world_size()), InvalidArgument);
    EXPECT_THROW(world.send(null, 0), InvalidArgument);
    EXPECT_THROW(world.receive(null, 0), InvalidArgument);
  }
  const int twice[] = {0, 0};
  EXPECT_THROW((void)world.subgroup(twice), Error);
  Checks<float>{world}.all_reduce(ReduceOp::sum, 10);
}

void check_identity(Backend& world) {
  EXPECT_TRUE(world.is_initialized());
  EXPECT_GE(world.rank(), 0);
  EXPECT_LT(world.rank(), world.world_size());
  EXPECT_EQ(world.capabilities().asynchronous, world.asynchronous() != nullptr);
  EXPECT_EQ(world.capabilities().point_to_point, world.point_to_point() != nullptr);
}

}  // namespace

void check_contract(Backend& world) {
  check_identity(world);
  check_type<float>(world);
  check_type<double>(world);
  check_type<std::int32_t>(world);
  check_type<std::uint8_t>(world);
  check_type<std::int64_t>(world);
  check_collectives(world);
  if (world.capabilities().host_memory) check_host_tensors(world);
  check_background(world);
  check_callbacks_that_wait(world);
  check_messages(world);
  check_message_sizes(world);
  check_subgroups(world);
  check_refusals(world);
  world.barrier();
}

}  // namespace capstan
