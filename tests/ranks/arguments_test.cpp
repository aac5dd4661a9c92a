// SPDX-License-Identifier: Apache-2.0

// Arguments that cannot work are refused by every public call, in one way, and nothing is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/ranks/null_memory.hpp"
#include "tests/ranks/refusals.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using refusals::expect_refused;
using refusals::n;
using refusals::Refusal;
using refusals::tensor_of;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

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
    const auto* const hint = "an empty buffer does not mean in place";
    EXPECT_THAT(refusal_of([&] { world.all_reduce(null, ten); }), HasSubstr(hint));
    EXPECT_THAT(refusal_of([&] { world.all_reduce(null, null); }), Not(HasSubstr(hint)));
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

TEST(Arguments, PredictionsOfMessagesAreForRanksThatExist) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    for (const int peer : {-1, 2})
      expect_refused(world, {{"message", "rank " + std::to_string(peer),
                              [&](auto& w) { (void)w.predicted_time(peer, Bytes{8}); }}});
    EXPECT_GT(world.predicted_time(1 - world.rank(), Bytes{1 << 20}),
              world.predicted_time(1 - world.rank(), Bytes{8}));
  });
}

/// On the host. tests/devices has the same where the other buffer lies on a device.
TEST(Requirement, M30_NullMemoryIsRefusedByEveryCall) {
  auto world = std::move(Communicator::local_world(1, bounded_settings()).front());
  std::vector<float> memory(n), other(n);
  expect_null_refused(world, memory, other);
}

std::vector<Refusal> every_public_call() {
  static std::vector<float> data(n), other(n);
  static const std::vector<std::size_t> lengths{n};
  static const TensorView tensor = tensor_of(data.data(), {2, 3});
  static const std::vector<std::span<float>> buffers{data};
  static const std::span<const std::span<float>> fused{buffers};
  static const Request request = request::in_place(Collective::all_reduce, data);
  std::vector<Refusal> calls;
  const auto add = [&](std::string name, auto call) {
    calls.push_back({std::move(name), "moved from", [call](Communicator& w) { call(w); }});
  };
  add("rank", [](auto& w) { (void)w.rank(); });
  add("size", [](auto& w) { (void)w.size(); });
  add("run", [](auto& w) { w.run(request); });
  add("start", [](auto& w) { (void)w.start(request); });
  add("explain", [](auto& w) { (void)w.explain(request); });
  add("algorithm", [](auto& w) { (void)w.algorithm(request); });
  add("predicted_time", [](auto& w) { (void)w.predicted_time(request); });
  add("predicted_time of a message", [](auto& w) { (void)w.predicted_time(0, Bytes{8}); });
  add("is_settled", [](auto& w) { (void)w.is_settled(request); });
  add("barrier", [](auto& w) { w.barrier(); });
  add("start_barrier", [](auto& w) { (void)w.start_barrier(); });
  add("broadcast", [](auto& w) { w.broadcast(data, 0); });
  add("reduce", [](auto& w) { w.reduce(data, other, 0); });
  add("all_reduce", [](auto& w) { w.all_reduce(data); });
  add("all_gather", [](auto& w) { w.all_gather(data, other); });
  add("all_gather_v", [](auto& w) { w.all_gather_v(data, other, lengths); });
  add("reduce_scatter", [](auto& w) { w.reduce_scatter(data, other); });
  add("reduce_scatter_v", [](auto& w) { w.reduce_scatter_v(data, other, lengths); });
  add("gather", [](auto& w) { w.gather(data, other, 0); });
  add("gather_v", [](auto& w) { w.gather_v(data, other, lengths, 0); });
  add("scatter", [](auto& w) { w.scatter(data, other, 0); });
  add("scatter_v", [](auto& w) { w.scatter_v(data, other, lengths, 0); });
  add("all_to_all", [](auto& w) { w.all_to_all(data); });
  add("all_to_all_v", [](auto& w) { w.all_to_all_v(data, lengths, other, lengths); });
  add("scan", [](auto& w) { w.scan(data); });
  add("exscan", [](auto& w) { w.exscan(data); });
  add("tensor all_reduce", [](auto& w) { w.all_reduce(tensor); });
  add("tensor broadcast", [](auto& w) { (void)w.start_broadcast(tensor, 0); });
  add("tensor all_gather", [](auto& w) { w.all_gather(tensor, tensor); });
  add("tensor reduce_scatter", [](auto& w) { w.reduce_scatter(tensor, tensor); });
  add("fused", [](auto& w) { w.all_reduce_fused(fused); });
  add("send", [](auto& w) { w.send(data, 0); });
  add("receive", [](auto& w) { w.receive(data); });
  add("probe", [](auto& w) { (void)w.probe(); });
  add("try_probe", [](auto& w) { (void)w.try_probe(); });
  add("exchange of nothing", [](auto& w) { w.exchange({}); });
  add("tensor request", [](auto& w) { w.run(TensorRequest{}); });
  add("start of a tensor request", [](auto& w) { (void)w.start(TensorRequest{}); });
  add("abort", [](auto& w) { w.abort("reason"); });
  add("async_error", [](auto& w) { (void)w.async_error(); });
  add("allocate_bytes", [](auto& w) { (void)w.allocate_bytes(1); });
  add("allocate", [](auto& w) { (void)w.template allocate<float>(1); });
  add("split", [](auto& w) { (void)w.split(0); });
  add("subgroup", [](auto& w) { (void)w.subgroup(std::vector<int>{0}); });
  add("create_group", [](auto& w) { (void)w.create_group(std::vector<int>{0}); });
  add("world_rank", [](auto& w) { (void)w.world_rank(0); });
  add("rank_of", [](auto& w) { (void)w.rank_of(0); });
  return calls;
}

