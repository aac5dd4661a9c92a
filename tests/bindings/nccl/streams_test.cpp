// SPDX-License-Identifier: Apache-2.0

// The stand-in for CUDA's run-time library, and NCCL's calls in its streams.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bindings/nccl/cudart/cuda_runtime.h"
#include "bindings/nccl/nccl.h"

namespace {

#define OK(call) ASSERT_EQ(call, ncclSuccess) << #call << ": " << ncclGetLastError(nullptr)
#define CUDA(call) ASSERT_EQ(call, cudaSuccess) << #call

/// A host function that waits until it is let go.
class Gate {
 public:
  static void wait(void* gate) { static_cast<Gate*>(gate)->open_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

void append(std::vector<int>& to, cudaStream_t stream, int number) {
  struct Item {
    std::vector<int>& to;
    int number;
  };
  CUDA(cudaLaunchHostFunc(
      stream,
      [](void* data) {
        const std::unique_ptr<Item> item{static_cast<Item*>(data)};
        item->to.push_back(item->number);
      },
      new Item{to, number}));
}

/// As many streams, each of the device with its number.
std::vector<cudaStream_t> streams_on_devices(int count) {
  std::vector<cudaStream_t> streams(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(cudaSetDevice(i), cudaSuccess);
    EXPECT_EQ(cudaStreamCreate(&streams[static_cast<std::size_t>(i)]), cudaSuccess);
  }
  return streams;
}

TEST(Cudart, DevicesAreAsManyAsTheProgramIsGiven) {
  int count = 0, device = -1, version = 0;
  CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 4);
  CUDA(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version, CUDART_VERSION);
  CUDA(cudaSetDevice(3));
  CUDA(cudaGetDevice(&device));
  EXPECT_EQ(device, 3);
  EXPECT_EQ(cudaSetDevice(4), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_NE(std::string{cudaGetErrorString(cudaErrorInvalidDevice)}.find("CAPSTAN_CUDA_DEVICES"),
            std::string::npos);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 1));
  EXPECT_GT(properties.totalGlobalMem, 0U);
  EXPECT_EQ(properties.unifiedAddressing, 1);
  std::array<char, 20> bus{};
  CUDA(cudaDeviceGetPCIBusId(bus.data(), bus.size(), 2));
  CUDA(cudaDeviceGetByPCIBusId(&device, bus.data()));
  EXPECT_EQ(device, 2);
  CUDA(cudaSetDevice(0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
}

TEST(Cudart, AStreamRunsInOrderAndBesideTheProgram) {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  Gate gate;
  std::vector<int> order;
  CUDA(cudaLaunchHostFunc(stream, Gate::wait, &gate));
  for (int i = 0; i < 5; ++i) append(order, stream, i);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "not an error";
  gate.open();
  CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  CUDA(cudaStreamQuery(stream));
  CUDA(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle) << "twice";
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

TEST(Cudart, AStreamThatIsDestroyedEndsItsWork) {
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  std::vector<int> order;
  CUDA(cudaLaunchHostFunc(stream, Gate::wait, &gate));
  append(order, stream, 1);
  CUDA(cudaStreamDestroy(stream));
  gate.open();
  CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(order, std::vector<int>{1});
}

TEST(Cudart, EventsOrderStreams) {
  cudaStream_t first, second;
  CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t event, end;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaEventCreate(&end));
  CUDA(cudaEventQuery(event));  // never recorded
  CUDA(cudaStreamWaitEvent(second, event, 0));
  Gate gate;
  std::vector<int> order;
  CUDA(cudaLaunchHostFunc(first, Gate::wait, &gate));
  append(order, first, 1);
  CUDA(cudaEventRecord(event, first));
  CUDA(cudaStreamWaitEvent(second, event, 0));
  append(order, second, 2);
  CUDA(cudaEventRecord(end, second));
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
  float elapsed = -1;
  EXPECT_EQ(cudaEventElapsedTime(&elapsed, event, end), cudaErrorNotReady);
  gate.open();
  CUDA(cudaEventSynchronize(end));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  CUDA(cudaEventElapsedTime(&elapsed, event, end));
  EXPECT_GE(elapsed, 0);
  CUDA(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventRecord(event, first), cudaErrorInvalidResourceHandle);
  for (cudaStream_t stream : {first, second}) CUDA(cudaStreamDestroy(stream));
}

TEST(Cudart, TheDefaultStreamAndBlockingStreamsWaitForEachOther) {
  cudaStream_t blocking, other;
  CUDA(cudaStreamCreate(&blocking));
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  Gate gate;
  std::vector<int> order;
  CUDA(cudaLaunchHostFunc(blocking, Gate::wait, &gate));
  append(order, blocking, 1);
  append(order, nullptr, 2);
  append(order, blocking, 3);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  CUDA(cudaStreamSynchronize(other)) << "does not wait for the default stream";
  gate.open();
  CUDA(cudaStreamSynchronize(nullptr));
  CUDA(cudaStreamSynchronize(blocking));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  std::vector<int> own;
  append(own, cudaStreamPerThread, 1);
  CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(own, std::vector<int>{1});
  for (cudaStream_t stream : {blocking, other}) CUDA(cudaStreamDestroy(stream));
}

TEST(Cudart, WhatRunsOnAStreamMayNotWaitForStreams) {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaError_t answer = cudaSuccess;
  CUDA(cudaLaunchHostFunc(
      stream, [](void* to) { *static_cast<cudaError_t*>(to) = cudaDeviceSynchronize(); }, &answer));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(answer, cudaErrorNotPermitted);
  CUDA(cudaStreamDestroy(stream));
}

TEST(Cudart, MemoryIsWrittenDown) {
  float* memory = nullptr;
  CUDA(cudaSetDevice(1));
  CUDA(cudaMalloc(&memory, 100 * sizeof(float)));
  CUDA(cudaSetDevice(0));
  cudaPointerAttributes attributes;
  CUDA(cudaPointerGetAttributes(&attributes, memory + 99));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 1);
  CUDA(cudaPointerGetAttributes(&attributes, &memory));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  std::array<float, 100> host{};
  CUDA(cudaHostRegister(host.data(), sizeof host, 0));
  CUDA(cudaPointerGetAttributes(&attributes, host.data()));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaFree(host.data()), cudaErrorInvalidValue) << "it is the program's";
  CUDA(cudaHostUnregister(host.data()));
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
  CUDA(cudaFree(memory));
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue) << "twice";
  CUDA(cudaFree(nullptr));
  void* none = &none;
  EXPECT_EQ(cudaMalloc(&none, SIZE_MAX / 2), cudaErrorMemoryAllocation);
  EXPECT_EQ(none, nullptr);
}

