// SPDX-License-Identifier: Apache-2.0

// NCCL's calls on memory of devices, in streams of a driver of CUDA: the stand-in of the tests,
// whose streams run on a thread of its own, in random order and a while later. The run-time library
// is none, as in programs that have it linked into them.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/nccl/ranks.hpp"
#include "tests/devices/device_array.hpp"

namespace capstan {
namespace {

constexpr int p = 3;
constexpr std::size_t n = 1000;
const auto legacy_stream = reinterpret_cast<cudaStream_t>(1);
const auto thread_stream = reinterpret_cast<cudaStream_t>(2);

/// Makes a device's context current for this thread.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    void* context = nullptr;
    driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device);
    driver_function<int(void*)>("cuCtxPushCurrent_v2")(context);
  }
  OnDevice(const OnDevice&) = delete;
  ~OnDevice() {
    void* context = nullptr;
    driver_function<int(void**)>("cuCtxPopCurrent_v2")(&context);
  }
};

/// A stream of device 0, and kernels in it.
class Stream {
 public:
  Stream() {
    const OnDevice here{0};
    void* made = nullptr;
    driver_function<int(void**, unsigned)>("cuStreamCreate")(&made, 1);
    handle_ = static_cast<cudaStream_t>(made);
  }
  explicit Stream(cudaStream_t handle) : handle_(handle) {}
  cudaStream_t get() const { return handle_; }

  void launch(std::function<void()> body) const {
    driver_function<int(void*, void (*)(void*), void*)>("fake_launch")(
        actual(),
        [](void* body_) {
          const std::unique_ptr<std::function<void()>> owned{
              static_cast<std::function<void()>*>(body_)};
          (*owned)();
        },
        new std::function<void()>{std::move(body)});
  }
  /// Launches again what was launched here while streams were captured.
  void replay() const { driver_function<void(void*)>("fake_replay")(actual()); }
  void wait() const { EXPECT_EQ(driver_function<int(void*)>("fake_synchronize")(actual()), 0); }

 private:
  void* actual() const {
    const OnDevice here{0};
    return driver_function<void*(void*)>("fake_stream")(handle_);
  }
  cudaStream_t handle_ = nullptr;
};

/// A kernel that waits until the program lets it go on: a minute at most.
class Gate {
 public:
  void hold(const Stream& stream) {
    stream.launch([opened = opened_] { opened.wait_for(std::chrono::minutes{1}); });
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

class Array : public DeviceArray<float> {
 public:
  explicit Array(float value, std::size_t count = n, Where where = Where::device)
      : DeviceArray(std::vector<float>(count, value), where), count_(count) {}
  float* get() const { return span().data(); }
  /// For kernels.
  float* data() const {
    return static_cast<float*>(driver_function<void*(const void*)>("fake_data")(get()));
  }
  void fill(float value) const { std::fill_n(data(), count_, value); }
  bool is(float value) const { return values() == std::vector<float>(count_, value); }

 private:
  std::size_t count_;
};

void sum_in(const Stream& stream, const Array& from, const Array& to, ncclComm_t comm) {
  OK(ncclAllReduce(from.get(), to.get(), n, ncclFloat, ncclSum, comm, stream.get()));
}

/// By pinned memory, and by kernels where the library has any.
class NcclOnDevices : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ::setenv("CAPSTAN_DEVICE_EXECUTOR", GetParam(), 1);
    ::setenv("CAPSTAN_TIMEOUT", "60", 1);
    load_driver();
    driver_knob("multiprocessors", 60 - driver_knob("multiprocessors"));
    kernels_before_ = driver_knob("kernels");
  }
  /// Communicators that have been destroyed may still be at it.
  void TearDown() override {
    const auto late = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (driver_knob("depth") != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), late) << "a context is still current";
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  static void on_ranks(const std::function<void(ncclComm_t, int)>& body) {
    capstan::on_ranks(p, body);
  }
  /// A world that this thread drives.
  static std::array<ncclComm_t, p> all_ranks() {
    std::array<ncclComm_t, p> comms{};
    EXPECT_EQ(ncclCommInitAll(comms.data(), p, nullptr), ncclSuccess);
    return comms;
  }
  /// One for each rank.
  static std::vector<std::unique_ptr<Array>> arrays(float value) {
    std::vector<std::unique_ptr<Array>> all;
    for (int rank = 0; rank < p; ++rank) all.push_back(std::make_unique<Array>(value));
    return all;
  }
  static void end(const std::array<ncclComm_t, p>& comms) {
    for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
  }
  int kernels() const { return driver_knob("kernels") - kernels_before_; }
  static bool has_kernels() { return CAPSTAN_HAS_KERNELS != 0 && std::string{GetParam()} == "1"; }

 private:
  int kernels_before_ = 0;
};
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

/// A kernel in a default stream is awaited, and the call has ended when it returns.
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