TEST(Arguments, CallbacksAreFunctionsThatMayThrow) {
  auto world = std::move(Communicator::local_world(1, bounded_settings()).front());
  const Work work = world.start_barrier();
  EXPECT_THAT(refusal_of([&] { work.on_complete(nullptr); }),
              HasSubstr("on_complete of barrier(): the callback is empty"));
  work.on_complete([](const Work&) { throw 42; });
  work.wait();
}

TEST(Arguments, EveryWayToAWorldRefusesTimesOfNothing) {
  using std::chrono::milliseconds;
  for (const auto setting : {&Settings::timeout, &Settings::join_timeout})
    for (const milliseconds time : {milliseconds{0}, milliseconds{-1}, milliseconds::min()}) {
      Settings settings;
      settings.*setting = time;
      const std::vector<std::function<void()>> ways{
          [&] { static_cast<void>(Communicator::local_world(1, settings)); },
          [&] { static_cast<void>(Communicator::from_environment(settings)); },
          [&] { static_cast<void>(Communicator::join(create_unique_id(), 0, 1, settings)); },
          [&] { static_cast<void>(Communicator::join(std::shared_ptr<Store>{}, 0, 1, settings)); }};
      for (const auto& way : ways) EXPECT_THAT(refusal_of(way), HasSubstr("must be above 0"));
    }
}

TEST(Arguments, ACommunicatorThatWasMovedFromSaysSo) {
  auto world = Communicator::local_world(1, bounded_settings());
  Communicator moved = std::move(world.front());
  for (const auto& [name, text, call] : every_public_call())
    EXPECT_THAT(refusal_of([&] { call(world.front()); }), HasSubstr(text)) << name;
  world.front() = std::move(moved);  // may be assigned to and destroyed
  for (const auto& [name, text, call] : every_public_call())
    if (name == "all_reduce" || name == "rank") {
      EXPECT_NO_THROW(call(world.front())) << name;
    }
  EXPECT_THROW((void)moved.size(), InvalidArgument);
}

}  // namespace
}  // namespace capstan
