// SPDX-License-Identifier: Apache-2.0

// Async values: what they are made of, copies, moves, and the order of accesses.

#include <array>
#include <atomic>
#include <complex>

#include "capstan/owning_tensor.hpp"
#include "tests/values/helpers.hpp"

namespace capstan::values {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;
using ::testing::ThrowsMessage;

/// Counts how many exist; can only be made from a number.
struct Pinned {
  explicit Pinned(int given) : number(given) { ++alive; }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { --alive; }
  int number;
  static inline std::atomic<int> alive{0};
};

TEST_F(Requirement, V1_AccessesOfAValueAreOrderedAndRunByAScheduler) {
  Async<int> value = 1;
  std::vector<int> seen;
  schedule(note(value.read(), &seen));
  schedule(add(value.mutate(), 10));
  schedule(note(value.read(), &seen));
  EXPECT_THAT(seen, ElementsAre());
  scheduler.run_all();
  EXPECT_THAT(seen, ElementsAre(1, 11));
}

TEST_F(Requirement, V2_AnyTypeCanBeAValue) {
  Async<Tensor> tensor = Tensor::of<float>({1, 2});
  EXPECT_EQ(tensor.get_wait(), Tensor::of<float>({1, 2}));
  Async<std::unique_ptr<int>> owner = std::make_unique<int>(3);
  EXPECT_EQ(*owner.take_wait(), 3);
  {
    Async<Pinned> pinned{std::in_place, 4};  // no default constructor, no copy, no move
    ReadBuffer<Pinned> buffer = pinned.read();
    EXPECT_EQ(buffer.get().number, 4);
  }
  EXPECT_EQ(Pinned::alive, 0);
}

TEST_F(Requirement, V3_IsMadeFromWhatConvertsImplicitlyOrExplicitlyAsTheTypeDoes) {
  Async<std::string> implicit = "text";
  EXPECT_EQ(implicit.get_wait(), "text");
  Async<std::vector<int>> explicitly{3};
  EXPECT_EQ(explicitly.get_wait().size(), 3U);
  static_assert(std::is_convertible_v<const char*, Async<std::string>>);
  static_assert(!std::is_convertible_v<int, Async<std::vector<int>>>);
  static_assert(std::is_constructible_v<Async<std::vector<int>>, int>);
  static_assert(!std::is_constructible_v<Async<std::string>, std::complex<double>>);
}

TEST_F(Requirement, V4_IsMadeInPlaceFromArguments) {
  EXPECT_EQ((Async<std::string>{std::in_place, 3U, 'x'}).get_wait(), "xxx");
  EXPECT_EQ((Async<std::vector<int>>{std::in_place}).get_wait().size(), 0U);
}

TEST_F(Requirement, V5_ByDefaultHasNoValueUntilItIsWritten) {
  Async<int> value;
  EXPECT_THAT([&] { value.get_wait(); }, ThrowsMessage<NotWritten>(HasSubstr("(int)")));
  schedule(assign(value.write(), 7));
  EXPECT_EQ(value.get_wait(), 7);
  Async<Pinned> nothing;
  EXPECT_EQ(Pinned::alive, 0);
}

TEST_F(Requirement, V6_ACopyIsScheduledAndIsTheFirstWriteOfAValueOfItsOwn) {
  Async<int> source;
  schedule(assign(source.write(), 5));
  Async<int> copy = source;
  schedule(add(source.mutate(), 1));
  EXPECT_EQ(copy.read().epoch(), 1U);
  EXPECT_FALSE(copy.read().is_ready());
  EXPECT_EQ(copy.get_wait(), 5);
  EXPECT_EQ(source.get_wait(), 6);
  copy = source;
  EXPECT_EQ(copy.get_wait(), 6);
}

TEST_F(Requirement, V7_ACopySharesNothingWithItsSource) {
  Async<std::vector<int>> source{std::vector<int>{1, 2}};
  for (int i = 0; i < 3; ++i) schedule(assign(source.write(), std::vector<int>{1, 2}));
  Async<std::vector<int>> copy = source;
  EXPECT_EQ(source.read().epoch(), 3U);
  EXPECT_EQ(copy.read().epoch(), 1U);
  scheduler.run_all();
  ReadBuffer<std::vector<int>> first = source.read();
  EXPECT_NE(first.get().data(), copy.read().get().data());
  EXPECT_NE(source.info().address, copy.info().address);
  WriteBuffer<std::vector<int>> held = copy.write();  // holds up the copy only
  schedule(assign(source.write(), std::vector<int>{3}));
  ReadBuffer<std::vector<int>> third = source.read();
  first.release();
  scheduler.wait(third);
  EXPECT_THAT(third.get(), ElementsAre(3));
}

TEST_F(Requirement, V8_AsyncAssignCopiesExplicitly) {
  Async<int> from = 4, to = 1;
  ReadBuffer<int> before = to.read();
  async_assign(from, to);
  EXPECT_EQ(before.get(), 1);
  before.release();
  EXPECT_EQ(to.get_wait(), 4);
  schedule(add(from.mutate(), 1));
  EXPECT_EQ(to.get_wait(), 4);
}

TEST_F(Requirement, V9_ReadGivesWhatWasWrittenLastBeforeTheCall) {
  Async<int> value = 1;
  ReadBuffer<int> first = value.read();
  schedule(assign(value.write(), 2));
  ReadBuffer<int> second = value.read();
  EXPECT_EQ(first.get(), 1);
  EXPECT_FALSE(second.is_ready());
  first.release();
  scheduler.wait(second);
  EXPECT_EQ(second.get(), 2);
}

TEST_F(Requirement, V10_MutateReadsAndChanges) {
  Async<std::string> value = "a";
  schedule(add(value.mutate(), "b"));
  schedule(add(value.mutate(), "c"));
  EXPECT_EQ(value.get_wait(), "abc");
  Async<int> nothing;
  schedule(add(nothing.mutate(), 1));
  EXPECT_THAT([&] { nothing.get_wait(); }, Throws<Error>());
}

TEST_F(Requirement, V11_WriteReplaces) {
  Async<int> value;
  schedule(assign(value.write(), 1));
  schedule(assign(value.write(), 2));
  EXPECT_EQ(value.get_wait(), 2);
}

AsyncTask make(EmplaceBuffer<Pinned> out, int number) {
  co_await std::move(out)(number);
}

TEST_F(Requirement, V12_EmplaceMakesLaterWhatHasNoDefaultConstructor) {
  {
    Async<Pinned> value;
    schedule(make(value.emplace(), 3));
    schedule(make(value.emplace(), 4));
    value.wait();
    EXPECT_EQ(value.read().get().number, 4);
    EXPECT_EQ(Pinned::alive, 1);
  }
  EXPECT_EQ(Pinned::alive, 0);
}

TEST_F(Requirement, V14_GetWaitDrivesASchedulerInAnOrderThatRepeats) {
  const auto run = [](Order order, std::uint64_t seed) {
    DebugScheduler mine{order, seed};
    std::array<Async<int>, 5> parts;
    std::vector<int> ran;
    for (int i = 0; i < 5; ++i)
      mine.schedule([](WriteBuffer<int> out, int number, std::vector<int>* all) -> AsyncTask {
        all->push_back(number);
        co_await out = number;
      }(parts[static_cast<std::size_t>(i)].write(), i, &ran));
    for (auto& part : parts) part.wait(mine);
    return ran;
  };
  EXPECT_THAT(run(Order::forwards, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(run(Order::backwards, 0), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_EQ(run(Order::shuffled, 5), run(Order::shuffled, 5));
  EXPECT_NE(run(Order::shuffled, 5), run(Order::shuffled, 6));
}

TEST_F(Requirement, V15_EpochsAreNumberedAndTimeGoesForwards) {
  Async<int> value = 0;
  EXPECT_EQ(value.read().epoch(), 0U);
  WriteBuffer<int> first = value.write();
  MutableBuffer<int> second = value.mutate();
  EXPECT_EQ(first.epoch(), 1U);
  EXPECT_EQ(second.epoch(), 2U);
  second.release();  // before its turn: the order stays
  EXPECT_EQ(value.read().epoch(), 2U);
  EXPECT_FALSE(value.read().is_ready());
  first.get() = 9;
  first.release();
  EXPECT_EQ(value.read().get(), 9);
}

TEST_F(Requirement, V16_AnEpochIsOneWriterAndAnyNumberOfReaders) {
  Async<int> value;
  WriteBuffer<int> writer = value.write();
  std::vector<ReadBuffer<int>> readers;
  for (int i = 0; i < 100; ++i) readers.push_back(value.read());
  for (const auto& reader : readers) {
    EXPECT_EQ(reader.epoch(), 1U);
    EXPECT_FALSE(reader.is_ready());
  }
  writer.get() = 1;
  writer.release();
  for (const auto& reader : readers) EXPECT_TRUE(reader.is_ready());
}

TEST_F(Requirement, V18_TheNextWriterComesWhenAllReadersAreDone) {
  Async<int> value = 1;
  ReadBuffer<int> first = value.read(), second = value.read();
  WriteBuffer<int> writer = value.write();
  EXPECT_FALSE(writer.is_ready());
  second.release();
  EXPECT_FALSE(writer.is_ready());
  first.release();
  EXPECT_TRUE(writer.is_ready());
}

TEST_F(Requirement, V19_OrderIsEnforcedBySuspensionWhateverTheSchedulerRunsFirst) {
  for (const Order order : {Order::forwards, Order::backwards, Order::shuffled}) {
    DebugScheduler mine{order, 3};
    const ScopedScheduler inner{mine};
    Async<int> a = 1, b, c;
    schedule(copy(a.read(), b.write()));
    schedule(add(b.mutate(), 1));
    schedule(copy(b.read(), c.write()));
    schedule(add(a.mutate(), 100));
    EXPECT_EQ(c.get_wait(), 2);
    EXPECT_EQ(a.get_wait(), 101);
  }
}

TEST_F(Requirement, V21_EpochsFollowTheOrderOfCallsNotOfAwaits) {
  Async<int> value = 1;
  ReadBuffer<int> reads = value.read();
  MutableBuffer<int> adds = value.mutate();
  WriteBuffer<int> writes = value.write();
  std::vector<int> seen;
  schedule(assign(std::move(writes), 7));  // the task that is scheduled first comes last
  schedule(add(std::move(adds), 1));
  schedule(note(std::move(reads), &seen));
  schedule(note(value.read(), &seen));
  scheduler.run_all();
  EXPECT_THAT(seen, ElementsAre(1, 7));
}

TEST_F(Requirement, V45_ArithmeticSchedulesItself) {
  Async<double> x = 3.0, y = 4.0;
  Async<double> z = (x + y) * 2.0 - y / x + 1.0;
  x += y;
  y *= 10.0;
  x -= x;
  EXPECT_EQ(z.get_wait(), 14.0 - 4.0 / 3.0 + 1.0);
  EXPECT_EQ(x.get_wait(), 0.0);
  EXPECT_EQ((-y).get_wait(), -40.0);
  EXPECT_EQ((1.0 / y).get_wait(), 1.0 / 40.0);
  Async<std::string> text = "a";
  text += std::string{"b"};
  EXPECT_EQ((text + text).get_wait(), "abab");
  EXPECT_EQ(compute([](int a, double b) { return a + b; }, Async<int>{1}, y).get_wait(), 41.0);
}

TEST_F(OnDebugScheduler, AMoveTakesTheValueAlong) {
  Async<int> first = 1;
  const void* const address = first.info().address;
  Async<int> second = std::move(first);
  EXPECT_EQ(second.info().address, address);
  EXPECT_THAT([&] { (void)first.read(); },  // NOLINT(bugprone-use-after-move)
              ThrowsMessage<InvalidArgument>(HasSubstr("moved from")));
  first = second;
  EXPECT_EQ(first.get_wait(), 1);
}

TEST_F(OnDebugScheduler, BuffersKeepTheValueAlive) {
  ReadBuffer<Pinned> buffer = Async<Pinned>{std::in_place, 5}.read();
  EXPECT_EQ(buffer.get().number, 5);
  EXPECT_EQ(Pinned::alive, 1);
  buffer.release();
  EXPECT_EQ(Pinned::alive, 0);
}

TEST_F(OnDebugScheduler, ManyEpochsAheadAreKeptInOrder) {
  Async<int> value = 0;
  for (int i = 1; i <= 1000; ++i) schedule(add(value.mutate(), i));
  EXPECT_EQ(value.get_wait(), 500500);
}

}  // namespace
}  // namespace capstan::values
