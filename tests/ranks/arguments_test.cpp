// SPDX-License-Identifier: Apache-2.0

// Arguments that cannot work are refused by every public call, in one way, and nothing is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>

#include "tests/ranks/null_memory.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t n = 6;

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

constexpr std::uint64_t absurd = std::numeric_limits<std::uint64_t>::max() / 3;

/// Requests on untyped memory with a member out of range.
std::vector<std::pair<std::string, Request>> absurd_requests(std::span<float> memory) {
  const Request sum = request::in_place(Collective::all_reduce, memory);
  std::vector<std::pair<std::string, Request>> requests;
  const auto add = [&](std::string text, auto change) {
    Request request = sum;
    change(request);
    requests.emplace_back(std::move(text), request);
  };
  add("200 is no collective", [](auto& r) { r.collective = static_cast<Collective>(200); });
  add("all_reduce: the type 14", [](auto& r) { r.type = static_cast<DataType>(14); });
  add("all_reduce: the operation 11", [](auto& r) { r.reducer = static_cast<ReduceOp>(11); });
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::barrier) continue;
    const std::string name = std::string{name_of(collective)} + ": ";
    for (const std::uint64_t count : {absurd, absurd / 4, std::uint64_t{1} << 48})
      add(name, [=](auto& r) {
        r.collective = collective;
        r.input_count = r.output_count = Elements{count};
        if (has_counts(collective)) r.counts = {Elements{count}, Elements{count}};
        if (collective == Collective::all_to_all_v) r.receive_counts = r.counts;
      });
    if (has_root(collective))
      for (const int root : {-1, 2})
        add(name + "root", [=](auto& r) { r.collective = collective, r.root = root; });
    if (has_counts(collective))
      add(name + "0 lengths were given", [=](auto& r) { r.collective = collective; });
  }
  return requests;
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

/// Null, absurd, and out of range: no call crashes, allocates or sends.
TEST(Arguments, AbsurdRequestsAreRefusedByEveryCallOnUntypedMemory) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> memory(n, 1);
    for (const auto& [text, request] : absurd_requests(memory))
      expect_refused(world,
                     {{"run", text, [&](auto& w) { w.run(request); }},
                      {"start", text, [&](auto& w) { (void)w.start(request); }},
                      {"explain", text, [&](auto& w) { (void)w.explain(request); }},
                      {"algorithm", text, [&](auto& w) { (void)w.algorithm(request); }},
                      {"predicted_time", text, [&](auto& w) { (void)w.predicted_time(request); }},
                      {"is_settled", text, [&](auto& w) { (void)w.is_settled(request); }}});
    world.all_reduce(memory);
    EXPECT_THAT(memory, Each(2.0f));
  });
}

TensorView tensor_of(void* data, std::vector<std::int64_t> shape,
                     std::vector<std::int64_t> strides = {}) {
  return {data, DataType::f32, std::move(shape), std::move(strides)};
}

std::vector<std::pair<std::string, TensorView>> absurd_tensors(void* memory) {
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  std::vector<std::pair<std::string, TensorView>> tensors{
      {"is null", tensor_of(nullptr, {2, 3})},
      {"exceeds the memory", tensor_of(memory, {far, far})},
      {"exceeds the memory", tensor_of(memory, {far})},
      {"exceeds the memory", tensor_of(memory, {0, far, far})},
      {"exceeds the memory", tensor_of(memory, {2, 3}, {far, 1})},
      {"exceeds the memory", tensor_of(memory, {2, 3}, {-far - 1, 1})}};
  const auto add = [&](std::string text, auto change) {
    tensors.emplace_back(std::move(text), tensor_of(memory, {2, 3}));
    change(tensors.back().second);
  };
  add("the tensor's type 77", [](auto& tensor) { tensor.type = static_cast<DataType>(77); });
  add("lengths are not negative", [](auto& tensor) { tensor.shape = {-2, -3}; });
  add("has 1 strides", [](auto& tensor) { tensor.strides = {1}; });
  add("no driver", [](auto& tensor) { tensor.device.type = static_cast<DeviceType>(99); });
  return tensors;
}

TEST(Arguments, AbsurdTensorsAreRefused) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> memory(2 * n);
    const TensorView good = tensor_of(memory.data(), {2, 3});
    for (const auto& [text, bad] : absurd_tensors(memory.data()))
      expect_refused(world,
                     {{"all_reduce", text, [&](auto& w) { w.all_reduce(bad); }},
                      {"broadcast", text, [&](auto& w) { w.broadcast(bad, 0); }},
                      {"all_gather", text, [&](auto& w) { w.all_gather(bad, good); }},
                      {"all_gather", text, [&](auto& w) { w.all_gather(good, bad); }},
                      {"reduce_scatter", text, [&](auto& w) { w.reduce_scatter(good, bad); }},
                      {"start", text, [&](auto& w) { (void)w.start_all_reduce(bad); }}});
    for (const int dimension : {-1, 2})
      expect_refused(world, {{"dimension", "dimension",
                              [&](auto& w) { w.all_gather(good, good, dimension); }}});
    const std::vector<std::span<float>> null{{static_cast<float*>(nullptr), 10}};
    expect_refused(world, {{"fused", "is null", [&](auto& w) {
                              w.all_reduce_fused(std::span<const std::span<float>>{null});
                            }}});
    world.barrier();
  });
}

/// All messages of an exchange start, or none.
TEST(Arguments, AbsurdMessagesAreRefused) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> sent(n, 1), received(n);
    const int peer = 1 - world.rank();
    const std::span<float> null{static_cast<float*>(nullptr), 10};
    std::vector<std::pair<std::string, Message>> bad{{"is null", Message::to(peer, null)},
                                                     {"is null", Message::from(peer, null)}};
    const auto add = [&](std::string text, auto change) {
      bad.emplace_back(std::move(text), Message::to(peer, sent));
      change(bad.back().second);
    };
    add("the type 99", [](auto& message) { message.type = static_cast<DataType>(99); });
    add("exceed the memory", [](auto& message) { message.count = Elements{absurd}; });
    add("ranks are 0 to 1", [](auto& message) { message.peer = 2; });
    add("ranks are 0 to 1", [](auto& message) { message.peer = any_source; });
    add("tags are 0 to", [](auto& message) { message.tag = any_tag; });
    add("tags are 0 to", [](auto& message) { message.tag = (1 << 30) + 1; });
    const Message good = Message::from(peer, received);
    for (const auto& [text, message] : bad)
      expect_refused(world, {{"exchange", text, [&](auto& w) { w.exchange({good, message}); }}});
    expect_refused(world, {{"probe", "ranks are", [](auto& w) { (void)w.probe(7); }},
                           {"probe", "tags are", [](auto& w) { (void)w.try_probe(0, -2); }}});
    std::vector<float> into(n);
    world.exchange({Message::from(peer, into), Message::to(peer, sent)});
    EXPECT_THAT(into, Each(1.0f)) << "no receive of a refused exchange was left";
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
          [&] { Communicator::local_world(1, settings); },
          [&] { Communicator::from_environment(settings); },
          [&] { Communicator::join(create_unique_id(), 0, 1, settings); },
          [&] { Communicator::join(std::shared_ptr<Store>{}, 0, 1, settings); }};
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
