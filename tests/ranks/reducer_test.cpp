// SPDX-License-Identifier: Apache-2.0

// Sums of scaled inputs and operations of the program's own, through all collectives that reduce.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "algorithms/registry.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(Reducers, EachRankScalesByAFactorOfItsOwn) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const auto scaled = Reducer::premultiplied_sum(world.rank() + 0.5);
    const std::vector<float> input(1000, 2);
    std::vector<float> output(1000), in_place(1000, 2), block(1000);
    world.all_reduce(input, output, scaled);
    EXPECT_THAT(output, Each(9.0f)) << "2 · (0.5 + 1.5 + 2.5)";
    EXPECT_THAT(input, Each(2.0f));
    world.start_all_reduce(in_place, scaled).wait();
    EXPECT_THAT(in_place, Each(9.0f));
    const std::vector<float> all(3000, 2);
    world.reduce_scatter(all, block, scaled);
    EXPECT_THAT(block, Each(9.0f));
  });
}

TEST(Reducers, IntegersHaveFactorsThatTheyCanHold) {
  on_threads(1, bounded_settings(), [](Communicator& world) {
    std::vector<int> data(3, 2);
    for (const double factor : {std::nan(""), HUGE_VAL, -0x1p63})
      EXPECT_THROW(world.all_reduce(data, Reducer::premultiplied_sum(factor)), InvalidArgument);
    world.all_reduce(data, Reducer::premultiplied_sum(-2.5));
    EXPECT_THAT(data, Each(-4)) << "rounded towards zero";
  });
}

/// A linear function x -> factor·x + offset; composing two is associative and not commutative.
struct Line {
  std::int32_t factor, offset;
};
std::int64_t pack(Line line) {
  return static_cast<std::int64_t>(line.factor) << 32 | static_cast<std::uint32_t>(line.offset);
}
Line unpack(std::int64_t bits) {
  return {static_cast<std::int32_t>(bits >> 32), static_cast<std::int32_t>(bits)};
}
std::int64_t then(std::int64_t first, std::int64_t second) {
  const Line a = unpack(first), b = unpack(second);
  return pack({a.factor * b.factor, a.offset * b.factor + b.offset});
}
std::int64_t line_of(int rank) {
  return pack({rank % 2 == 0 ? 2 : 1, rank + 1});
}

TEST(Reducers, AnOrderedOperationIsAppliedInTheOrderOfRanks) {
  const auto compose = Reducer::of<std::int64_t>("compose", &then, false);
  for (const int ranks : {2, 3, 5, 8})
    on_threads(ranks, bounded_settings(), [&](Communicator& world) {
      std::int64_t all = line_of(0), up_to_here = line_of(0);
      for (int r = 1; r < ranks; ++r) {
        all = then(all, line_of(r));
        if (r <= world.rank()) up_to_here = all;
      }
      for (const std::size_t n : {1, 100, 50'000}) {
        const std::vector<std::int64_t> input(n, line_of(world.rank()));
        std::vector<std::int64_t> output(n);
        world.all_reduce(input, output, compose);
        ASSERT_THAT(output, Each(all));
        world.scan(input, output, compose);
        ASSERT_THAT(output, Each(up_to_here));
        for (int root = 0; root < ranks; ++root) {
          world.reduce(input, output, root, compose);
          if (world.rank() == root) {
            ASSERT_THAT(output, Each(all));
          }
        }
      }
    });
}

TEST(Reducers, ACommutativeOperationRunsByEveryAlgorithm) {
  const auto gcd = Reducer::of<std::int32_t>(
      "gcd", [](std::int32_t a, std::int32_t b) { return std::gcd(a, b); });
  for (const Algorithm& algorithm : algorithms(Collective::all_reduce)) {
    Settings settings = bounded_settings();
    settings.algorithm = "all_reduce:" + std::string{algorithm.name};
    on_threads(4, settings, [&](Communicator& world) {
      std::vector<std::int32_t> data(1000, 6 * (world.rank() + 2));
      world.all_reduce(data, gcd);
      ASSERT_THAT(data, Each(6)) << algorithm.name;
    });
  }
}

/// Operands of `width` bytes, each two of which are a linear function modulo 256: their order
/// counts.
class WideOperands {
 public:
  WideOperands(std::size_t width, std::size_t count) : width_(width), count_(count) {}

  std::vector<std::uint8_t> of(int rank) const {
    std::vector<std::uint8_t> bytes(width_ * count_);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(rank) * 7 + i % 11 + 1);
    return bytes;
  }
  static void compose(std::uint8_t* first, const std::uint8_t* second, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 2) {
      first[i + 1] = static_cast<std::uint8_t>(first[i + 1] * second[i] + second[i + 1]);
      first[i] = static_cast<std::uint8_t>(first[i] * second[i]);
    }
  }
  std::vector<std::uint8_t> composed(int first, int last) const {
    std::vector<std::uint8_t> all = of(first);
    for (int rank = first + 1; rank <= last; ++rank)
      compose(all.data(), of(rank).data(), all.size());
    return all;
  }
  Reducer reducer() const {
    return Reducer::of({.name = "compose",
                        .type = DataType::u8,
                        .commutative = false,
                        .accumulate =
                            [width = width_](void* to, const void* next, std::size_t count) {
                              compose(static_cast<std::uint8_t*>(to),
                                      static_cast<const std::uint8_t*>(next), count * width);
                            },
                        .width = width_});
  }
  std::vector<std::uint8_t> run(Communicator& world, Collective collective) const {
    const bool scatters = collective == Collective::reduce_scatter;
    const auto p = static_cast<std::size_t>(scatters ? world.size() : 1);
    const WideOperands given{width_, count_ * p};
    const auto input = given.of(world.rank());
    std::vector<std::uint8_t> output(width_ * count_);
    Request request{.collective = collective,
                    .input = input.data(),
                    .input_count = Elements{count_ * p},
                    .output = output.data(),
                    .output_count = Elements{count_}};
    request.reducer = reducer();
    world.run(request);
    return output;
  }

 private:
  const std::size_t width_, count_;
};

