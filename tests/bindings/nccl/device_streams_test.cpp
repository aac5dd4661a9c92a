// SPDX-License-Identifier: Apache-2.0

// NCCL's calls on memory of devices, in streams: their order, their results, and captures.

#include "tests/bindings/nccl/device_streams.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace capstan {
namespace {

using namespace nccl_streams;

INSTANTIATE_TEST_SUITE_P(Ways, NcclOnDevices, ::testing::Values("0", "1"));

TEST_P(NcclOnDevices, ACallComesBehindWhatIsInItsStreamAndBeforeWhatIsPutThere) {
  constexpr int rounds = 5;
  on_ranks([](ncclComm_t comm, int rank) {
    const Array input{-1}, sum{-1};
    const Stream stream;
    std::vector<float> seen;
    for (int round = 0; round < rounds; ++round) {
      stream.launch([&, round] { input.fill(static_cast<float>(round + rank)); });
      sum_in(stream, input, sum, comm);
      stream.launch([&] { seen.push_back(sum.data()[n - 1]); });
    }
    stream.wait();
    EXPECT_EQ(seen, (std::vector<float>{3, 6, 9, 12, 15}));
  });
  EXPECT_EQ(kernels(), has_kernels() ? p * rounds : 0);
}

TEST_P(NcclOnDevices, ACallReturnsWhileItsStreamWaits) {
  on_ranks([](ncclComm_t comm, int) {
    const Array data{1};
    const Stream stream;
    sum_in(stream, data, data, comm);  // ranks agree
    stream.wait();
    Gate gate;
    gate.hold(stream);
    sum_in(stream, data, data, comm);
    EXPECT_TRUE(data.is(3));
    gate.open();
    OK(ncclCommFinalize(comm));  // waits for what is in streams
    EXPECT_TRUE(data.is(9));
  });
}

TEST_P(NcclOnDevices, AllCollectivesRun) {
  on_ranks([](ncclComm_t comm, int rank) {
    const Array own{static_cast<float>(rank)}, all{-1, p * n},
        wide{static_cast<float>(rank), p * n};
    const Stream stream;
    OK(ncclAllGather(own.get(), all.get(), n, ncclFloat, comm, stream.get()));
    OK(ncclReduceScatter(all.get(), own.get(), n, ncclFloat, ncclSum, comm, stream.get()));
    OK(ncclAlltoAll(wide.get(), all.get(), n, ncclFloat, comm, stream.get()));
    stream.wait();
    EXPECT_TRUE(own.is(static_cast<float>(p * rank)));
    EXPECT_EQ(all.values()[n], 1);
    OK(ncclBroadcast(rank == 1 ? own.get() : nullptr, own.get(), n, ncclFloat, 1, comm,
                     stream.get()));
    OK(ncclReduce(own.get(), rank == 2 ? own.get() : nullptr, n, ncclFloat, ncclSum, 2, comm,
                  stream.get()));
    OK(ncclGather(own.get(), rank == 0 ? all.get() : nullptr, n, ncclFloat, 0, comm, stream.get()));
    OK(ncclScatter(rank == 0 ? all.get() : nullptr, own.get(), n, ncclFloat, 0, comm,
                   stream.get()));
    OK(ncclAllReduce(own.get(), own.get(), 0, ncclFloat, ncclSum, comm, stream.get()));
    stream.wait();
    EXPECT_TRUE(own.is(rank == 2 ? 9 : 3));
  });
}

TEST_P(NcclOnDevices, OneThreadDrivesAllRanksByGroups) {
  const auto comms = all_ranks();
  std::vector<Stream> streams(p);
  const auto data = arrays(-1);
  for (int round = 0; round < 3; ++round) {
    OK(ncclGroupStart());
    for (std::size_t r = 0; r < p; ++r) {
      streams[r].launch(
          [&, r, round] { data[r]->fill(static_cast<float>(r) * 10 + static_cast<float>(round)); });
      sum_in(streams[r], *data[r], *data[r], comms[r]);
    }
    OK(ncclGroupEnd());
    for (std::size_t r = 0; r < p; ++r) streams[r].wait();
    for (const auto& each : data) EXPECT_TRUE(each->is(static_cast<float>(30 + 3 * round)));
  }
  end(comms);
}

/// Ranks name what they send and receive in an order of their own, beside a collective, and in two
/// streams. Messages of no bytes belong to nobody.
TEST_P(NcclOnDevices, MessagesOfAGroupAreOneExchangeInAllItsStreams) {
  on_ranks([](ncclComm_t comm, int rank) {
    const int right = (rank + 1) % p, left = (rank + p - 1) % p;
    const Array own{-1}, got{-1}, sum{-1};
    const Stream first, second;
    Gate gate;
    for (int round = 0; round < 3; ++round) {
      first.launch([&, round] { own.fill(static_cast<float>(10 * round + rank)); });
      OK(ncclGroupStart());
      if (rank == 0) sum_in(second, own, sum, comm);
      OK(ncclSend(own.get(), n, ncclFloat, right, comm, first.get()));
      if (rank != 0) sum_in(second, own, sum, comm);
      OK(ncclSend(nullptr, 0, ncclFloat, left, comm, first.get()));
      OK(ncclRecv(nullptr, 0, ncclFloat, right, comm, second.get()));
      OK(ncclRecv(got.get(), n, ncclFloat, left, comm, second.get()));
      OK(ncclGroupEnd());
      OK(ncclSend(nullptr, 0, ncclFloat, right, comm, second.get()));
      std::array<float, 2> seen{};
      first.launch([&] { seen = {got.data()[n - 1], sum.data()[0]}; });
      first.wait();
      EXPECT_EQ(seen[0], static_cast<float>(10 * round + left));
      EXPECT_EQ(seen[1], static_cast<float>(30 * round + 3));
    }
  });
}

/// The device of the thread is current when the communicator is made, as NCCL wants it.
TEST_P(NcclOnDevices, CallsAreInDefaultStreamsOfDevicesThatRanksDoNotShare) {
  constexpr int ranks = 2;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const OnDevice here{rank};
      ncclComm_t comm = nullptr;
      OK(ncclCommInitRank(&comm, ranks, id, rank));
      for (cudaStream_t handle : {cudaStream_t{}, legacy_stream, thread_stream}) {
        const Array data{1, n, rank == 0 ? Where::device : Where::pool};
        const Stream stream{handle, rank};
        sum_in(stream, data, data, comm);
        stream.wait();
        Gate gate;
        gate.hold(stream);
        sum_in(stream, data, data, comm);  // returns while the stream waits
        EXPECT_TRUE(data.is(2));
        gate.open();
        stream.wait();
        EXPECT_TRUE(data.is(4));
      }
      OK(ncclCommDestroy(comm));
    });
}

