// SPDX-License-Identifier: Apache-2.0

// Tensors: views, and collectives along any dimension.

#include "capstan/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <ranges>

#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Tensors, RefuseNonsense) {
  float memory[4];
  EXPECT_THROW((TensorView{memory, {2, 2}, {1}}), InvalidArgument);
  EXPECT_THROW((TensorView{memory, {2, -2}}), InvalidArgument);
  EXPECT_EQ((TensorView{memory, {2, 0}}).count(), Elements{0});
  EXPECT_EQ((TensorView{memory, {}}).count(), Elements{1});
}

TEST(Tensors, CopyFollowsStrides) {
  int from[] = {0, 1, 2, 3, 4, 5}, to[6];
  copy(TensorView{to, {3, 2}}, TensorView{from, {3, 2}, {1, 3}});
  EXPECT_THAT(to, ElementsAre(0, 3, 1, 4, 2, 5));
}

/// Element [i, j, k] of rank r's tensor.
int element(int rank, int i, int j, int k) {
  return rank * 1000 + i * 100 + j * 10 + k;
}

class Dimensions : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, Dimensions, ::testing::Values(0, 1, 2));

TEST_P(Dimensions, AllGatherPutsRanksSideBySide) {
  const int dimension = GetParam();
  on_threads(3, bounded_settings(), [&](Communicator& world) {
    const int n[] = {2, 3, 4};
    std::vector<int> mine, all(2 * 3 * 4 * 3, -1);
    for (int i = 0; i < n[0]; ++i)
      for (int j = 0; j < n[1]; ++j)
        for (int k = 0; k < n[2]; ++k) mine.push_back(element(world.rank(), i, j, k));
    std::vector<std::int64_t> shape{2, 3, 4};
    shape[static_cast<std::size_t>(dimension)] *= 3;
    const TensorView output{all.data(), shape};
    world.all_gather(TensorView{mine.data(), {2, 3, 4}}, output, dimension);
    for (int i = 0; i < shape[0]; ++i)
      for (int j = 0; j < shape[1]; ++j)
        for (int k = 0; k < shape[2]; ++k) {
          const int at[] = {i, j, k};
          const int rank = at[dimension] / n[dimension];
          const int expected = element(rank, dimension == 0 ? i % 2 : i, dimension == 1 ? j % 3 : j,
                                       dimension == 2 ? k % 4 : k);
          ASSERT_EQ(all[static_cast<std::size_t>((i * shape[1] + j) * shape[2] + k)], expected);
        }
  });
}

TEST_P(Dimensions, ReduceScatterUndoesIt) {
  const int dimension = GetParam();
  on_threads(2, bounded_settings(), [&](Communicator& world) {
    std::vector<std::int64_t> shape{2, 3, 4};
    std::vector<int> slice(24), whole(48);
    auto large = shape;
    large[static_cast<std::size_t>(dimension)] *= 2;
    std::iota(whole.begin(), whole.end(), 0);
    const TensorView input{whole.data(), large}, output{slice.data(), shape};
    world.start_reduce_scatter(input, output, dimension).wait();
    std::vector<int> gathered(48);
    world.all_gather(output, TensorView{gathered.data(), large}, dimension);
    for (int i = 0; i < 48; ++i) ASSERT_EQ(gathered[static_cast<std::size_t>(i)], 2 * i);
  });
}

TEST(Tensors, StridedOnesAreReducedInPlace) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    std::vector<float> memory(40, 1);
    const TensorView column{memory.data() + 2, {10, 2}, {4, 1}};
    Work work = world.start_all_reduce(column);
    work.wait();
    for (std::size_t i = 0; i < memory.size(); ++i) ASSERT_EQ(memory[i], i % 4 < 2 ? 1 : 3);
    world.broadcast(column, 1);
  });
}

TEST(Tensors, ShapesThatDoNotFitAreRefused) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> a(6), b(12);
    EXPECT_THROW(world.all_gather(TensorView{a.data(), {2, 3}}, TensorView{b.data(), {2, 6}}, 0),
                 InvalidArgument);
    EXPECT_THROW(world.all_gather(TensorView{a.data(), {2, 3}}, TensorView{b.data(), {4, 3}}, 2),
                 InvalidArgument);
    TensorView device{a.data(), {6}};
    device.device.type = DeviceType::cuda;
    EXPECT_THROW(world.all_reduce(device), InvalidArgument);
  });
}

