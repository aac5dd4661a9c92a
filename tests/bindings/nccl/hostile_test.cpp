// SPDX-License-Identifier: Apache-2.0

// Wrong use, peers that do not come, and communicators that go in any order: an error in bounded
// time, never a hang or a crash. And communicators that shrink and grow.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bindings/nccl/nccl.h"

namespace {

#define OK(call) ASSERT_EQ(call, ncclSuccess) << #call << ": " << ncclGetLastError(nullptr)

constexpr cudaStream_t no_stream = nullptr;

/// A setting of Capstan, for one test.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }

 private:
  const char* name_;
};

/// Runs `body` on a thread for each of `ranks` numbers.
void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

ncclComm_t joined(const ncclUniqueId& id, int rank, int ranks) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
  return comm;
}

/// All ranks of `comm` add 2 to the power of their rank.
void expect_sum(ncclComm_t comm, float expected) {
  int rank = -1;
  OK(ncclCommUserRank(comm, &rank));
  float sum = static_cast<float>(1 << rank);
  OK(ncclAllReduce(&sum, &sum, 1, ncclFloat, ncclSum, comm, no_stream));
  EXPECT_EQ(sum, expected);
}

TEST(NcclHostile, ARankThatNeverJoinsIsAnErrorForTheOthers) {
  const Setting limit{"CAPSTAN_JOIN_TIMEOUT", "1"};
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 3, id, rank), ncclSystemError);
    EXPECT_EQ(comm, nullptr);
    EXPECT_NE(std::string{ncclGetLastError(nullptr)}.find('2'), std::string::npos) << "names it";
  });
}

TEST(NcclHostile, ACommunicatorThatIsBeingMadeMayBeAbortedOrDestroyed) {
  const Setting limit{"CAPSTAN_JOIN_TIMEOUT", "1"};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (const auto end : {ncclCommAbort, ncclCommDestroy}) {
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
    float data = 0;
    EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comm, no_stream),
              ncclInvalidArgument);
    OK(end(comm));  // the other rank never comes
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclInvalidArgument) << "freed";
  }
}

TEST(NcclHostile, AnIdServesOnce) {
  const Setting limit{"CAPSTAN_JOIN_TIMEOUT", "1"};
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::array<ncclComm_t, 2> comms{};
  on_threads(2, [&](int rank) { comms[static_cast<std::size_t>(rank)] = joined(id, rank, 2); });
  on_threads(2, [&](int rank) {
    ncclComm_t again = nullptr;
    const ncclResult_t result = ncclCommInitRank(&again, 2, id, rank);
    EXPECT_TRUE(result == ncclSystemError || result == ncclInvalidArgument) << result;
    EXPECT_EQ(again, nullptr);
  });
  on_threads(2, [&](int rank) { expect_sum(comms[static_cast<std::size_t>(rank)], 3); });
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
  ncclUniqueId zeros{};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, zeros, 0), ncclInvalidArgument);
}

TEST(NcclHostile, TheSameRankTwiceIsAnError) {
  const Setting limit{"CAPSTAN_JOIN_TIMEOUT", "1"};
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::atomic<int> errors = 0;
  on_threads(2, [&](int) {
    ncclComm_t comm = nullptr;
    errors += ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess;
  });
  EXPECT_EQ(errors, 2);
}

TEST(NcclHostile, CommunicatorsGoInAnyOrder) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::array<ncclComm_t, 3> comms{}, halves{};
  on_threads(3, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    comms[r] = joined(id, rank, 3);
    OK(ncclCommSplit(comms[r], rank == 2 ? 1 : 0, 0, &halves[r], nullptr));
    if (rank == 0) {
      OK(ncclCommDestroy(comms[r]));  // the parent first; others are not waited for
    }
  });
  on_threads(2, [&](int rank) { expect_sum(halves[static_cast<std::size_t>(rank)], 3); });
  for (ncclComm_t comm : {halves[1], comms[2], halves[2], halves[0], comms[1]})
    OK(ncclCommDestroy(comm));
}

TEST(NcclHostile, ARankThatLeavesIsNamedToThoseThatWait) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    ncclComm_t comm = joined(id, rank, 2);
    expect_sum(comm, 3);
    float data = 1;
    if (rank == 0) {
      EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comm, no_stream),
                ncclRemoteError);
      EXPECT_NE(std::string{ncclGetLastError(comm)}.find("rank 1"), std::string::npos);
    }
    OK(ncclCommDestroy(comm));
  });
}

