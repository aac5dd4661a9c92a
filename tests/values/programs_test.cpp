// SPDX-License-Identifier: Apache-2.0

// Random programs, on every scheduler, against a sequential interpreter.

#include <rapidcheck.h>

#include <memory>
#include <variant>

#include "tests/values/helpers.hpp"

namespace capstan::values {
namespace {

constexpr std::size_t values = 5;

/// One statement of a program over five values.
struct Statement {
  enum class Kind : std::uint8_t {
    write,          // a = number
    add,            // a += b
    combine,        // a = b + 3 * c
    copy,           // a is a new copy of b
    assign,         // a = b, by async_assign
    move,           // a takes over b, which begins anew without a value
    emplace,        // a is made anew from a number
    drop_write,     // a write buffer of a is dropped
    drop_mutate,    // a mutable buffer of a is dropped
    cancel,         // a task that was to write a is cancelled
    fail,           // a task that writes a throws
    read,           // b is noted
    read_late,      // b is noted by a task that first lets others run
    write_from_two  // a and b get each other's values
  };
  Kind kind;
  std::size_t a, b, c;
  int number;
};
constexpr int kinds = static_cast<int>(Statement::Kind::write_from_two) + 1;

void showValue(const Statement& statement, std::ostream& out) {
  out << "{kind " << int(statement.kind) << ", " << statement.a << ", " << statement.b << ", "
      << statement.c << ", " << statement.number << "}";
}

/// The contents of a value, or why there are none.
enum class Nothing : std::uint8_t { not_written, cancelled, failed };
using Content = std::variant<std::int64_t, Nothing>;

void showValue(const Content& content, std::ostream& out) {
  if (const auto* const number = std::get_if<std::int64_t>(&content))
    out << *number;
  else
    out << "nothing " << int(std::get<Nothing>(content));
}

struct Result {
  std::vector<Content> final, noted;
  bool operator==(const Result&) const = default;
};
void showValue(const Result& result, std::ostream& out) {
  rc::show(result.final, out);
  out << " noted ";
  rc::show(result.noted, out);
}

/// The meaning of a program: one statement after the other.
Result interpret(const std::vector<Statement>& program) {
  using Kind = Statement::Kind;
  std::array<Content, values> now;
  now.fill(Nothing::not_written);
  Result result;
  const auto number = [&](std::size_t i) { return std::get_if<std::int64_t>(&now[i]); };
  // Computes a result, or passes on the reason why the first operand that is empty holds nothing.
  const auto compute = [&](std::initializer_list<std::size_t> operands, auto function) -> Content {
    for (const std::size_t i : operands)
      if (!number(i)) return now[i];
    return function();
  };
  for (const Statement& s : program) switch (s.kind) {
      case Kind::write:
      case Kind::emplace:
        now[s.a] = s.number;
        break;
      case Kind::add:
        now[s.a] = compute({s.a, s.b}, [&] { return *number(s.a) + *number(s.b); });
        break;
      case Kind::combine:
        now[s.a] = compute({s.b, s.c}, [&] { return *number(s.b) + 3 * *number(s.c); });
        break;
      case Kind::copy:
      case Kind::assign:
        now[s.a] = now[s.b];
        break;
      case Kind::move:
        if (s.a != s.b) now[s.a] = std::exchange(now[s.b], Nothing::not_written);
        break;
      case Kind::drop_write:
        now[s.a] = Nothing::not_written;
        break;
      case Kind::drop_mutate:
        break;
      case Kind::cancel:
        now[s.a] = Nothing::cancelled;
        break;
      case Kind::fail:
        now[s.a] = Nothing::failed;
        break;
      case Kind::read:
      case Kind::read_late:
        result.noted.push_back(now[s.b]);
        break;
      case Kind::write_from_two:
        std::swap(now[s.a], now[s.b]);
        break;
    }
  result.final.assign(now.begin(), now.end());
  return result;
}

using Value = std::int64_t;

Nothing kind_of_error() {
  try {
    throw;
  } catch (const NotWritten&) {
    return Nothing::not_written;
  } catch (const TaskCancelled&) {
    return Nothing::cancelled;
  } catch (const TaskFailed& error) {
    // A task that read what was not written failed by that.
    try {
      std::rethrow_exception(error.cause());
    } catch (const NotWritten&) {
      return Nothing::not_written;
    } catch (...) {
      return Nothing::failed;
    }
  }
}

AsyncTask note_content(ReadBuffer<Value> in, Content* to, bool late) {
  if (late) co_await reschedule();
  try {
    *to = co_await in;
  } catch (const Error&) {
    *to = kind_of_error();
  }
}
AsyncTask add_value(ReadBuffer<Value> in, MutableBuffer<Value> target) {
  Value& result = co_await target;
  result += co_await in;
}
AsyncTask throws(WriteBuffer<Value> out) {
  co_await out = 1;
  co_await reschedule();
  throw std::runtime_error("on purpose");
}
AsyncTask combine(ReadBuffer<Value> b, ReadBuffer<Value> c, WriteBuffer<Value> out) {
  const Value first = co_await b;
  b.release();
  const Value second = co_await c;
  c.release();
  co_await out = first + 3 * second;
}

/// The same with tasks, on the current scheduler.
Result run(const std::vector<Statement>& program, Scheduler& scheduler) {
  using Kind = Statement::Kind;
  const ScopedScheduler scoped{scheduler};
  std::array<Async<Value>, values> now;
  Result result;
  result.noted.reserve(program.size());  // so that tasks may point into it
  for (const Statement& s : program) {
    Async<Value>&a = now[s.a], &b = now[s.b], &c = now[s.c];
    switch (s.kind) {
      case Kind::write:
        schedule(assign(a.write(), s.number));
        break;
      case Kind::add:
        if (s.a == s.b)
          a += a;
        else
          schedule(add_value(b.read(), a.mutate()));
        break;
      case Kind::combine: {
        ReadBuffer<Value> in_b = b.read(), in_c = c.read();
        schedule(combine(std::move(in_b), std::move(in_c), a.write()));
        break;
      }
      case Kind::copy:
        if (s.a != s.b) a = Async<Value>{b};
        break;
      case Kind::assign:
        if (s.a != s.b) async_assign(b, a);
        break;
      case Kind::move:
        if (s.a == s.b) break;
        a = std::move(b);
        b = Async<Value>{};
        break;
      case Kind::emplace:
        schedule([](EmplaceBuffer<Value> out, int number) -> AsyncTask {
          co_await std::move(out)(number);
        }(a.emplace(), s.number));
        break;
      case Kind::drop_write:
        (void)a.write();
        break;
      case Kind::drop_mutate:
        (void)a.mutate();
        break;
      case Kind::cancel: {
        AsyncTask task = assign(a.write(), 1);
        task.cancel_if_unwritten();
        schedule(std::move(task));
        break;
      }
      case Kind::fail:
        schedule(throws(a.write()));
        break;
      case Kind::read:
      case Kind::read_late:
        result.noted.emplace_back();
        schedule(note_content(b.read(), &result.noted.back(), s.kind == Kind::read_late));
        break;
      case Kind::write_from_two:
        if (s.a == s.b) break;
        Async<Value> before = a;
        async_assign(b, a);
        async_assign(before, b);
        break;
    }
  }
  for (Async<Value>& value : now) try {
      result.final.emplace_back(value.get_wait());
    } catch (const Error&) {
      result.final.emplace_back(kind_of_error());
    }
  scheduler.wait_all();
  return result;
}

rc::Gen<std::vector<Statement>> programs() {
  const auto index = rc::gen::inRange<std::size_t>(0, values);
  return rc::gen::container<std::vector<Statement>>(rc::gen::build<Statement>(
      rc::gen::set(&Statement::kind, rc::gen::map(rc::gen::inRange(0, kinds),
                                                  [](int kind) { return Statement::Kind(kind); })),
      rc::gen::set(&Statement::a, index), rc::gen::set(&Statement::b, index),
      rc::gen::set(&Statement::c, index),
      rc::gen::set(&Statement::number, rc::gen::inRange(-50, 50))));
}

/// RapidCheck prints the seed and the smallest program that fails.
void expect_equal_to_interpreter(Scheduler& scheduler) {
  EXPECT_TRUE(rc::check([&] {
    const auto program = *programs();
    RC_ASSERT(run(program, scheduler) == interpret(program));
  }));
}

TEST(Programs, OnTheDebugSchedulerForwards) {
  DebugScheduler scheduler{Order::forwards};
  expect_equal_to_interpreter(scheduler);
}

TEST(Programs, OnTheDebugSchedulerBackwards) {
  DebugScheduler scheduler{Order::backwards};
  expect_equal_to_interpreter(scheduler);
}

TEST(Programs, OnTheDebugSchedulerShuffled) {
  EXPECT_TRUE(rc::check([] {
    const auto program = *programs();
    DebugScheduler scheduler{Order::shuffled, *rc::gen::arbitrary<std::uint64_t>()};
    RC_ASSERT(run(program, scheduler) == interpret(program));
  }));
}

TEST(Programs, OnThePool) {
  Pool pool{{.workers = 3}};
  expect_equal_to_interpreter(pool);
}

TEST(Programs, OnOneTbb) {
  if (!TbbScheduler::is_available() || sanitized)
    GTEST_SKIP() << "there is no oneTBB for this build";
  TbbScheduler tbb;
  expect_equal_to_interpreter(tbb);
}

}  // namespace
}  // namespace capstan::values