TEST(Cudart, CopiesReadPageableMemoryBeforeTheyReturn) {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  std::array<int, 50>* memory = nullptr;
  CUDA(cudaMalloc(&memory, sizeof *memory));
  std::array<int, 50> host;
  host.fill(7);
  Gate gate;
  CUDA(cudaLaunchHostFunc(stream, Gate::wait, &gate));
  CUDA(cudaMemsetAsync(memory, 0, sizeof *memory, stream));
  CUDA(cudaMemcpyAsync(memory, host.data(), sizeof host, cudaMemcpyHostToDevice, stream));
  host.fill(8);
  gate.open();
  std::array<int, 50> back{};
  CUDA(cudaMemcpyAsync(back.data(), memory, sizeof host, cudaMemcpyDeviceToHost, stream));
  for (const int value : back) EXPECT_EQ(value, 7);
  CUDA(cudaMemcpy(memory, host.data(), sizeof host, cudaMemcpyDefault));
  EXPECT_EQ((*memory)[49], 8);
  EXPECT_EQ(cudaMemcpy(memory, nullptr, 4, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(memory, host.data(), 4, static_cast<cudaMemcpyKind>(7)),
            cudaErrorInvalidMemcpyDirection);
  CUDA(cudaFreeAsync(memory, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamDestroy(stream));
}

/// A world of this process, one stream for each rank.
class Streams : public ::testing::Test {
 protected:
  static constexpr std::size_t p = 3;

  void SetUp() override {
    streams = streams_on_devices(p);
    OK(ncclCommInitAll(comms.data(), p, nullptr));
  }
  void TearDown() override {
    for (ncclComm_t comm : comms) {
      if (comm != nullptr) {
        OK(ncclCommDestroy(comm));
      }
    }
    for (cudaStream_t stream : streams) CUDA(cudaStreamDestroy(stream));
  }

  std::array<ncclComm_t, p> comms{};
  std::vector<cudaStream_t> streams;
};

TEST_F(Streams, ACallWaitsForItsStreamAndTheProgramDoesNot) {
  std::array<float, p> data{}, sums{};
  std::array<Gate, p> gates;
  OK(ncclGroupStart());
  for (std::size_t r = 0; r < p; ++r) {
    CUDA(cudaLaunchHostFunc(streams[r], Gate::wait, &gates[r]));
    OK(ncclAllReduce(&data[r], &sums[r], 1, ncclFloat, ncclSum, comms[r], streams[r]));
  }
  OK(ncclGroupEnd());
  EXPECT_EQ(cudaStreamQuery(streams[0]), cudaErrorNotReady);
  data = {1, 2, 4};  // the call reads what there is when its stream comes to it
  for (Gate& gate : gates) gate.open();
  for (cudaStream_t stream : streams) CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(sums, (std::array<float, p>{7, 7, 7}));
}

TEST_F(Streams, OneThreadQueuesRanksWithoutAGroup) {
  std::array<float, p> data = {1, 2, 4};
  for (int round = 0; round < 10; ++round)
    for (std::size_t r = 0; r < p; ++r)
      OK(ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclMax, comms[r], streams[r]));
  for (ncclComm_t comm : comms) OK(ncclCommFinalize(comm));  // waits for what is queued
  EXPECT_EQ(data, (std::array<float, p>{4, 4, 4}));
}

TEST_F(Streams, CallsOfACommunicatorKeepTheirOrderInSeveralStreams) {
  std::array<float, p> first = {1, 2, 4}, second = {10, 20, 40};
  const auto others = streams_on_devices(p);
  std::array<Gate, p> gates;
  for (std::size_t r = 0; r < p; ++r) {
    CUDA(cudaLaunchHostFunc(streams[r], Gate::wait, &gates[r]));
    OK(ncclAllReduce(&first[r], &first[r], 1, ncclFloat, ncclSum, comms[r], streams[r]));
    OK(ncclBroadcast(&second[r], &second[r], 1, ncclFloat, 2, comms[r], others[r]));
  }
  for (Gate& gate : gates) gate.open();
  for (cudaStream_t stream : others) CUDA(cudaStreamSynchronize(stream));
  for (cudaStream_t stream : streams) CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(first, (std::array<float, p>{7, 7, 7}));
  EXPECT_EQ(second, (std::array<float, p>{40, 40, 40}));
  for (cudaStream_t stream : others) CUDA(cudaStreamDestroy(stream));
}

TEST_F(Streams, AGroupOverSeveralStreamsOfARankHoldsThemAll) {
  std::array<float, p> data = {1, 2, 4}, from_left{};
  const auto others = streams_on_devices(p);
  std::array<Gate, p> gates;
  std::vector<int> order;
  OK(ncclGroupStart());
  for (std::size_t r = 0; r < p; ++r) {
    const auto right = static_cast<int>((r + 1) % p), left = static_cast<int>((r + p - 1) % p);
    CUDA(cudaLaunchHostFunc(others[r], Gate::wait, &gates[r]));
    OK(ncclSend(&data[r], 1, ncclFloat, right, comms[r], streams[r]));
    OK(ncclRecv(&from_left[r], 1, ncclFloat, left, comms[r], others[r]));
  }
  OK(ncclGroupEnd());
  append(order, others[0], 1);
  append(order, others[0], 2);
  EXPECT_EQ(cudaStreamQuery(streams[0]), cudaErrorNotReady) << "waits for the other stream, too";
  for (Gate& gate : gates) gate.open();
  for (cudaStream_t stream : others) CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(from_left, (std::array<float, p>{4, 1, 2}));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  for (cudaStream_t stream : others) CUDA(cudaStreamDestroy(stream));
}

TEST_F(Streams, AFailureIsToldByTheStreamAndByTheCommunicator) {
  std::vector<float> data(8);
  for (std::size_t r = 0; r < p; ++r)
    OK(ncclAllReduce(data.data(), data.data(), r == 0 ? 4 : 8, ncclFloat, ncclSum, comms[r],
                     streams[r]));
  for (std::size_t r = 0; r < p; ++r) {
    EXPECT_EQ(cudaStreamSynchronize(streams[r]), cudaErrorLaunchFailure) << r;
    EXPECT_EQ(cudaStreamSynchronize(streams[r]), cudaSuccess) << "told once";
    ncclResult_t state = ncclSuccess;
    OK(ncclCommGetAsyncError(comms[r], &state));
    EXPECT_EQ(state, ncclInvalidUsage);
    EXPECT_NE(std::string{ncclGetLastError(comms[r])}.find("4 x f32"), std::string::npos);
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 4, ncclFloat, ncclSum, comms[r], streams[r]),
              ncclInvalidUsage)
        << "of no use any more";
  }
}

