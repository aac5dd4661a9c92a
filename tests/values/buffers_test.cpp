// SPDX-License-Identifier: Apache-2.0

// Buffers: what awaiting them gives, when they are released, and what is left when they are
// dropped.

#include "tests/values/helpers.hpp"

namespace capstan::values {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

AsyncTask read_twice(ReadBuffer<std::string> in, std::vector<const std::string*>* seen) {
  const std::string& first = co_await in;
  const std::string& second = co_await in;
  seen->push_back(&first);
  seen->push_back(&second);
}
AsyncTask read_temporary(Async<std::string>* value, std::string* result) {
  *result = co_await value->read();  // a copy, as the buffer is gone at the end of the line
}

TEST_F(Requirement, V38_AReadBufferGivesAConstReferenceOrACopy) {
  Async<std::string> value = "text";
  std::vector<const std::string*> seen;
  std::string copied;
  schedule(read_twice(value.read(), &seen));
  schedule(read_temporary(&value, &copied));
  scheduler.run_all();
  EXPECT_THAT(seen, ElementsAre(&value.read().get(), &value.read().get()));
  EXPECT_EQ(copied, "text");
  static_assert(std::is_same_v<decltype(value.read().get()), const std::string&>);
}

TEST_F(Requirement, V38_ACopyOfAReadBufferReadsTheSameEpoch) {
  Async<int> value = 1;
  ReadBuffer<int> first = value.read();
  schedule(assign(value.write(), 2));
  ReadBuffer<int> second = first;
  first.release();
  scheduler.run_one();
  EXPECT_EQ(second.epoch(), 0U);
  EXPECT_EQ(second.get(), 1);
  second.release();
  EXPECT_EQ(value.get_wait(), 2);
}

AsyncTask change(MutableBuffer<std::string> buffer) {
  std::string& text = co_await buffer;
  text += text;
}

TEST_F(Requirement, V39_AMutableBufferGivesAReference) {
  Async<std::string> value = "ab";
  schedule(change(value.mutate()));
  EXPECT_EQ(value.get_wait(), "abab");
}

AsyncTask write_by_reference(WriteBuffer<std::string> buffer) {
  std::string& text = co_await buffer;
  text = "new";
}

TEST_F(Requirement, V40_AWriteBufferGivesAReferenceToBeWritten) {
  Async<std::string> never_written, written = "old";
  schedule(write_by_reference(never_written.write()));
  schedule(write_by_reference(written.write()));
  EXPECT_EQ(never_written.get_wait(), "new");
  EXPECT_EQ(written.get_wait(), "new");
}

struct Point {
  Point(int a, std::unique_ptr<int> b) : x(a), y(std::move(b)) {}
  int x;
  std::unique_ptr<int> y;
};
AsyncTask place(EmplaceBuffer<Point> buffer, bool* was_moved_from) {
  co_await std::move(buffer)(3, std::make_unique<int>(4));
  *was_moved_from = !buffer.valid();  // NOLINT(bugprone-use-after-move)
}

TEST_F(Requirement, V41_AnEmplaceBufferMakesTheValueOnceFromArguments) {
  Async<Point> value;
  bool was_moved_from = false;
  schedule(place(value.emplace(), &was_moved_from));
  value.wait();
  EXPECT_EQ(*value.read().get().y, 4);
  EXPECT_TRUE(was_moved_from);
}

TEST_F(Requirement, V42_BuffersArePassedByValueAndLiveAsLongAsTheCoroutine) {
  Async<int> value = 1, result;
  {
    ReadBuffer<int> in = value.read();
    WriteBuffer<int> out = result.write();
    schedule(copy(std::move(in), std::move(out)));
  }
  Async<int>{std::move(value)};  // the coroutine's buffer is what keeps the value alive
  EXPECT_EQ(result.get_wait(), 1);
  static_assert(!std::is_copy_constructible_v<WriteBuffer<int>>);
  static_assert(std::is_nothrow_move_constructible_v<WriteBuffer<int>>);
}

TEST_F(Requirement, V36_ADroppedWriteBufferIsAnErrorForReadersNeverAnOldOrUninitialisedValue) {
  Async<int> never_written, written = 1;
  for (Async<int>* value : {&never_written, &written}) {
    {
      const WriteBuffer<int> dropped = value->write();
    }
    EXPECT_THAT([&] { value->get_wait(); }, ThrowsMessage<NotWritten>(HasSubstr("epoch 1")));
    {
      const MutableBuffer<int> unused = value->mutate();
    }  // changes nothing
    EXPECT_THAT([&] { value->get_wait(); }, ThrowsMessage<NotWritten>(HasSubstr("(int)")));
    schedule(assign(value->write(), 3));
    EXPECT_EQ(value->get_wait(), 3);
  }
}

TEST_F(OnDebugScheduler, AReleasedBufferCannotBeUsed) {
  Async<int> value = 1;
  ReadBuffer<int> buffer = value.read();
  buffer.release();
  buffer.release();
  EXPECT_FALSE(buffer.valid());
  EXPECT_THAT([&] { buffer.get(); }, ThrowsMessage<InvalidArgument>(HasSubstr("released")));
}

AsyncTask read_then_write(ReadBuffer<int> in, WriteBuffer<int> out) {
  const int number = co_await in;
  in.release();  // else it would wait for itself
  co_await out = number + 1;
}

TEST_F(OnDebugScheduler, ATaskMayReadAndThenWriteOneValue) {
  Async<int> value = 1;
  // Not both in the call: a compiler may evaluate its arguments in any order.
  ReadBuffer<int> in = value.read();
  schedule(read_then_write(std::move(in), value.write()));
  EXPECT_EQ(value.get_wait(), 2);
}

AsyncTask sum_of(ReadBuffer<int> a, ReadBuffer<int> b, WriteBuffer<int> out) {
  co_await when_all(a, b, out);
  out.get() = a.get() + b.get();
}

TEST_F(OnDebugScheduler, WhenAllWaitsForSeveralBuffersWhateverComesFirst) {
  for (const bool first : {true, false}) {
    Async<int> a, b, c = 0;
    WriteBuffer<int> to_a = a.write(), to_b = b.write();
    schedule(sum_of(a.read(), b.read(), c.write()));
    scheduler.run_one();
    schedule(assign(first ? std::move(to_a) : std::move(to_b), 1));
    EXPECT_THROW(scheduler.run_all(), Deadlock);
    EXPECT_FALSE(c.read().is_ready());
    schedule(assign(first ? std::move(to_b) : std::move(to_a), 2));
    EXPECT_EQ(c.get_wait(), 3);
  }
}

AsyncTask maybe_read(ReadBuffer<int> in, int* result) {
  const int* const found = co_await in.maybe();
  *result = found ? *found : -1;
}

TEST_F(OnDebugScheduler, MaybeIsNullWhereNothingWasWritten) {
  Async<int> nothing, something = 2;
  int first = 0, second = 0;
  schedule(maybe_read(nothing.read(), &first));
  schedule(maybe_read(something.read(), &second));
  scheduler.run_all();
  EXPECT_EQ(first, -1);
  EXPECT_EQ(second, 2);
}

}  // namespace
}  // namespace capstan::values