TEST(NcclHostile, CallsOfACommunicatorByTwoThreadsDoNotHang) {
  std::array<ncclComm_t, 1> comms{};
  OK(ncclCommInitAll(comms.data(), 1, nullptr));
  on_threads(4, [&](int) {
    for (int call = 0; call < 100; ++call) expect_sum(comms[0], 1);
  });
  OK(ncclCommDestroy(comms[0]));
}

TEST(NcclMembership, SurvivorsShrinkACommunicator) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  on_threads(4, [&](int rank) {
    ncclComm_t comm = joined(id, rank, 4), rest = nullptr;
    std::array<int, 2> excluded = {0, 2};
    if (rank % 2 == 0) {  // who is excluded does not call
      EXPECT_EQ(ncclCommShrink(comm, excluded.data(), 2, &rest, nullptr, NCCL_SHRINK_DEFAULT),
                ncclInvalidArgument);
    } else {
      OK(ncclCommShrink(comm, excluded.data(), 2, &rest, nullptr, NCCL_SHRINK_DEFAULT));
      int size = 0, place = -1;
      OK(ncclCommCount(rest, &size));
      OK(ncclCommUserRank(rest, &place));
      EXPECT_EQ(size, 2);
      EXPECT_EQ(place, rank / 2);
      expect_sum(rest, 3);
    }
    expect_sum(comm, 15);  // the parent is as it was
    if (rank % 2 == 1) {
      OK(ncclCommDestroy(rest));
    }
    OK(ncclCommDestroy(comm));
  });
}

/// Rank 2 is gone, and the others wait for it in a call or have been told.
TEST(NcclMembership, SurvivorsOfAFailureGoOn) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  on_threads(4, [&](int rank) {
    ncclComm_t comm = joined(id, rank, 4), rest = nullptr;
    expect_sum(comm, 15);
    if (rank == 2) {
      OK(ncclCommDestroy(comm));
      return;
    }
    float value = 1;
    if (rank == 0)
      EXPECT_NE(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
    OK(ncclCommShrink(comm, nullptr, 0, &rest, nullptr, NCCL_SHRINK_ABORT));
    int size = 0;
    OK(ncclCommCount(rest, &size));
    EXPECT_EQ(size, 3);
    float sum = static_cast<float>(rank);
    OK(ncclAllReduce(&sum, &sum, 1, ncclFloat, ncclSum, rest, nullptr));
    EXPECT_EQ(sum, 4);
    OK(ncclCommDestroy(rest));
    ncclCommAbort(comm);
  });
}

TEST(NcclMembership, ShrinkingSaysWhatItCannot) {
  std::array<ncclComm_t, 1> comms{};
  OK(ncclCommInitAll(comms.data(), 1, nullptr));
  ncclComm_t made = nullptr;
  int other = 5;
  EXPECT_EQ(ncclCommShrink(comms[0], &other, 1, &made, nullptr, NCCL_SHRINK_DEFAULT),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommShrink(comms[0], nullptr, 0, &made, nullptr, 7), ncclInvalidArgument);
  OK(ncclCommDestroy(comms[0]));
}

TEST(NcclMembership, NewRanksJoinACommunicator) {
  ncclUniqueId id, for_new{};
  OK(ncclGetUniqueId(&id));
  std::atomic<bool> made = false;
  on_threads(4, [&](int rank) {
    ncclComm_t old = nullptr, all = nullptr;
    if (rank < 2) {
      old = joined(id, rank, 2);
      if (rank == 1) {  // any rank may have the id
        OK(ncclCommGetUniqueId(old, &for_new));
        made = true;
      }
      OK(ncclCommGrow(old, 4, rank == 1 ? &for_new : nullptr, -1, &all, nullptr));
      OK(ncclCommDestroy(old));
    } else {
      while (!made) std::this_thread::yield();
      OK(ncclCommGrow(nullptr, 4, &for_new, rank, &all, nullptr));
    }
    int place = -1;
    OK(ncclCommUserRank(all, &place));
    EXPECT_EQ(place, rank);
    expect_sum(all, 15);
    OK(ncclCommDestroy(all));
  });
}

TEST(NcclMembership, WrongWaysToGrowAreErrors) {
  std::array<ncclComm_t, 1> comms{};
  OK(ncclCommInitAll(comms.data(), 1, nullptr));
  ncclComm_t made = nullptr;
  EXPECT_EQ(ncclCommGrow(comms[0], 2, nullptr, -1, &made, nullptr), ncclInvalidArgument) << "no id";
  EXPECT_EQ(ncclCommGrow(comms[0], 2, nullptr, 0, &made, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(nullptr, 2, nullptr, 1, &made, nullptr), ncclInvalidArgument);
  EXPECT_EQ(made, nullptr);
  OK(ncclCommDestroy(comms[0]));
}

}  // namespace