TEST(Reducers, OperandsMayBeWiderThanAnyType) {
  for (const int hosts : {0, 2})
    for (const int ranks : {2, 3, 5}) {
      Settings settings = bounded_settings();
      settings.virtual_hosts = hosts;
      on_threads(ranks, settings, [&](Communicator& world) {
        const int r = world.rank(), last = ranks - 1;
        for (const std::size_t width : {2, 12, 16, 60, 256})
          for (const std::size_t n : {0, 1, 5, 3000}) {
            const WideOperands operands{width, n};
            EXPECT_EQ(operands.run(world, Collective::all_reduce), operands.composed(0, last));
            EXPECT_EQ(operands.run(world, Collective::scan), operands.composed(0, r));
            const auto before = operands.run(world, Collective::exscan);
            if (r > 0) {
              EXPECT_EQ(before, operands.composed(0, r - 1));
            }
            const auto reduced = operands.run(world, Collective::reduce);
            if (r == 0) {
              EXPECT_EQ(reduced, operands.composed(0, last));
            }
            const auto all =
                WideOperands{width, n * static_cast<std::size_t>(ranks)}.composed(0, last);
            const auto own = all.begin() + static_cast<std::ptrdiff_t>(width * n) * r;
            EXPECT_EQ(operands.run(world, Collective::reduce_scatter),
                      std::vector(own, own + static_cast<std::ptrdiff_t>(width * n)));
          }
      });
    }
}

TEST(Reducers, OperandsOfNoBytesAndOfTooManyAreRefused) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    for (const std::size_t width : {std::size_t{0}, std::size_t{257}, ~std::size_t{0}}) {
      std::vector<std::uint8_t> data(300);
      const auto nothing = [](void*, const void*, std::size_t) {};
      const auto reducer = Reducer::of({"wide", DataType::u8, true, nothing, width});
      EXPECT_THROW(world.all_reduce(data, reducer), InvalidArgument);
    }
    std::vector<int> data(3, 1);
    world.all_reduce(data);
    EXPECT_THAT(data, Each(2)) << "the communicator goes on";
  });
}

TEST(Reducers, OperationsOfOtherNamesAreAMismatch) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const auto own =
        Reducer::of<float>(world.rank() == 0 ? "left" : "right", [](float a, float) { return a; });
    std::vector<float> data(10);
    EXPECT_THROW(world.all_reduce(data, own), Mismatch);
  });
}

TEST(Reducers, WhatIsNotDefinedIsRefusedAndNothingIsLost) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> data(10, 1), other(10);
    EXPECT_THROW(world.all_reduce(data, ReduceOp::bit_and), InvalidArgument);
    EXPECT_THROW(world.scan(data, other, ReduceOp::average), InvalidArgument);
    const auto whole = Reducer::of<int>("whole", [](int a, int) { return a; });
    try {
      world.all_reduce(data, whole);
      ADD_FAILURE() << "not noticed";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("'whole' is for i32, not f32"));
    }
    world.all_reduce(data);
    EXPECT_THAT(data, Each(2.0f));
  });
}

TEST(Reducers, OneWithoutAFunctionIsRefused) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> data(10, 1);
    const std::function<float(float, float)> none;
    float (*const null)(float, float) = nullptr;
    for (const Reducer& empty :
         {Reducer::of(UserOperation{.name = "none", .type = DataType::f32, .accumulate = {}}),
          Reducer::of<float>("none", none), Reducer::of<float>("none", null)}) {
      try {
        world.all_reduce(data, empty);
        ADD_FAILURE() << "not noticed";
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("all_reduce: the operation 'none' has no function"));
      }
    }
    world.all_reduce(data);
    EXPECT_THAT(data, Each(2.0f));
  });
}