TEST_P(NcclOnDevices, ACallOfNothingReturnsWhileItsStreamWaits) {
  on_ranks([](ncclComm_t comm, int) {
    const Array data{1};
    const Stream stream;
    std::atomic<bool> passed = false;
    Gate gate;
    gate.hold(stream);
    stream.launch([&] { passed = true; });
    OK(ncclAllReduce(data.get(), data.get(), 0, ncclFloat, ncclSum, comm, stream.get()));
    OK(ncclAllGather(nullptr, nullptr, 0, ncclFloat, comm, stream.get()));
    EXPECT_FALSE(passed);
    gate.open();
    stream.wait();
  });
}

/// Ranks share a device, and so its default streams. A kernel there is awaited, and the call has
/// ended when it returns.
TEST_P(NcclOnDevices, DefaultStreamsAreAwaited) {
  on_ranks([](ncclComm_t comm, int rank) {
    const OnDevice here{0};
    for (cudaStream_t handle : {cudaStream_t{}, legacy_stream, thread_stream}) {
      const Array input{-1}, sum{-1};
      const Stream stream{handle};
      stream.launch([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
        input.fill(static_cast<float>(rank));
      });
      sum_in(stream, input, sum, comm);
      EXPECT_TRUE(sum.is(3));
    }
  });
}

/// The device that is current for the thread is another one.
TEST_P(NcclOnDevices, TheDefaultStreamIsThatOfTheBuffersDevice) {
  const auto comms = all_ranks();
  const Stream stream{nullptr};
  const auto data = arrays(-1);
  const OnDevice elsewhere{1};
  OK(ncclGroupStart());
  for (std::size_t r = 0; r < p; ++r) {
    stream.launch([&, r] { data[r]->fill(2); });
    sum_in(stream, *data[r], *data[r], comms[r]);
  }
  OK(ncclGroupEnd());
  for (const auto& each : data) EXPECT_TRUE(each->is(6));
  end(comms);
}

TEST_P(NcclOnDevices, HostMemoryIsReadWhenItsStreamIsEmpty) {
  on_ranks([](ncclComm_t comm, int rank) {
    const OnDevice here{0};
    const Array on_device{1};
    for (cudaStream_t handle : {Stream{}.get(), cudaStream_t{}, thread_stream}) {
      const Stream stream{handle};
      std::array<float, 2> host{};
      on_device.fill(1);
      sum_in(stream, on_device, on_device, comm);
      stream.launch([&] { host = {static_cast<float>(rank), on_device.data()[0]}; });
      OK(ncclAllReduce(host.data(), host.data(), 2, ncclFloat, ncclSum, comm, handle));
      EXPECT_EQ(host, (std::array<float, 2>{3, 9}));
    }
  });
}

