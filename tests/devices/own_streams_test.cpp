// SPDX-License-Identifier: Apache-2.0

// Calls of a communicator itself in the order of streams: Request::stream, Communicator::streams().

#include <thread>

#include "capstan/async/persistent.hpp"
#include "capstan/error.hpp"
#include "capstan/observe/profiler.hpp"
#include "core/communicator/retired.hpp"
#include "tests/devices/cells.hpp"
#include "tests/devices/device_path.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class T>
Request in_stream(Collective collective, const DeviceArray<T>& data, const Stream& stream) {
  Request request = request::in_place(collective, data.span());
  request.stream = stream.get();
  return request;
}

/// True: by kernels. False: through pinned memory.
class StreamsOfACommunicator : public OnDevices, public ::testing::WithParamInterface<bool> {
 protected:
  template <class Body>
  static void on_worlds(int ranks, const Body& body) {
    Settings settings = bounded_settings();
    settings.device_executor = GetParam();
    on_threads(ranks, settings, body);
  }
  void TearDown() override {
    EXPECT_TRUE(await_retired(Deadline::in(60s)));
    OnDevices::TearDown();
    EXPECT_EQ(events(), 0) << "events are released";
  }
};

INSTANTIATE_TEST_SUITE_P(Both, StreamsOfACommunicator, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "ByKernels" : "Staged"; });

TEST_P(StreamsOfACommunicator, ARequestRunsInTheOrderOfItsStream) {
  on_worlds(3, [](Communicator& world) {
    expect_order_of_a_stream(world.streams(), 1000);
    const DeviceArray<float> data{std::vector<float>(100, -1)};
    Stream stream{data.span().data()};
    stream.launch([&] {
      std::this_thread::sleep_for(1ms);
      std::fill_n(on_device_data(data), 100, static_cast<float>(world.rank()));
    });
    world.run(in_stream(Collective::all_reduce, data, stream));
    Work work = world.start(in_stream(Collective::all_reduce, data, stream));
    work.wait();
    EXPECT_FALSE(world.run_briefly(in_stream(Collective::all_reduce, data, stream)));
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(data.values(), Each(3.0F * 9));
  });
}

/// Every collective, as a blocking call and with a handle, between calls without a stream.
TEST_P(StreamsOfACommunicator, EveryCollectiveTakesAStream) {
  on_worlds(3, [](Communicator& world) {
    const DeviceArray<float> somewhere{{1}};
    Stream stream{somewhere.span().data()};
    int kind = 0;
    for (const Collective collective : all_collectives()) {
      if (collective == Collective::barrier) continue;
      perf::Cell cell{.collective = collective,
                      .type = DataType::f64,
                      .op = ReduceOp::sum,
                      .shape = {.count = Elements{37}},
                      .in_place = false};
      if (has_root(collective)) cell.shape.root = 1;
      if (has_counts(collective)) {
        cell.shape.count = Elements{};
        const int lengths = collective == Collective::all_to_all_v ? 9 : 3;
        for (int i = 0; i < lengths; ++i)
          cell.shape.counts.push_back(Elements{static_cast<std::uint64_t>(5 + i)});
      }
      const auto trouble = trouble_with(cell, world.rank(), world.size(), Where::device,
                                        Where::device, [&](const Request& request) {
                                          Request ordered = request;
                                          ordered.stream = stream.get();
                                          if (++kind % 2 == 0)
                                            world.run(ordered);
                                          else
                                            world.start(ordered).wait();
                                          EXPECT_EQ(stream.synchronize(), 0);
                                        });
      EXPECT_EQ(trouble, "") << name_of(collective);
      world.barrier();
    }
  });
}

TEST_P(StreamsOfACommunicator, ProfilersRecordThemWhetherTheyCameBeforeOrAfter) {
  on_worlds(2, [](Communicator& world) {
    const DeviceArray<float> data{{1, 2, 3}};
    Stream stream{data.span().data()};
    const Request request = in_stream(Collective::all_reduce, data, stream);
    const auto run = [&] {
      world.run(request);
      EXPECT_EQ(stream.synchronize(), 0);
      while (!world.streams().is_idle()) std::this_thread::sleep_for(1ms);
    };
    Profiler first, second;
    world.attach(first);
    run();
    world.attach(second);
    run();
    world.detach_profiler();
    run();
    for (const Profiler& profiler : {first, second}) {
      const auto calls = profiler.profiles();
      ASSERT_EQ(calls.size(), 1U);
      EXPECT_EQ(calls[0].operation, "all_reduce");
      EXPECT_THAT(calls[0].algorithm,
                  StartsWith(GetParam() ? "device executor: " : "pinned staging: "));
    }
  });
}

TEST_P(StreamsOfACommunicator, AbortEndsThemOnAllRanks) {
  on_worlds(2, [](Communicator& world) {
    const DeviceArray<float> data{{1, 2, 3}};
    Stream stream{data.span().data()};
    const Request request = in_stream(Collective::all_reduce, data, stream);
    world.run(request);
    if (world.rank() == 0) {
      Work work = world.start(request);
      std::this_thread::sleep_for(5ms);
      world.abort("enough");
      EXPECT_THROW(work.wait(), Error);
    }
    const Deadline deadline = Deadline::in(30s);
    while (!world.async_error() && !deadline.expired()) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(world.async_error());
    EXPECT_THROW(world.run(request), Error);
    stream.synchronize();
  });
}

class StreamsRefuse : public OnDevices {
 protected:
  void TearDown() override {
    EXPECT_TRUE(await_retired(Deadline::in(60s)));
    OnDevices::TearDown();
  }
};

TEST_F(StreamsRefuse, HostMemoryAndCallsThatAreMadeAgainAndAgain) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const DeviceArray<float> data{{1, 2, 3}};
    Stream stream{data.span().data()};
    std::vector<float> host(3);
    Request request = request::in_place(Collective::all_reduce, host);
    request.stream = stream.get();
    const auto refusal_of = [](const auto& call) -> std::string {
      try {
        call();
      } catch (const InvalidArgument& error) {
        return error.what();
      }
      return "none";
    };
    EXPECT_THAT(refusal_of([&] { world.run(request); }), HasSubstr("host memory"));
    request.input = request.output = data.span().data();
    EXPECT_THAT(refusal_of([&] { PersistentCall{world, request}; }), HasSubstr("pass no stream"));
    EXPECT_THAT(refusal_of([&] { (void)world.predicted_time(request); }),
                HasSubstr("pass no stream"));
    EXPECT_THAT(world.explain(request), StartsWith("undecided"));
    world.run(request);
    EXPECT_THAT(world.explain(request), StartsWith("device executor"));
    EXPECT_EQ(stream.synchronize(), 0);
  });
}

TEST_F(StreamsRefuse, AlgorithmsOfATwinRunInItsStreams) {
  on_threads(4, bounded_settings(), [](Communicator& world) {
    const DeviceArray<float> data{{1, 2, 3}};
    Stream stream{data.span().data()};
    Communicator ring = world.with_algorithm("all_reduce:ring");
    const Request request = in_stream(Collective::all_reduce, data, stream);
    ring.run(request);
    EXPECT_THAT(ring.explain(request), HasSubstr("ring"));
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_EQ(data.values(), (std::vector<float>{4, 8, 12}));
  });
}

}  // namespace
}  // namespace capstan
