// SPDX-License-Identifier: Apache-2.0

// NCCL's interface as its programs use it: several ranks of one process, by threads and by groups.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/nccl/ranks.hpp"

namespace {

using capstan::no_stream;
using capstan::on_ranks;

float value_at(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
}

std::vector<float> values(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = value_at(rank, i);
  return data;
}

float sum_at(int ranks, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_at(rank, i);
  return sum;
}

TEST(Nccl, VersionIsOneOfNccls) {
  int version = 0;
  OK(ncclGetVersion(&version));
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  EXPECT_EQ(version, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  for (int result = 0; result < ncclNumResults; ++result)
    EXPECT_STRNE(ncclGetErrorString(static_cast<ncclResult_t>(result)), "unknown result code");
}

TEST(Nccl, CollectivesAreRight) {
  for (const int p : {1, 2, 3}) {
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{5000}}) {
      on_ranks(p, [&](ncclComm_t comm, int r) {
        const auto ranks = static_cast<std::size_t>(p), rank = static_cast<std::size_t>(r);
        std::vector<float> mine = values(r, n), all(n * ranks), out(n);
        OK(ncclAllReduce(mine.data(), out.data(), n, ncclFloat, ncclSum, comm, no_stream));
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], sum_at(p, i));

        OK(ncclAllGather(mine.data(), all.data(), n, ncclFloat, comm, no_stream));
        for (std::size_t i = 0; i < n * ranks; ++i)
          ASSERT_EQ(all[i], value_at(static_cast<int>(i / n), i % n));

        const std::vector<float> wide = values(r, n * ranks);
        OK(ncclReduceScatter(wide.data(), out.data(), n, ncclFloat, ncclSum, comm, no_stream));
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], sum_at(p, rank * n + i));

        OK(ncclAlltoAll(wide.data(), all.data(), n, ncclFloat, comm, no_stream));
        for (std::size_t i = 0; i < n * ranks; ++i)
          ASSERT_EQ(all[i], value_at(static_cast<int>(i / n), rank * n + i % n));

        for (int root = 0; root < p; ++root) {
          std::vector<float> data = mine;
          OK(ncclBcast(data.data(), n, ncclFloat, root, comm, no_stream));
          ASSERT_EQ(data, values(root, n));
          OK(ncclBroadcast(mine.data(), out.data(), n, ncclFloat, root, comm, no_stream));
          ASSERT_EQ(out, values(root, n));
          OK(ncclReduce(mine.data(), r == root ? out.data() : nullptr, n, ncclFloat, ncclSum, root,
                        comm, no_stream));
          for (std::size_t i = 0; r == root && i < n; ++i) ASSERT_EQ(out[i], sum_at(p, i));
          OK(ncclGather(mine.data(), r == root ? all.data() : nullptr, n, ncclFloat, root, comm,
                        no_stream));
          for (std::size_t i = 0; r == root && i < n * ranks; ++i)
            ASSERT_EQ(all[i], value_at(static_cast<int>(i / n), i % n));
          OK(ncclScatter(r == root ? wide.data() : nullptr, out.data(), n, ncclFloat, root, comm,
                         no_stream));
          for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], value_at(root, rank * n + i));
        }
      });
    }
  }
}

TEST(Nccl, InPlaceIsByPointers) {
  on_ranks(3, [](ncclComm_t comm, int r) {
    constexpr std::size_t n = 100;
    std::vector<float> all(3 * n);
    float* const own = all.data() + static_cast<std::size_t>(r) * n;
    const auto mine = values(r, n);
    std::copy(mine.begin(), mine.end(), own);
    OK(ncclAllGather(own, all.data(), n, ncclFloat, comm, no_stream));
    for (std::size_t i = 0; i < 3 * n; ++i)
      ASSERT_EQ(all[i], value_at(static_cast<int>(i / n), i % n));
    const auto whole = values(r, 3 * n);
    std::copy(whole.begin(), whole.end(), all.begin());
    OK(ncclReduceScatter(all.data(), own, n, ncclFloat, ncclSum, comm, no_stream));
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_EQ(own[i], sum_at(3, static_cast<std::size_t>(r) * n + i));
  });
}

