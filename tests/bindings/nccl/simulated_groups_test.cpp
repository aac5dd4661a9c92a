// SPDX-License-Identifier: Apache-2.0

// Groups of NCCL's calls that are predicted and not run.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/bindings/nccl/ranks.hpp"

namespace {

using capstan::no_stream;
using capstan::on_ranks;

/// The predicted time of a group of calls, in microseconds.
template <class Calls>
float simulated(Calls calls) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  calls();
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
  return info.estimatedTime;
}

TEST(Nccl, ASimulatedGroupIsPredictedAndNotRun) {
  on_ranks(2, [](ncclComm_t comm, int r) {
    std::vector<float> data(1 << 20, 1), out(data.size(), 7);
    const auto reduce = [&](std::size_t count) {
      OK(ncclAllReduce(data.data(), out.data(), count, ncclFloat, ncclSum, comm, no_stream));
    };
    const float small = simulated([&] { reduce(2); });
    const float large = simulated([&] { reduce(data.size()); });
    const float both = simulated([&] { reduce(2), reduce(data.size()); });
    EXPECT_GT(small, 0);
    EXPECT_GT(large, 10 * small);
    EXPECT_NEAR(both, small + large, 0.01F * large) << "one after the other";
    const float message = simulated([&] {
      const auto result = r == 0 ? ncclSend(data.data(), data.size(), ncclFloat, 1, comm, no_stream)
                                 : ncclRecv(out.data(), data.size(), ncclFloat, 0, comm, no_stream);
      OK(result);
    });
    EXPECT_GT(message, small);
    EXPECT_EQ(simulated([] {}), 0);
    EXPECT_EQ(out[0], 7) << "nothing ran";
    reduce(data.size());
    EXPECT_EQ(out[0], 2) << "the communicator serves as before";
  });
}

TEST(Nccl, OnlyTheOutermostGroupIsSimulated) {
  on_ranks(2, [](ncclComm_t comm, int) {
    float value = 1;
    ncclSimInfo_t inner = NCCL_SIM_INFO_INITIALIZER;
    const float outer = simulated([&] {
      OK(ncclGroupStart());
      OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, no_stream));
      OK(ncclGroupSimulateEnd(&inner));
    });
    EXPECT_EQ(inner.estimatedTime, NCCL_UNDEF_FLOAT);
    EXPECT_GT(outer, 0);
    EXPECT_EQ(value, 1);
  });
}

TEST(Nccl, SimulationNeedsAGroupAndItsInformation) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage) << "no group";
  info.magic = 0;
  for (ncclSimInfo_t* const wrong : {&info, static_cast<ncclSimInfo_t*>(nullptr)}) {
    OK(ncclGroupStart());
    EXPECT_EQ(ncclGroupSimulateEnd(wrong), ncclInvalidArgument);
    EXPECT_NE(std::string{ncclGetLastError(nullptr)}.find("NCCL_SIM_INFO_INITIALIZER"),
              std::string::npos);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the group has ended";
}

}  // namespace