TEST(Tensors, OtherShapesOnOtherRanksAreAMismatch) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> data(6);
    const bool odd = world.rank() == 1;
    try {
      world.all_reduce(TensorView{data.data(), {odd ? 3 : 2, odd ? 2 : 3}});
      ADD_FAILURE() << "not noticed";
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), HasSubstr("tensor [2, 3]"));
      EXPECT_THAT(error.what(), HasSubstr("tensor [3, 2]"));
    }
  });
}

TEST(Fused, ManyBuffersInOneOperation) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    std::vector<std::vector<float>> gradients;
    std::vector<std::span<float>> spans;
    for (std::size_t i = 0; i < 50; ++i) gradients.emplace_back(i % 7 * 11, static_cast<float>(i));
    for (auto& gradient : gradients) spans.emplace_back(gradient);
    const std::span<const std::span<float>> all{spans};
    world.all_reduce_fused(all);
    world.start_all_reduce_fused(all, Reducer{ReduceOp::average}).wait();
    for (std::size_t i = 0; i < 50; ++i) ASSERT_THAT(gradients[i], Each(3 * static_cast<float>(i)));
  });
}

/// Several tensors of one type, with strides and without, some of them empty.
TEST(Fused, TensorsOfAnyLayout) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const auto own = static_cast<double>(world.rank());
    std::vector<double> dense(6, 1 + own), every_second(10, 10 + own), none;
    TensorRequest request;
    request.inputs = {TensorView{dense.data(), {2, 3}}, TensorView{every_second.data(), {5}, {2}},
                      TensorView{none.data(), {0}}};
    world.run(request);
    EXPECT_THAT(dense, Each(6));
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(every_second[i], i % 2 ? 10 + own : 33) << i;
    request.reducer = ReduceOp::max;
    world.start(request).wait();
    EXPECT_THAT(dense, Each(6));
    request.inputs.clear();
    world.run(request);
  });
}

TEST(TensorRequests, MakeAllFourCalls) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const int r = world.rank();
    std::vector<int> mine{r, r + 10}, all(4), half(2);
    const TensorView own{mine.data(), {2, 1}}, both{all.data(), {2, 2}};
    world.run(TensorRequest{
        .collective = Collective::all_gather, .inputs = {own}, .outputs = {both}, .dimension = 1});
    EXPECT_EQ(all, (std::vector{0, 1, 10, 11}));
    world
        .start(TensorRequest{.collective = Collective::reduce_scatter,
                             .inputs = {both},
                             .outputs = {TensorView{half.data(), {1, 2}}}})
        .wait();
    EXPECT_EQ(half, r == 0 ? (std::vector{0, 2}) : (std::vector{20, 22}));
    world.run(TensorRequest{.collective = Collective::broadcast, .inputs = {own}, .root = 1});
    EXPECT_EQ(mine, (std::vector{1, 11}));
    world.run(TensorRequest{.inputs = {own}});
    EXPECT_EQ(mine, (std::vector{2, 22}));
  });
}

