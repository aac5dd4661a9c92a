// SPDX-License-Identifier: Apache-2.0

// How NCCL's calls in streams of devices end otherwise: communicators that are destroyed and
// aborted, failures and refusals.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/nccl/device_streams.hpp"

namespace capstan {
namespace {

using namespace nccl_streams;

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
    stream.wait();  // continues
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_TRUE(state == ncclSystemError || state == ncclRemoteError) << state;
    EXPECT_EQ(ncclAllReduce(data.get(), data.get(), n, ncclFloat, ncclSum, comm, stream.get()),
              state);
  });
  driver_knob("fail_to_host", -driver_knob("fail_to_host"));
}

}  // namespace
}  // namespace capstan