/// None of them waits for calls that are in streams, nor for the others to go. The gate holds up
/// the whole device, and with it copies of calls.
TEST_P(NcclOnDevices, OneThreadDestroysAllRanksWhileTheirCallsWait) {
  const auto comms = all_ranks();
  std::vector<Stream> streams(p);
  const auto data = arrays(1);
  Gate gate;
  for (int round = 0; round < 2; ++round) {
    OK(ncclGroupStart());
    for (std::size_t r = 0; r < p; ++r) {
      if (round == 1) gate.hold(streams[r]);
      sum_in(streams[r], *data[r], *data[r], comms[r]);
    }
    OK(ncclGroupEnd());
    if (round == 0) streams[0].wait();
  }
  end(comms);
  gate.open();
  for (std::size_t r = 0; r < p; ++r) {
    streams[r].wait();
    EXPECT_TRUE(data[r]->is(9));
  }
}

TEST_P(NcclOnDevices, AnAbortEndsCallsThatWaitForPeers) {
  const auto comms = all_ranks();
  const Array data{1};
  const Stream stream;
  std::atomic<ncclResult_t> result = ncclInProgress;
  std::thread waits([&] {  // for the others to agree
    result = ncclAllReduce(data.get(), data.get(), n, ncclFloat, ncclSum, comms[0], stream.get());
  });
  OK(ncclCommAbort(comms[1]));
  waits.join();
  EXPECT_EQ(result, ncclRemoteError);
  EXPECT_NE(std::string{ncclGetLastError(nullptr)}.find("ncclCommAbort"), std::string::npos);
  ncclResult_t state = ncclSuccess;
  OK(ncclCommGetAsyncError(comms[0], &state));
  EXPECT_EQ(state, ncclRemoteError);
  OK(ncclCommDestroy(comms[0]));
  OK(ncclCommDestroy(comms[2]));
}

TEST_P(NcclOnDevices, AnAbortEndsCallsInStreams) {
  const auto comms = all_ranks();
  const auto data = arrays(1);
  std::vector<Stream> streams(p);
  OK(ncclGroupStart());
  for (std::size_t r = 0; r < p; ++r) {
    sum_in(streams[r], *data[r], *data[r], comms[r]);
  }
  OK(ncclGroupEnd());
  sum_in(streams[0], *data[0], *data[0], comms[0]);  // the others never make this one
  OK(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT));
  for (const Stream& stream : streams) stream.wait();  // they use the arrays until then
  EXPECT_NE(ncclAllReduce(data[0]->get(), data[0]->get(), n, ncclFloat, ncclSum, comms[0],
                          streams[0].get()),
            ncclSuccess);
  for (ncclComm_t comm : {comms[0], comms[1]}) {
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclRemoteError);
  }
  end(comms);
}

TEST_P(NcclOnDevices, WhatCannotWorkIsToldAtTheCall) {
  on_ranks([](ncclComm_t comm, int) {
    const Array data{1}, elsewhere{1, n, Where::pool};
    const Stream stream;
    EXPECT_EQ(ncclAllReduce(data.get(), elsewhere.get(), n, ncclFloat, ncclSum, comm, stream.get()),
              ncclInvalidArgument);
    EXPECT_EQ(
        ncclAllReduce(elsewhere.get(), elsewhere.get(), n, ncclFloat, ncclSum, comm, stream.get()),
        ncclInvalidArgument);
    sum_in(stream, data, data, comm);
    stream.wait();
    EXPECT_TRUE(data.is(3)) << "refusals disturb nobody";
  });
  const auto comms = all_ranks();
  const Array data{1};
  const Stream stream;
  driver_knob("capturing", 1);
  EXPECT_EQ(ncclSend(data.get(), n, ncclFloat, 0, comms[0], legacy_stream), ncclInvalidArgument);
  EXPECT_NE(std::string{ncclGetLastError(nullptr)}.find("captured into a graph"),
            std::string::npos);
  driver_knob("capturing", -1);
  end(comms);
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

TEST_P(NcclOnDevices, AFailureInAStreamIsTheCommunicators) {
  if (has_kernels()) GTEST_SKIP() << "no copies";
  driver_knob("fail_to_host", 1);
  on_ranks([](ncclComm_t comm, int) {
    const Array data{1};
    const Stream stream;
    // A copy that fails at once is told at once, too.
    const auto at_once =
        ncclAllReduce(data.get(), data.get(), n, ncclFloat, ncclSum, comm, stream.get());
    EXPECT_TRUE(at_once == ncclSuccess || at_once == ncclSystemError ||
                at_once == ncclRemoteError || at_once == ncclUnhandledCudaError)
        << at_once;
    stream.wait();  // goes on
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_TRUE(state == ncclSystemError || state == ncclRemoteError) << state;
    EXPECT_EQ(ncclAllReduce(data.get(), data.get(), n, ncclFloat, ncclSum, comm, stream.get()),
              state);
  });
  driver_knob("fail_to_host", -driver_knob("fail_to_host"));
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