TEST(Nccl, EveryTypeAndOperation) {
  const std::array<std::size_t, ncclNumTypes> sizes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  on_ranks(2, [&](ncclComm_t comm, int) {
    for (int type = 0; type < ncclNumTypes; ++type)
      for (int op = 0; op < ncclNumOps; ++op) {
        // Zeros are the same in every type, and the sum, product, least, greatest and mean of
        // zeros.
        std::vector<unsigned char> data(64 * sizes[static_cast<std::size_t>(type)], 0), out(data);
        out[0] = 1;
        OK(ncclAllReduce(data.data(), out.data(), 64, static_cast<ncclDataType_t>(type),
                         static_cast<ncclRedOp_t>(op), comm, no_stream));
        ASSERT_EQ(out, data) << type << ' ' << op;
      }
    EXPECT_EQ(ncclAllReduce(&sizes, nullptr, 1, ncclNumTypes, ncclSum, comm, no_stream),
              ncclInvalidArgument);
    EXPECT_EQ(
        ncclAllReduce(&sizes, nullptr, 1, ncclFloat, static_cast<ncclRedOp_t>(77), comm, no_stream),
        ncclInvalidArgument);
  });
}

TEST(Nccl, SumsOfScaledInputs) {
  on_ranks(2, [](ncclComm_t comm, int r) {
    ncclRedOp_t scaled;
    double factor = r + 0.5;
    OK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclDouble, ncclScalarHostImmediate, comm));
    std::vector<double> data{1, 2, 3};
    OK(ncclAllReduce(data.data(), data.data(), 3, ncclDouble, scaled, comm, no_stream));
    EXPECT_EQ(data, (std::vector<double>{2, 4, 6}));

    ncclRedOp_t later;
    OK(ncclRedOpCreatePreMulSum(&later, &factor, ncclDouble, ncclScalarDevice, comm));
    factor = 10;
    data = {1, 2, 3};
    OK(ncclAllReduce(data.data(), data.data(), 3, ncclDouble, later, comm, no_stream));
    EXPECT_EQ(data, (std::vector<double>{20, 40, 60}));

    // 0.5 in the small types.
    const std::uint16_t half = 0x3800, bfloat = 0x3f00;
    const std::uint8_t e4m3 = 0x30, e5m2 = 0x38;
    for (const auto& [scalar, type] : {std::pair<const void*, ncclDataType_t>{&half, ncclHalf},
                                       {&bfloat, ncclBfloat16},
                                       {&e4m3, ncclFloat8e4m3},
                                       {&e5m2, ncclFloat8e5m2}}) {
      ncclRedOp_t small;
      OK(ncclRedOpCreatePreMulSum(&small, const_cast<void*>(scalar), type, ncclScalarHostImmediate,
                                  comm));
      data = {4, 6};
      OK(ncclAllReduce(data.data(), data.data(), 2, ncclDouble, small, comm, no_stream));
      EXPECT_EQ(data, (std::vector<double>{4, 6})) << type;
      OK(ncclRedOpDestroy(small, comm));
    }
    OK(ncclRedOpDestroy(scaled, comm));
    EXPECT_EQ(ncclRedOpDestroy(scaled, comm), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 2, ncclDouble, scaled, comm, no_stream),
              ncclInvalidArgument);
  });
}