TEST(TensorRequests, OthersAreRefused) {
  auto world = std::move(Communicator::local_world(1).front());
  std::vector<float> data(4);
  std::vector<int> whole(4);
  const TensorView tensor{data.data(), {4}}, other{whole.data(), {4}};
  const auto code = [&](const TensorRequest& request) {
    try {
      world.run(request);
    } catch (const InvalidArgument& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  using enum Collective;
  constexpr auto invalid = ErrorCode::invalid_argument;
  EXPECT_EQ(code({.collective = barrier, .inputs = {tensor}}), ErrorCode::not_supported);
  EXPECT_EQ(code({.collective = Collective{99}, .inputs = {tensor}}), ErrorCode::not_supported);
  EXPECT_EQ(code({.inputs = {tensor, tensor}, .outputs = {tensor}}), invalid);
  EXPECT_EQ(code({.inputs = {tensor}, .outputs = {other}}), invalid);
  EXPECT_EQ(code({.collective = reduce, .inputs = {tensor}}), invalid);
  EXPECT_EQ(code({.collective = gather_v, .inputs = {tensor}, .outputs = {tensor}}), invalid);
  EXPECT_EQ(code({.inputs = {tensor, other}}), invalid);
  EXPECT_EQ(code({.collective = broadcast, .inputs = {tensor, tensor}}), invalid);
  EXPECT_EQ(code({.collective = broadcast}), invalid);
  EXPECT_EQ(code({.collective = all_gather, .inputs = {tensor}}), invalid);
  EXPECT_EQ(code({.collective = reduce_scatter, .outputs = {tensor}}), invalid);
}

/// The input is sent in place, the output is unpacked. After a cancellation both belong to the
/// caller again.
TEST(Tensors, ACancelledGatherReadsItsInputNoMore) {
  constexpr std::int64_t n = 100'000;
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> own(2 * n, static_cast<float>(world.rank() + 1)), all(4 * n);
    const Work work = world.start_all_gather({own.data(), {2, n}}, {all.data(), {2, 2 * n}}, 1);
    if (world.rank() == 0) {
      ASSERT_TRUE(work.cancel());
      std::ranges::fill(own, -1.0f);
    } else {
      work.wait();
      EXPECT_EQ(all.front(), 1);
      EXPECT_EQ(all.back(), 2);
      EXPECT_EQ(std::ranges::count(all, -1.0f), 0);
    }
    world.barrier();
  });
}

/// Rows of two elements, laid out in several ways; the rows are along a dimension.
enum class Layout { dense, transposed, spread };

struct Rows {
  Layout layout;
  std::vector<int> memory{};

  Rows(Layout kind, const std::vector<int>& elements) : layout(kind) {
    const std::size_t step = kind == Layout::spread ? 2 : 1;
    memory.assign(elements.size() * step, -7);
    for (std::size_t i = 0; i < elements.size(); ++i) memory[i * step] = elements[i];
  }
  int dimension() const { return layout == Layout::transposed ? 1 : 0; }
  TensorView view() {
    const auto size = static_cast<std::int64_t>(memory.size());
    if (layout == Layout::dense) return {memory.data(), {size / 2, 2}};
    if (layout == Layout::transposed) return {memory.data(), {2, size / 2}, {1, 2}};
    return {memory.data(), {size / 4, 2}, {4, 2}};
  }
  std::vector<int> elements() const {
    if (layout != Layout::spread) return memory;
    std::vector<int> found;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (i % 2 == 0) {
        found.push_back(memory[i]);
        continue;
      }
      EXPECT_EQ(memory[i], -7) << "between the elements";
    }
    return found;
  }
};

const std::vector<std::size_t> uneven{1, 4, 0}, elements_of_uneven{2, 8, 0};

/// A collective by ranges and by tensors, and the rows of input and output among three ranks.
struct Form {
  const char* name;
  std::size_t input, output;  ///< rows; 0: those of this rank in `uneven`
  std::function<void(Communicator&, std::vector<int>&, std::vector<int>&)> ranges;
  std::function<void(Communicator&, const TensorView&, const TensorView&, int)> tensors;
};

std::vector<Form> forms() {
  const auto& rows = uneven;
  const auto& elements = elements_of_uneven;
  std::vector<Form> all;
#define FORM(name, input, output, ranges, tensors)                                     \
  all.push_back({name, input, output, [&](auto& w, auto& in, auto& out) { w.ranges; }, \
                 [&](auto& w, auto& in, auto& out, [[maybe_unused]] int d) { w.tensors; }})
  FORM("broadcast", 6, 6, broadcast(in, out, 1), broadcast(in, out, 1));
  FORM("reduce", 6, 6, reduce(in, out, 2), start_reduce(in, out, 2).wait());
  FORM("all_reduce", 6, 6, all_reduce(in, out), all_reduce(in, out));
  FORM("scan", 6, 6, scan(in, out), scan(in, out));
  FORM("exscan", 6, 6, exscan(in, out, ReduceOp::max), exscan(in, out, ReduceOp::max));
  FORM("all_gather", 2, 6, all_gather(in, out), start_all_gather(in, out, d).wait());
  FORM("gather", 2, 6, gather(in, out, 1), gather(in, out, 1, d));
  FORM("reduce_scatter", 6, 2, reduce_scatter(in, out), reduce_scatter(in, out, d));
  FORM("scatter", 6, 2, scatter(in, out, 0), start_scatter(in, out, 0, d).wait());
  FORM("all_to_all", 6, 6, all_to_all(in, out), all_to_all(in, out, d));
  FORM("all_gather_v", 0, 5, all_gather_v(in, out, elements), all_gather_v(in, out, rows, d));
  FORM("gather_v", 0, 5, gather_v(in, out, elements, 0), gather_v(in, out, rows, 0, d));
  FORM("reduce_scatter_v", 5, 0, reduce_scatter_v(in, out, elements),
       start_reduce_scatter_v(in, out, rows, d).wait());
  FORM("scatter_v", 5, 0, scatter_v(in, out, elements, 2), scatter_v(in, out, rows, 2, d));
#undef FORM
  return all;
}

