// SPDX-License-Identifier: Apache-2.0

// Values that run backwards in time, and gradients against numeric ones.

#include "capstan/values/dual.hpp"

#include <functional>

#include "tests/values/helpers.hpp"

namespace capstan::values {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST_F(Requirement, V43_AReverseValueIsReadBeforeItIsWritten) {
  ReverseValue<int> value;
  std::vector<int> seen;
  schedule(note(value.read(), &seen));
  scheduler.run_one();
  EXPECT_TRUE(seen.empty());
  value.set(2);                         // what the read before gets
  schedule(note(value.read(), &seen));  // gets what comes further on
  value.set(3);
  scheduler.run_all();
  EXPECT_EQ(seen, (std::vector<int>{2, 3}));
  EXPECT_EQ(value.get_wait(), 2);  // the end of the reverse time is the begin of the program
  EXPECT_THAT([&] { value.set(4); }, ThrowsMessage<InvalidArgument>(HasSubstr("closed")));
}

TEST_F(Requirement, V43_WhatNothingWritesFurtherOnIsAnError) {
  ReverseValue<int> value;
  ReadBuffer<int> reader = value.read();
  EXPECT_FALSE(reader.is_ready());
  value.close();
  EXPECT_THROW(reader.get(), NotWritten);
}

AsyncTask add_to(ReadBuffer<int> later, WriteBuffer<int> out, int number) {
  co_await when_all(later, out);
  const int* const rest = later.find();
  out.emplace((rest ? 10 * *rest : 0) + number);
}

TEST_F(Requirement, V43_ContributionsAccumulateFromTheLastOneOn) {
  ReverseValue<int> value;
  for (const int number : {1, 2, 3}) {
    auto step = value.accumulate();
    schedule(add_to(std::move(step.later), std::move(step.out), number));
  }
  EXPECT_EQ(value.get_wait(), 321);
}

using Function = std::function<Dual<double>(const Dual<double>&, const Dual<double>&)>;

double value_of(const Function& function, double x, double y) {
  return function(x, y).value().get_wait();
}

TEST_F(Requirement, V44_GradientsOfEachOperationAreTheNumericOnes) {
  const std::vector<std::pair<const char*, Function>> functions = {
      {"+", [](auto& x, auto& y) { return x + y; }},
      {"-", [](auto& x, auto& y) { return x - y; }},
      {"*", [](auto& x, auto& y) { return x * y; }},
      {"/", [](auto& x, auto& y) { return x / y; }},
      {"unary -", [](auto& x, auto& y) { return -x + y; }},
      {"x + 2", [](auto& x, auto& y) { return (x + 2.0) * y; }},
      {"2 - x", [](auto& x, auto& y) { return (2.0 - x) * (y - 3.0); }},
      {"3 x", [](auto& x, auto& y) { return 3.0 * x + y * 2.0; }},
      {"x / 3", [](auto& x, auto& y) { return x / 3.0 + 2.0 / y + (1.0 + x); }},
      {"exp", [](auto& x, auto& y) { return exp(x * y); }},
      {"log", [](auto& x, auto& y) { return log(x + y); }},
      {"sin", [](auto& x, auto& y) { return sin(x) * y; }},
      {"cos", [](auto& x, auto& y) { return cos(x) * y; }},
      {"tan", [](auto& x, auto& y) { return tan(x) * y; }},
      {"tanh", [](auto& x, auto& y) { return tanh(x * y); }},
      {"sqrt", [](auto& x, auto& y) { return sqrt(x * y); }},
      {"pow", [](auto& x, auto& y) { return pow(x, 3.5) * y; }},
      {"several uses", [](auto& x, auto& y) { return sin(x) * x + x * y / (x + y); }},
  };
  for (const auto& [name, function] : functions) {
    const double a = 0.7, b = 1.3, h = 1e-6;
    Dual<double> x = a, y = b;
    Dual<double> z = function(x, y);
    z.backward();
    const double by_x = (value_of(function, a + h, b) - value_of(function, a - h, b)) / (2 * h);
    const double by_y = (value_of(function, a, b + h) - value_of(function, a, b - h)) / (2 * h);
    EXPECT_NEAR(x.grad().get_wait(), by_x, 1e-7) << name;
    EXPECT_NEAR(y.grad().get_wait(), by_y, 1e-7) << name;
  }
}

/// The sum of a function of matrices x [2, 3] and y [3, 2].
using MatrixFunction = std::function<Dual<Tensor>(const Dual<Tensor>&, const Dual<Tensor>&)>;

TEST_F(Requirement, V44_GradientsOfTensorsAreTheNumericOnes) {
  const auto a = Tensor::of<double>({0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, {2, 3});
  const auto b = Tensor::of<double>({1.1, -0.3, 0.7, 0.9, -1.2, 0.8}, {3, 2});
  const std::vector<MatrixFunction> functions = {
      [](auto& x, auto& y) { return sum(tanh(matmul(x, y))); },
      [](auto& x, auto& y) { return sum(matmul(x * x, y) * matmul(x, y / 2.0)); },
      [](auto& x, auto& y) { return sum(exp(matmul(y, x)) / 3.0) - sum(log(x)) * sum(y); },
      [](auto& x, auto& y) { return sum(sqrt(x) + pow(x, 2) - cos(x)) + sum(tan(y) * sin(y)); },
  };
  for (const auto& function : functions) {
    Dual<Tensor> x = a, y = b;
    function(x, y).backward();
    const Tensor by_x = x.grad().get_wait(), by_y = y.grad().get_wait();
    for (std::size_t i = 0; i < 6; ++i) {
      const auto at = [&](double dx, double dy) {
        Tensor moved_a = a, moved_b = b;
        moved_a.elements<double>()[i] += dx;
        moved_b.elements<double>()[i] += dy;
        return to_number(function(moved_a, moved_b).value().get_wait());
      };
      const double h = 1e-6;
      EXPECT_NEAR(by_x.elements<double>()[i], (at(h, 0) - at(-h, 0)) / (2 * h), 1e-7);
      EXPECT_NEAR(by_y.elements<double>()[i], (at(0, h) - at(0, -h)) / (2 * h), 1e-7);
    }
  }
}

TEST_F(Requirement, V44_GradientsAreTheSameBitByBitWithEveryScheduler) {
  const auto gradient = [] {
    Dual<double> x = 0.1;
    Dual<double> y = x * 1.0;
    for (int i = 1; i < 50; ++i) y = y + sin(x * i) / (x + i);
    y.backward();
    return x.grad().get_wait();
  };
  const double expected = gradient();
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    DebugScheduler shuffled{Order::shuffled, seed};
    const ScopedScheduler inner{shuffled};
    EXPECT_EQ(gradient(), expected);
  }
  Pool pool{{.workers = 3}};
  const ScopedScheduler inner{pool};
  EXPECT_EQ(gradient(), expected);
}

TEST_F(OnDebugScheduler, WhatTheResultDoesNotDependOnHasNoGradient) {
  Dual<double> x = 1.0, y = 2.0;
  Dual<double> unused = x * y;
  (x * 3.0).backward();
  EXPECT_EQ(x.grad().get_wait(), 3.0);
  EXPECT_THROW(y.grad().get_wait(), Error);
  EXPECT_THAT([&] { (void)(x * y); }, ThrowsMessage<InvalidArgument>(HasSubstr("backward")));
}

TEST_F(OnDebugScheduler, AConstantTakesPartInManyGraphs) {
  const auto factor = Dual<double>::constant(3.0);
  for (int i = 0; i < 3; ++i) {
    Dual<double> x = 2.0;
    (x * factor + factor).backward();
    EXPECT_EQ(x.grad().get_wait(), 3.0);
  }
}

TEST_F(OnDebugScheduler, LongChainsOfOperationsEnd) {
  Dual<double> x = 1.0;
  Dual<double> y = x * 1.0;
  for (int i = 0; i < 20'000; ++i) y = y + 1.0;
  y.backward();
  EXPECT_EQ(x.grad().get_wait(), 1.0);
  Dual<double> without_backward = 1.0;
  for (int i = 0; i < 20'000; ++i) without_backward = without_backward * 1.0;
}

TEST_F(OnDebugScheduler, AnErrorReachesGradients) {
  Dual<double> x{Async<double>{}};  // not written
  Dual<double> y = x * x;
  y.backward();
  EXPECT_THROW(x.grad().get_wait(), Error);
}

}  // namespace
}  // namespace capstan::values