TEST(Nccl, MessagesOfAGroupCannotDeadlock) {
  on_ranks(3, [](ncclComm_t comm, int r) {
    for (const std::size_t n : {std::size_t{0}, std::size_t{3}, std::size_t{100'000}}) {
      const auto mine = values(r, n);
      std::vector<std::vector<float>> received(3, std::vector<float>(n));
      OK(ncclGroupStart());
      for (int peer = 0; peer < 3; ++peer) {
        OK(ncclSend(mine.data(), n, ncclFloat, peer, comm, no_stream));
        OK(ncclRecv(received[static_cast<std::size_t>(peer)].data(), n, ncclFloat, peer, comm,
                    no_stream));
      }
      OK(ncclGroupEnd());
      for (int peer = 0; peer < 3; ++peer)
        ASSERT_EQ(received[static_cast<std::size_t>(peer)], values(peer, n));
    }
    EXPECT_EQ(ncclSend(nullptr, 0, ncclFloat, 3, comm, no_stream), ncclInvalidArgument);
    EXPECT_NE(std::string{ncclGetLastError(comm)}.find("ranks are 0 to 2"), std::string::npos);
  });
}

TEST(Nccl, OneThreadDrivesAllRanksByGroups) {
  constexpr int p = 3;
  constexpr std::size_t n = 1000;
  std::array<ncclComm_t, p> comms{};
  const std::array<int, p> devices = {4, 2, 7};
  OK(ncclCommInitAll(comms.data(), p, devices.data()));
  std::vector<std::vector<float>> in, out(p, std::vector<float>(n));
  for (int r = 0; r < p; ++r) {
    int size = 0, rank = -1, device = -1;
    OK(ncclCommCount(comms[static_cast<std::size_t>(r)], &size));
    OK(ncclCommUserRank(comms[static_cast<std::size_t>(r)], &rank));
    OK(ncclCommCuDevice(comms[static_cast<std::size_t>(r)], &device));
    EXPECT_EQ(size, p);
    EXPECT_EQ(rank, r);
    EXPECT_EQ(device, devices[static_cast<std::size_t>(r)]);
    in.push_back(values(r, n));
  }
  OK(ncclGroupStart());
  for (std::size_t r = 0; r < p; ++r)
    OK(ncclAllReduce(in[r].data(), out[r].data(), n, ncclFloat, ncclSum, comms[r], no_stream));
  EXPECT_EQ(out[0][1], 0) << "nothing happens before the end of the group";
  OK(ncclGroupEnd());
  for (const auto& result : out)
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(result[i], sum_at(p, i));
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
}

TEST(Nccl, CommunicatorsAreMadeInAGroupToo) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::array<ncclComm_t, 2> comms{}, halves{};
  OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r) OK(ncclCommInitRank(&comms[static_cast<std::size_t>(r)], 2, id, r));
  EXPECT_EQ(comms[0], nullptr) << "written at the end of the group only";
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  OK(ncclCommSplit(comms[0], 5, 1, &halves[0], nullptr));
  OK(ncclCommSplit(comms[1], NCCL_SPLIT_NOCOLOR, 0, &halves[1], nullptr));
  OK(ncclGroupEnd());
  int size = 0;
  OK(ncclCommCount(halves[0], &size));
  EXPECT_EQ(size, 1);
  EXPECT_EQ(halves[1], nullptr);
  for (ncclComm_t comm : {halves[0], comms[0], comms[1]}) OK(ncclCommDestroy(comm));
}

TEST(Nccl, CommunicatorsThatDoNotBlockSayWhenTheyAreReady) {
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
      for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
        OK(ncclCommGetAsyncError(comm, &state));
        for (ncclComm_t other : comms) {  // all ranks of this thread move on
          ncclResult_t ignored;
          OK(ncclCommGetAsyncError(other, &ignored));
        }
        ASSERT_TRUE(state == ncclSuccess || state == ncclInProgress) << ncclGetLastError(comm);
      }
  };
  settle();
  std::array<float, 2> data = {1, 2};
  for (std::size_t r = 0; r < 2; ++r)
    ASSERT_EQ(ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclSum, comms[r], no_stream),
              ncclInProgress);
  settle();
  EXPECT_EQ(data, (std::array<float, 2>{3, 3}));
  for (ncclComm_t comm : comms) OK(ncclCommFinalize(comm));
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comms[0], no_stream),
            ncclInvalidArgument);
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
}