TEST_F(Streams, AnAbortEndsWhatIsQueued) {
  float data = 1;
  for (int call = 0; call < 3; ++call)
    OK(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comms[0], streams[0]));
  OK(ncclCommAbort(comms[0]));
  comms[0] = nullptr;
  CUDA(cudaStreamSynchronize(streams[0])) << "who aborts needs not be told";
  EXPECT_NE(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comms[1], nullptr), ncclSuccess);
}

TEST_F(Streams, ACommunicatorThatIsDestroyedEndsWhatIsQueued) {
  std::array<float, p> data = {1, 2, 4};
  for (std::size_t r = 0; r < p; ++r) {
    OK(ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclSum, comms[r], streams[r]));
    OK(ncclCommDestroy(comms[r]));
    comms[r] = nullptr;
  }
  for (cudaStream_t stream : streams) CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(data, (std::array<float, p>{7, 7, 7}));
}

TEST_F(Streams, MemoryOfNcclIsADevices) {
  void* memory = nullptr;
  CUDA(cudaSetDevice(2));
  OK(ncclMemAlloc(&memory, 10'000));
  cudaPointerAttributes attributes;
  CUDA(cudaPointerGetAttributes(&attributes, memory));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 2);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0U);
  OK(ncclMemFree(memory));
  EXPECT_EQ(ncclMemFree(memory), ncclInvalidArgument);
}

}  // namespace