/// Calls of all ranks until one fails; what that one says.
std::string failure_of(Communicator& world, const Reducer& reducer, bool background) {
  std::vector<float> data(100'000, 1);
  try {
    if (background) {
      const Work work = world.start_all_reduce(data, reducer);
      while (!work.is_completed()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      work.wait();
    }
    for (int call = 0; call < 3; ++call) world.all_reduce(data, reducer);
    world.barrier();
  } catch (const Aborted& error) {
    return error.what();
  }
  return "nothing failed";
}

TEST(Reducers, WhatAnOperationThrowsEndsTheCallOnAllRanks) {
  for (const bool background : {false, true}) {
    Settings settings = bounded_settings();
    settings.progress_thread = background;
    on_threads(3, settings, [&](Communicator& world) {
      const auto fails = Reducer::of<float>("fails", [&](float a, float b) {
        if (world.rank() == 1) throw std::domain_error("no sum of these");
        return a + b;
      });
      EXPECT_THAT(failure_of(world, fails, background),
                  HasSubstr("rank 1: the operation 'fails' threw: no sum of these; this ended"));
      EXPECT_THROW(world.barrier(), Aborted) << "the communicator stays failed";
    });
  }
}

TEST(Reducers, AnOperationMayThrowAnything) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const auto fails = Reducer::of<float>("fails", [](float a, float) { return throw 42, a; });
    EXPECT_THAT(failure_of(world, fails, false), HasSubstr("the operation 'fails' threw: "));
  });
}

/// Its rank is in the call that the function is for, with or without a progress thread.
TEST(Reducers, AnOperationThatCallsCapstanEndsTheCall) {
  const std::vector<std::function<void(Communicator&)>> calls{
      [](Communicator& world) { world.barrier(); },
      [](Communicator& world) { world.start_barrier().wait(); },
      [](Communicator& world) { static_cast<void>(world.with_algorithm("barrier:flat")); },
      [](Communicator& world) { world.probe(0, 0); }};
  Settings settings = bounded_settings();
  for (const bool has_thread : {false, true})
    for (const auto& call : calls) {
      settings.progress_thread = has_thread;
      on_threads(2, settings, [&](Communicator& world) {
        const auto nested = Reducer::of<float>("nested", [&](float a, float b) {
          call(world);
          return a + b;
        });
        std::vector<float> data(3, 1);
        try {
          world.all_reduce(data, nested);
          ADD_FAILURE() << "the operation has called Capstan";
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("'nested' threw: the function of an operation has"));
        }
      });
    }
}

/// The communicator that the function of an operation drops: another one, or that of its own call.
/// It is gone once its thread, or another one after that has ended, makes or drops the next one.
TEST(Reducers, ACommunicatorThatAnOperationDropsDoesNotStay) {
  Settings settings = bounded_settings();
  for (const bool own : {false, true})
    for (const bool thread_ends : {false, true}) {
      auto calling = Communicator::local_world(2, settings);
      auto others = Communicator::local_world(2, settings);
      std::optional<Communicator> dropped{std::move(own ? calling[0] : others[0])};
      Communicator& left = own ? calling[1] : others[1];
      const auto reduce = [](Communicator& world, const std::function<void()>& within) {
        std::vector<float> data(4000, 1);
        world.all_reduce(data, Reducer::of<float>("drops", [&](float a, float b) {
                           within();
                           return a + b;
                         }));
        EXPECT_THAT(data, testing::Each(2));
      };
      std::jthread peer{[&] { reduce(calling[1], [] {}); }};
      std::jthread{[&] {
        reduce(own ? *dropped : calling[0], [&] { dropped.reset(); });
        if (!thread_ends) Communicator::local_world(1, settings);
      }}.join();
      peer.join();
      EXPECT_FALSE(dropped);
      if (thread_ends) Communicator::local_world(1, settings);
      EXPECT_THROW(left.barrier(), PeerLost) << own << thread_ends;
    }
}

TEST(Requests, LengthsThatDoNotFitAreRefused) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<int> five(5), six(6), ten(10);
    EXPECT_THROW(world.all_reduce(five, six), InvalidArgument);
    EXPECT_THROW(world.all_gather(five, six), InvalidArgument);
    EXPECT_THROW(world.reduce_scatter(five, six), InvalidArgument);
    EXPECT_THROW(world.all_to_all(five), InvalidArgument);
    EXPECT_THROW(world.broadcast(five, 2), InvalidArgument);
    EXPECT_THROW(world.gather_v(five, ten, std::vector<std::size_t>{5}, 0), InvalidArgument);
    EXPECT_THROW(world.all_reduce(std::span{ten}.first(5), std::span{ten}.subspan(3, 5)),
                 InvalidArgument);
    EXPECT_THROW((void)world.subgroup(std::vector<int>{0, 0}), InvalidArgument);
    EXPECT_THROW((void)world.subgroup(std::vector<int>{7}), InvalidArgument);
    world.all_gather(five, ten);
  });
}

}  // namespace
}  // namespace capstan
