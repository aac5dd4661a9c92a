// Arguments that cannot work are refused by every public call, in one way, and nothing is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>

#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t n = 6;

/// What InvalidArgument says, or what happened instead.
std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string{"another error: "} + error.what();
  }
  return "accepted";
}

/// A call, and a part of what it has to say.
struct Refusal {
  std::string name, text;
  std::function<void(Communicator&)> call{};
};

void expect_refused(Communicator& world, const std::vector<Refusal>& refusals) {
  for (const auto& [name, text, call] : refusals)
    EXPECT_THAT(refusal_of([&] { call(world); }), HasSubstr(text))
        << name << ", rank " << world.rank();
}

/// Calls that take their data from an input, and one that is empty.
std::vector<Refusal> calls_with_an_empty_input() {
  static const std::vector<float> none;
  static const std::vector<std::size_t> lengths(3, n), no_lengths(3, 0);
  const auto output = [] { return std::vector<float>(3 * n, 100); };
  const std::string_view empty = "an empty buffer does not mean in place";
  std::vector<Refusal> calls;
  const auto add = [&](std::string name, auto call) {
    const std::string text = name + ": the output holds";
    calls.push_back({name, text, [=](Communicator& world) {
                       auto stale = output();
                       call(world, stale);
                     }});
    calls.push_back({name, std::string{empty}, calls.back().call});
  };
  add("all_reduce", [](auto& world, auto& out) { world.all_reduce(none, out); });
  add("all_gather", [](auto& world, auto& out) { world.all_gather(none, out); });
  add("scan", [](auto& world, auto& out) { world.scan(none, out); });
  add("exscan", [](auto& world, auto& out) { world.exscan(none, out); });
  add("reduce", [](auto& world, auto& out) { world.reduce(none, out, world.rank()); });
  add("gather", [](auto& world, auto& out) { world.gather(none, out, world.rank()); });
  const auto input = [&](std::string name, auto call) {
    add(name, call);
    calls[calls.size() - 2].text = name + ": the input holds 0 elements";
  };
  input("reduce_scatter", [](auto& world, auto& out) { world.reduce_scatter(none, out); });
  input("all_to_all", [](auto& world, auto& out) { world.all_to_all(none, out); });
  input("broadcast", [](auto& world, auto& out) { world.broadcast(none, out, world.rank()); });
  input("scatter", [](auto& world, auto& out) { world.scatter(none, out, world.rank()); });
  input("all_gather_v", [](auto& world, auto& out) { world.all_gather_v(none, out, lengths); });
  input("all_to_all_v",
        [](auto& world, auto& out) { world.all_to_all_v(none, lengths, out, lengths); });
  return calls;
}

TEST(Arguments, AnEmptyInputIsNotTakenForInPlace) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const std::vector<float> input(n, 1);
    std::vector<float> output(n, 100);
    if (world.rank() == 1) expect_refused(world, calls_with_an_empty_input());
    world.all_reduce(input, output);
    EXPECT_THAT(output, Each(3.0f)) << "the communicator is as it was";
  });
}

TEST(Arguments, ANullPointerHoldsNothing) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const std::span<float> null{static_cast<float*>(nullptr), 10};
    std::vector<float> ten(10, 1), twenty(20);
    const auto* const text = "is null, but is to hold 10 elements";
    expect_refused(world, {{"in place", text, [&](auto& w) { w.all_reduce(null); }},
                           {"both", text, [&](auto& w) { w.all_reduce(null, null); }},
                           {"input", text, [&](auto& w) { w.all_reduce(null, ten); }},
                           {"output", text, [&](auto& w) { w.all_reduce(ten, null); }},
                           {"broadcast", text, [&](auto& w) { w.broadcast(null, 0); }},
                           {"scan", text, [&](auto& w) { w.scan(null); }},
                           {"all_to_all", text, [&](auto& w) { w.all_to_all(null); }},
                           {"all_gather", text, [&](auto& w) { w.all_gather(null, twenty); }},
                           {"start", text, [&](auto& w) { (void)w.start_all_reduce(null); }},
                           {"explain", text, [&](auto& w) {
                              w.explain(request::in_place(Collective::all_reduce, null));
                            }}});
    world.all_reduce(ten);
    EXPECT_THAT(ten, Each(2.0f));
  });
}

TEST(Arguments, NoElementsNeedNoMemory) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    std::vector<float> none, other;
    const std::vector<std::size_t> lengths(3, 0);
    for (int repeat = 0; repeat < 3; ++repeat) {
      world.all_reduce(none);
      world.all_reduce(none, other);
      world.broadcast(none, 1);
      world.reduce(none, other, 2);
      world.all_gather(none, other);
      world.all_gather_v(none, other, lengths);
      world.all_to_all(none);
      world.all_to_all_v(none, lengths, other, lengths);
      world.scan(none, other);
      world.start_all_reduce(none, other).wait();
    }
  });
}

/// At ranks that do not use a buffer it is not looked at.
TEST(Arguments, BuffersThatARankDoesNotUseMayBeEmpty) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const bool root = world.rank() == 1;
    const std::vector<float> none, mine(n, 1), all(3 * n, 2);
    std::vector<float> nothing, one(n), three(3 * n);
    world.broadcast(root ? mine : none, one, 1);
    EXPECT_THAT(one, Each(1.0f));
    world.reduce(mine, root ? one : nothing, 1);
    EXPECT_THAT(one, Each(root ? 3.0f : 1.0f));
    world.gather(mine, root ? three : nothing, 1);
    world.scatter(root ? all : none, one, 1);
    EXPECT_THAT(one, Each(2.0f));
  });
}

TEST(Arguments, InPlaceIsTheSameMemoryAsInputAndOutput) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    std::vector<float> sum(n, 1), scanned(n, 1), blocks(3 * n);
    world.all_reduce(sum, sum);
    EXPECT_THAT(sum, Each(3.0f));
    world.scan(scanned, scanned);
    EXPECT_THAT(scanned, Each(world.rank() + 1.0f));
    const auto own = std::span{blocks}.subspan(static_cast<std::size_t>(world.rank()) * n, n);
    std::ranges::fill(own, 7);
    world.all_gather(own, blocks);
    EXPECT_THAT(blocks, Each(7.0f));
    const std::vector<std::size_t> lengths(3, n);
    EXPECT_THAT(refusal_of([&] { world.all_to_all_v(blocks, lengths, blocks, lengths); }),
                HasSubstr("all_to_all_v: input and output overlap"));
  });
}

}  // namespace
}  // namespace capstan
