// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "bindings/nccl/nccl.h"

#define OK(call) ASSERT_EQ(call, ncclSuccess) << #call << ": " << ncclGetLastError(nullptr)

namespace capstan {

inline constexpr cudaStream_t no_stream = nullptr;

/// Makes a communicator of so many ranks, and runs `body` on a thread for each.
inline void on_ranks(int ranks, const std::function<void(ncclComm_t, int)>& body) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      OK(ncclCommInitRank(&comm, ranks, id, rank));
      body(comm, rank);
      OK(ncclCommDestroy(comm));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace capstan
