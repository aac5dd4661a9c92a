// SPDX-License-Identifier: Apache-2.0

// One rank of the tests of buffers on devices among processes. Its first argument is its task.

#include <fmt/format.h>
#include <signal.h>

#include "capstan/async/streams.hpp"
#include "capstan/error.hpp"
#include "capstan/observe/profiler.hpp"
#include "kernels/device/images.hpp"
#include "tests/devices/cells.hpp"
#include "tests/devices/device_stream.hpp"

namespace capstan {
namespace {

using Array = DeviceArray<float>;

bool all(const Array& array, float wanted) {
  const std::vector<float> values = array.values();
  return values == std::vector<float>(values.size(), wanted);
}

/// Sends in a ring, from device to device.
std::string messages(Communicator& world) {
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  for (const std::size_t n : {1, 1000, 400'000}) {
    const Array sent{std::vector<float>(n, static_cast<float>(world.rank()))};
    const Array got{std::vector<float>(n, -1)};
    world.exchange({Message::to(right, sent.span()), Message::from(left, got.span())});
    if (!all(got, static_cast<float>(left))) return fmt::format("message of {}", n);
  }
  return "";
}

/// Tells how often long messages between two hosts went through host memory. New memory at the
/// addresses of the old one follows it.
std::string direct(Communicator& world) {
  const int partner = (world.rank() + world.size() / 2) % world.size();
  constexpr std::size_t n = 1'000'003;
  int copies = 0, registered = 0;
  const int flushes = driver_knob("flushes");
  for (int round = 0; round < 5; ++round) {
    const auto value = [&](int rank) { return static_cast<float>(10 * round + rank); };
    const Array sent{std::vector<float>(n, value(world.rank()))};
    const Array got{std::vector<float>(n + 1, -1)};
    const auto counted = [] { return driver_knob("to_host") + driver_knob("to_device"); };
    for (int repeat = 0; repeat < 3; ++repeat) {
      const int before = counted(), registered_before = driver_knob("dma_bufs");
      world.exchange({Message::to(partner, sent.span()), Message::from(partner, got.span())});
      copies += counted() - before;
      registered += driver_knob("dma_bufs") - registered_before;
    }
    std::vector<float> expected(n, value(partner));
    expected.push_back(-1);
    if (got.values() != expected) return fmt::format("message of round {}", round);
  }
  fmt::print("{} copies, {} allocations registered in each round, {} flushes\n", copies,
             registered / 5, driver_knob("flushes") - flushes);
  return "";
}

/// Tells what a profiler records of such messages in a stream.
std::string recorded(Communicator& world) {
  const int partner = (world.rank() + world.size() / 2) % world.size();
  const Array sent{std::vector<float>(100'000, 1)}, got{std::vector<float>(100'000, -1)};
  Profiler profiler;
  StreamCollectives streams{world};
  streams.attach(profiler);
  streams.on(nullptr).exchange(
      {Message::to(partner, sent.span()), Message::from(partner, got.span())});
  if (!all(got, 1)) return "message in a stream";
  for (const OperationProfile& each : profiler.profiles())
    fmt::print("{} of {} bytes by {}\n", each.operation, each.bytes.value(), each.algorithm);
  return "";
}

/// Rank 1 kills itself between two calls. The call that fails then must leave no result.
std::string killed(Communicator& world, std::size_t count) {
  const Array input{std::vector<float>(count, 1)};
  for (int i = 0;; ++i) {
    const Array output{std::vector<float>(count, -1)}, message{std::vector<float>(count, -1)};
    if (world.rank() == 1 && i == 20) ::raise(SIGKILL);
    const Work receive = world.rank() == 1 ? Work{} : world.start_receive(message.span(), 1, 1 + i);
    try {
      world.all_reduce(input.span(), output.span());
      if (!all(output, static_cast<float>(world.size()))) return "wrong";
      if (world.rank() == 1)
        for (int peer = 0; peer < world.size(); ++peer)
          if (peer != 1) world.send(input.span(), peer, 1 + i);
      if (receive.valid()) receive.wait();
    } catch (const PeerLost& error) {
      const bool untouched = all(output, -1) || all(output, 3);
      if (!untouched || !all(message, -1)) return "written after the failure";
      fmt::print("PeerLost {}, untouched\n", error.lost().value());
      return "";
    }
  }
}

/// Neighbours are on different devices, which map each other's memory.
Where own_device(const Communicator& world) {
  return world.rank() % 2 == 0 ? Where::device : Where::pool;
}

/// Collectives in streams, by kernels that meet in memory of several processes.
std::string streams(Communicator& world) {
  driver_knob("multiprocessors", 30);
  StreamCollectives streams{world};
  const Where where = own_device(world);
  const int before = driver_knob("kernels");
  int calls = 0;
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::broadcast, Collective::all_to_all, Collective::scan})
    for (const std::uint64_t n : {1, 100, 40'001})
      for (const bool in_place : {false, true}) {
        const perf::Cell cell{
            .collective = collective, .shape = {.count = Elements{n}}, .in_place = in_place};
        const auto call = [&](const Request& request) { streams.on(nullptr).run(request); };
        const auto trouble = trouble_with(cell, world.rank(), world.size(), where, where, call);
        if (!trouble.empty()) return trouble;
        ++calls;
      }
  const Array data{{1}, where};
  const auto way = streams.explain(request::in_place(Collective::all_reduce, data.span()));
  fmt::print("{} of {} calls by kernels: {}\n", driver_knob("kernels") - before, calls, way);
  return "";
}

/// A copy of pageable memory behind a call: the driver answers nobody until the call has ended.
std::string staged(Communicator& world) {
  StreamCollectives streams{world};
  const Array somewhere{{1}};
  Stream stream{somewhere.span().data()};
  const auto run = [&](const Request& request) {
    streams.on(stream.get()).run(request);
    if (stream.synchronize_alone() != 0) throw SystemError("the stream has an error");
  };
  for (const Collective collective : all_collectives())
    for (const std::uint64_t n : {1, 100, 40'001, 5'000'000})
      for (const bool in_place : {false, true}) {
        if (collective == Collective::barrier || has_counts(collective)) continue;
        if (n > 100'000 && collective != Collective::all_reduce) continue;
        perf::Cell cell{
            .collective = collective, .shape = {.count = Elements{n}}, .in_place = in_place};
        if (has_root(collective)) cell.shape.root = world.size() - 1;
        const auto trouble =
            trouble_with(cell, world.rank(), world.size(), Where::device, Where::device, run);
        if (!trouble.empty()) return trouble;
      }
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  for (const std::size_t n : {1, 1000, 400'000}) {
    const Array sent{std::vector<float>(n, static_cast<float>(world.rank()))};
    const Array got{std::vector<float>(n + 1, -1)};
    streams.on(stream.get())
        .exchange({Message::to(right, sent.span()), Message::from(left, got.span())});
    if (stream.synchronize_alone() != 0) return "the stream has an error";
    std::vector<float> expected(n, static_cast<float>(left));
    expected.push_back(-1);
    if (got.values() != expected) return fmt::format("message of {}", n);
  }
  return "";
}

/// Prints by which way a call has run.
std::string way(Communicator& world) {
  driver_knob("multiprocessors", 30);
  StreamCollectives streams{world};
  const Array data{std::vector<float>(3, 1), own_device(world)};
  streams.on(nullptr).all_reduce(data.span());
  if (data.values() != std::vector<float>(3, static_cast<float>(world.size()))) return "a sum";
  fmt::print("{}\n", streams.explain(request::in_place(Collective::all_reduce, data.span())));
  return "";
}

/// Rank 1 kills itself while the others' kernels wait for it.
std::string killed_beside_kernels(Communicator& world) {
  driver_knob("multiprocessors", 30);
  StreamCollectives streams{world};
  const Array data{std::vector<float>(5000, 1), own_device(world)};
  for (int i = 0; i < 20; ++i) streams.on(nullptr).all_reduce(data.span());
  if (world.rank() == 1) ::raise(SIGKILL);
  try {
    streams.on(nullptr).all_reduce(data.span());
  } catch (const PeerLost& error) {
    fmt::print("PeerLost {}\n", error.lost().value());
    return "";
  }
  return "no error";
}

/// Rank 1 is stopped while the others' kernels wait for it.
std::string stopped_beside_kernels(Communicator& world) {
  driver_knob("multiprocessors", 30);
  StreamCollectives streams{world};
  const Array data{std::vector<float>(5000, 1), own_device(world)};
  for (int i = 0; i < 3; ++i) streams.on(nullptr).all_reduce(data.span());
  if (world.rank() == 1) ::raise(SIGSTOP);
  try {
    streams.on(nullptr).all_reduce(data.span());
  } catch (const TimedOut& error) {
    for (const Culprit& culprit : error.culprits())
      if (culprit.state == Culprit::State::stopped)
        fmt::print("rank {} is stopped\n", culprit.world_rank.value());
    return "";
  }
  return "no error";
}

std::string run(const std::string& what, std::size_t count) {
  Communicator world = Communicator::from_environment();
  if (what == "streams") return streams(world);
  if (what == "staged") return staged(world);
  if (what == "way") return way(world);
  if (what == "killed_beside_kernels") return killed_beside_kernels(world);
  if (what == "stopped_beside_kernels") return stopped_beside_kernels(world);
  if (what == "collectives") return trouble_with_collectives(world);
  if (what == "messages") return messages(world);
  if (what == "direct") return direct(world);
  if (what == "recorded") return recorded(world);
  if (what == "killed") return killed(world, count);
  return "nothing is called " + what;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  static constexpr std::byte image[1]{};
  capstan::kernels::device::stand_in_for_missing_images(image);
  capstan::load_driver();
  try {
    const std::string trouble =
        capstan::run(argc > 1 ? argv[1] : "", argc > 2 ? std::stoul(argv[2]) : 0);
    if (!trouble.empty()) fmt::print("trouble: {}\n", trouble);
    return trouble.empty() ? 0 : 1;
  } catch (const capstan::Error& error) {
    fmt::print("Error: {}\n", error.what());
    return 1;
  }
}