/// Ranks agree on the way of a call before; the host takes no part in replays.
TEST_P(NcclOnDevices, CallsThatRunAsKernelsCanBeCaptured) {
  std::barrier together{p};
  on_ranks([&](ncclComm_t comm, int rank) {
    const auto capture = [&](int change) {
      together.arrive_and_wait();
      if (rank == 0) driver_knob("capturing", change);
      together.arrive_and_wait();
    };
    const Array data{1};
    const Stream stream;
    sum_in(stream, data, data, comm);
    stream.wait();
    capture(1);
    const auto result =
        ncclAllReduce(data.get(), data.get(), n, ncclFloat, ncclSum, comm, stream.get());
    EXPECT_EQ(result, has_kernels() ? ncclSuccess : ncclInvalidArgument);
    capture(-1);
    EXPECT_TRUE(data.is(3));
    stream.replay();
    stream.replay();
    stream.wait();
    EXPECT_TRUE(data.is(has_kernels() ? 27 : 3));
    together.arrive_and_wait();  // a replay is nothing that a communicator waits for
  });
}

TEST_P(NcclOnDevices, CommunicatorsThatDoNotBlockPutCallsIntoStreamsInTheBackground) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  std::array<ncclComm_t, 2> comms{};
  for (int r = 0; r < 2; ++r)
    ASSERT_EQ(ncclCommInitRankConfig(&comms[static_cast<std::size_t>(r)], 2, id, r, &config),
              ncclInProgress);
  const auto settle = [&] {
    for (ncclComm_t comm : comms)
      for (ncclResult_t state = ncclInProgress; state != ncclSuccess;) {
        OK(ncclCommGetAsyncError(comm, &state));
        ASSERT_TRUE(state == ncclSuccess || state == ncclInProgress) << ncclGetLastError(comm);
      }
  };
  settle();
  const std::array<Array, 2> data{Array{1}, Array{2}};
  std::array<Stream, 2> streams;
  for (int round = 0; round < 2; ++round)
    for (std::size_t r = 0; r < 2; ++r)  // without a group
      ASSERT_EQ(ncclAllReduce(data[r].get(), data[r].get(), n, ncclFloat, ncclSum, comms[r],
                              streams[r].get()),
                ncclInProgress);
  settle();
  for (std::size_t r = 0; r < 2; ++r) {
    streams[r].wait();
    EXPECT_TRUE(data[r].is(6));
  }
  for (ncclComm_t comm : comms) ncclCommFinalize(comm);
  settle();
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
}

TEST_P(NcclOnDevices, ChildrenOfACommunicatorUseStreamsToo) {
  on_ranks([](ncclComm_t comm, int rank) {
    ncclComm_t child = nullptr;
    OK(ncclCommSplit(comm, 0, -rank, &child, nullptr));
    const Array data{1};
    const Stream stream;
    Gate gate;
    sum_in(stream, data, data, child);
    gate.hold(stream);
    sum_in(stream, data, data, child);
    gate.open();
    stream.wait();
    EXPECT_TRUE(data.is(9));
    OK(ncclCommDestroy(child));
  });
}

TEST_P(NcclOnDevices, MemoryAndScalarsOfDevices) {
  on_ranks([](ncclComm_t comm, int) {
    const OnDevice here{0};
    void* memory = nullptr;
    OK(ncclMemAlloc(&memory, 100));
    const auto data = driver_function<void*(const void*)>("fake_data");
    EXPECT_NE(data(memory), nullptr) << "of a device";
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0U);
    int device = -1;
    OK(ncclCommCuDevice(comm, &device));
    EXPECT_EQ(device, 0);
    const Array factor{2, 1}, values{1};
    const Stream stream;
    ncclRedOp_t scaled;
    OK(ncclRedOpCreatePreMulSum(&scaled, factor.get(), ncclFloat, ncclScalarDevice, comm));
    OK(ncclAllReduce(values.get(), values.get(), n, ncclFloat, scaled, comm, stream.get()));
    stream.wait();
    EXPECT_TRUE(values.is(6));
    OK(ncclMemFree(memory));
    EXPECT_EQ(data(memory), nullptr);
  });
}

}  // namespace
}  // namespace capstan