TEST(Nccl, AnAbortEndsWhatWaits) {
  on_ranks(1, [](ncclComm_t, int) {});
  std::array<ncclComm_t, 2> comms{};
  OK(ncclCommInitAll(comms.data(), 2, nullptr));
  std::atomic<ncclResult_t> waited{ncclInProgress};
  std::thread waits([&] {
    float data = 1;
    waited = ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comms[0], no_stream);
  });
  OK(ncclCommAbort(comms[1]));
  waits.join();
  EXPECT_EQ(waited, ncclRemoteError);
  EXPECT_NE(std::string{ncclGetLastError(nullptr)}.find("ncclCommAbort"), std::string::npos);
  ncclResult_t state = ncclSuccess;
  OK(ncclCommGetAsyncError(comms[0], &state));
  EXPECT_EQ(state, ncclRemoteError);
  OK(ncclCommDestroy(comms[0]));
}

TEST(Nccl, AnAbortOfTheOwnCommunicatorEndsItsCallOnAnotherThread) {
  std::array<ncclComm_t, 2> comms{};
  OK(ncclCommInitAll(comms.data(), 2, nullptr));
  std::atomic<bool> started = false;
  std::thread waits([&] {
    float data = 1;
    started = true;
    EXPECT_NE(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comms[0], no_stream), ncclSuccess);
  });
  while (!started) std::this_thread::yield();
  OK(ncclCommAbort(comms[0]));  // frees it, too: the call holds what it needs
  waits.join();
  OK(ncclCommDestroy(comms[1]));
}

TEST(Nccl, WrongUseIsAnError) {
  float data = 0;
  std::array<ncclComm_t, 1> comms{};
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(comms.data(), 1, id, 1), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(comms.data(), 0, nullptr), ncclInvalidArgument);
  ncclConfig_t config{};
  EXPECT_EQ(ncclCommInitRankConfig(comms.data(), 1, id, 0, &config), ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.netName = "Carrier pigeon";
  EXPECT_EQ(ncclCommInitRankConfig(comms.data(), 1, id, 0, &config), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, nullptr, no_stream),
            ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);

  OK(ncclCommInitAll(comms.data(), 1, nullptr));
  const ncclComm_t comm = comms[0];
  EXPECT_EQ(ncclAllReduce(&data, nullptr, 1, ncclFloat, ncclSum, comm, no_stream),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comm,
                          reinterpret_cast<cudaStream_t>(&data)),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(comm, nullptr), ncclInvalidArgument);
  OK(ncclCommDestroy(comm));
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument) << "twice";
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comm, no_stream),
            ncclInvalidArgument);
}

TEST(Nccl, DifferentCallsAreNamed) {
  on_ranks(2, [](ncclComm_t comm, int r) {
    std::vector<float> data(8);
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), r == 0 ? 4 : 8, ncclFloat, ncclSum, comm,
                            no_stream),
              ncclInvalidUsage);
    EXPECT_NE(std::string{ncclGetLastError(comm)}.find("4 x f32"), std::string::npos);
  });
}

TEST(Nccl, WhatIsNotServedSaysWhy) {
  EXPECT_EQ(ncclCommSuspend(nullptr, 0), ncclInvalidUsage);
  EXPECT_NE(std::string{ncclGetLastError(nullptr)}.find("ncclCommSuspend"), std::string::npos);
}

TEST(Nccl, MemoryIsInWholePages) {
  void* memory = nullptr;
  OK(ncclMemAlloc(&memory, 100));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0U);
  std::array<ncclComm_t, 1> comms{};
  OK(ncclCommInitAll(comms.data(), 1, nullptr));
  void* handle = nullptr;
  ncclWindow_t window = reinterpret_cast<ncclWindow_t>(&handle);
  OK(ncclCommRegister(comms[0], memory, 100, &handle));
  OK(ncclCommWindowRegister(comms[0], memory, 100, &window, NCCL_WIN_COLL_SYMMETRIC));
  EXPECT_EQ(window, nullptr);
  OK(ncclCommWindowDeregister(comms[0], window));
  OK(ncclCommDeregister(comms[0], handle));
  OK(ncclCommDestroy(comms[0]));
  OK(ncclMemFree(memory));
  EXPECT_EQ(ncclMemAlloc(&memory, SIZE_MAX), ncclSystemError);
}

}  // namespace