/// Each collective gives the same as on ranges, whatever the layouts of input and output.
TEST(Requirement, T11_EveryCollectiveTakesTensors) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const auto length = [&](std::size_t rows) {
      return 2 * (rows == 0 ? uneven[static_cast<std::size_t>(world.rank())] : rows);
    };
    for (const Form& form : forms())
      for (const Layout from : {Layout::dense, Layout::transposed, Layout::spread})
        for (const Layout to : {Layout::dense, Layout::transposed, Layout::spread}) {
          if ((from == Layout::transposed) != (to == Layout::transposed)) continue;
          std::vector<int> input(length(form.input)), expected(length(form.output), -1);
          std::iota(input.begin(), input.end(), 100 * world.rank());
          Rows in{from, input}, out{to, expected};
          form.ranges(world, input, expected);
          form.tensors(world, in.view(), out.view(), in.dimension());
          EXPECT_EQ(out.elements(), expected) << form.name << ", rank " << world.rank();
          EXPECT_EQ(in.elements(), input) << form.name;
        }
  });
}

TEST(Requirement, T11_BlocksOfTensorsAreExchangedByLength) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const int r = world.rank();
    // Rank r sends r + 1 columns to rank 0 and 1 to rank 1.
    const std::vector<std::size_t> to{static_cast<std::size_t>(r) + 1, 1};
    const std::vector<std::size_t> from =
        r == 0 ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{1, 1};
    const auto columns = static_cast<std::int64_t>(to[0] + 1);
    const auto received = static_cast<std::int64_t>(from[0] + from[1]);
    Tensor input(DataType::i32, {2, columns}), output(DataType::i32, {2, received});
    std::ranges::iota_view numbers{10 * r, 10 * r + static_cast<int>(2 * columns)};
    std::ranges::copy(numbers, input.elements<std::int32_t>().begin());
    world.all_to_all_v(input, to, output, from, 1);
    const std::vector<int> expected =
        r == 0 ? std::vector{0, 10, 11, 2, 13, 14} : std::vector{1, 12, 3, 15};
    EXPECT_THAT(output.elements<std::int32_t>(), ::testing::ElementsAreArray(expected));
    std::vector<int> swapped{10 * r, 10 * r + 1};
    world.all_to_all(TensorView{swapped.data(), {1, 2}}, 1);
    EXPECT_THAT(swapped, ElementsAre(r, 10 + r));
  });
}

TEST(Requirement, T5_ATensorIsReducedIntoAnotherOne) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const Tensor mine = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
    Tensor sum(DataType::f32, {2, 2}), most(DataType::f32, {2, 2});
    const Work work = world.start_all_reduce(mine, sum);
    work.wait();
    world.all_reduce(mine, most, ReduceOp::max);
    EXPECT_THAT(sum.elements<float>(), ElementsAre(3, 6, 9, 12));
    EXPECT_THAT(work.result<float>(), ElementsAre(3, 6, 9, 12));
    EXPECT_EQ(most, mine);
    Tensor other(DataType::f32, {4});
    EXPECT_THROW(world.all_reduce(mine, other), InvalidArgument);
    world.barrier();
  });
}

}  // namespace
}  // namespace capstan
