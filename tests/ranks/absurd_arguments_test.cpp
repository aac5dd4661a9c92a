// SPDX-License-Identifier: Apache-2.0

// Arguments that are null, absurd or out of range: no call crashes, allocates or sends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "capstan/custom_algorithm.hpp"
#include "tests/ranks/refusals.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using refusals::expect_refused;
using refusals::n;
using refusals::tensor_of;
using ::testing::Each;

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

/// They would fill the memory, or wait for ranks that cannot be.
TEST(Arguments, AbsurdNumbersOfRanksAreRefused) {
  constexpr int most = std::numeric_limits<int>::max();
  for (const int ranks : {-1, 0, 1025, most})
    EXPECT_THROW(std::ignore = Communicator::local_world(ranks), InvalidArgument) << ranks;
  const CustomAlgorithm nothing{"of_absurdly_many", Collective::all_reduce,
                                [](const Group& group, const Shape& shape) {
                                  return ScheduleBuilder{group, shape.count, shape.count}.build();
                                }};
  for (const int ranks : {0, 1025, most})
    EXPECT_THROW(add_algorithm(nothing, std::array{ranks}), InvalidArgument) << ranks;
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

}  // namespace
}  // namespace capstan
