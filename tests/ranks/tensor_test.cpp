// Tensors: views, DLPack, and collectives along any dimension.

#include "capstan/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The structure of dlpack.h.
struct DlDevice {
  std::int32_t device_type, device_id;
};
struct DlType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};

TEST(Tensors, AreWhatDlpackSays) {
  float memory[12];
  std::int64_t shape[] = {3, 2}, strides[] = {4, 2};
  DlTensor given{memory, {1, 0}, 2, {2, 32, 1}, shape, strides, 4};
  auto view = TensorView::from_dlpack(given);
  EXPECT_EQ(view.data, memory + 1);
  EXPECT_EQ(view.type, DataType::f32);
  EXPECT_THAT(view.strides, ElementsAre(4, 2));
  EXPECT_FALSE(view.is_dense());

  DlTensor back{};
  view.to_dlpack(back);
  EXPECT_EQ(back.ndim, 2);
  EXPECT_EQ(back.dtype.bits, 32);
  EXPECT_EQ(back.strides[0], 4);
  given.dtype = {2, 32, 4};
  EXPECT_THROW(TensorView::from_dlpack(given), InvalidArgument);
}

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
  EXPECT_EQ(code({.collective = scan, .inputs = {tensor}}), ErrorCode::not_supported);
  EXPECT_EQ(code({.collective = Collective{99}, .inputs = {tensor}}), ErrorCode::not_supported);
  EXPECT_EQ(code({.inputs = {tensor}, .outputs = {tensor}}), invalid);
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

}  // namespace
}  // namespace capstan
