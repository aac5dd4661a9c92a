// SPDX-License-Identifier: Apache-2.0

// librccl.so.1: a program for AMD's devices, whose ranks are threads, over a stand-in for HIP.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "bindings/nccl/nccl.h"
#include "tests/devices/device_array.hpp"

namespace capstan {
namespace {

constexpr int p = 3;

/// A function of the library, by the type of NCCL's declaration.
template <class Function>
Function* rccl(const char* name) {
  static void* const library = [] {
    load_driver();  // as a program of AMD's has HIP before
    return ::dlopen(RCCL, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }();
  EXPECT_NE(library, nullptr) << ::dlerror();
  return reinterpret_cast<Function*>(::dlsym(library, name));
}
#define CALL(NAME, ...)                                            \
  ASSERT_EQ(rccl<decltype(NAME)>(#NAME)(__VA_ARGS__), ncclSuccess) \
      << #NAME << ": " << rccl<decltype(ncclGetLastError)>("ncclGetLastError")(nullptr)

using AllToAllv = ncclResult_t(const void*, const size_t*, const size_t*, void*, const size_t*,
                               const size_t*, ncclDataType_t, ncclComm_t, cudaStream_t);

class Rccl : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("CAPSTAN_TIMEOUT", "60", 1); }

  static void on_ranks(const std::function<void(ncclComm_t, int)>& body) {
    ncclUniqueId id;
    CALL(ncclGetUniqueId, &id);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < p; ++rank)
      threads.emplace_back([&, rank] {
        ncclComm_t comm = nullptr;
        CALL(ncclCommInitRank, &comm, p, id, rank);
        body(comm, rank);
        CALL(ncclCommDestroy, comm);
      });
    for (std::thread& thread : threads) thread.join();
  }
  static cudaStream_t make_stream() {
    void* made = nullptr;
    EXPECT_EQ((driver_function<int(void**, unsigned)>("hipStreamCreateWithFlags")(&made, 1)), 0);
    return static_cast<cudaStream_t>(made);
  }
  static void wait_for(cudaStream_t stream) {
    EXPECT_EQ(driver_function<int(void*)>("fake_synchronize")(stream), 0);
  }
};

TEST_F(Rccl, CallsOnMemoryOfDevicesAreInTheOrderOfTheirStreams) {
  on_ranks([](ncclComm_t comm, int rank) {
    const DeviceArray<float> data{{static_cast<float>(rank), 1}};
    const cudaStream_t stream = make_stream();
    for (int round = 0; round < 3; ++round)
      CALL(ncclAllReduce, data.span().data(), data.span().data(), 2, ncclFloat, ncclSum, comm,
           stream);
    wait_for(stream);
    EXPECT_EQ(data.values(), (std::vector<float>{27, 27}));
  });
}

TEST_F(Rccl, ExchangesPartsOfAnyLength) {
  on_ranks([](ncclComm_t comm, int rank) {
    // Rank r sends r + 1 elements to each rank but the last one, and nothing to that.
    const auto own = static_cast<std::size_t>(rank) + 1;
    const std::vector<size_t> sent{own, own, 0}, from{0, own, 2 * own};
    std::vector<size_t> received{1, 2, 3}, to{0, 1, 3};
    if (rank == p - 1) received = {0, 0, 0};
    const DeviceArray<float> input{std::vector<float>(2 * own, static_cast<float>(rank))};
    const DeviceArray<float> output{std::vector<float>(6, -1)};
    const cudaStream_t stream = make_stream();
    ASSERT_EQ(rccl<AllToAllv>("ncclAllToAllv")(input.span().data(), sent.data(), from.data(),
                                               output.span().data(), received.data(), to.data(),
                                               ncclFloat, comm, stream),
              ncclSuccess);
    wait_for(stream);
    const std::vector<float> expected =
        rank == p - 1 ? std::vector<float>(6, -1) : std::vector<float>{0, 1, 1, 2, 2, 2};
    EXPECT_EQ(output.values(), expected);
  });
}

TEST_F(Rccl, MemoryIsTheDevices) {
  void* memory = nullptr;
  CALL(ncclMemAlloc, &memory, 4096);
  EXPECT_NE(driver_function<void*(const void*)>("fake_data")(memory), nullptr);
  CALL(ncclMemFree, memory);
  int version = 0;
  CALL(ncclGetVersion, &version);
  EXPECT_GE(version, 22000);
}

}  // namespace
}  // namespace capstan
