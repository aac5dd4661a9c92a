// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "capstan/backends/factory.hpp"

namespace capstan {

/// Makes the backend of one rank.
using MakeRank = std::function<std::unique_ptr<Backend>(int rank)>;

/// Runs `body(backend)` on one thread per rank; what it throws is a failure.
template <class Body>
void on_ranks(int ranks, const MakeRank& make, const Body& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto backend = make(rank);
        body(*backend);
        backend->close();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
}

/// A configuration that ends a test that would hang.
inline BackendConfig bounded(int ranks, int rank, std::string id) {
  BackendConfig config;
  config.world_size = ranks;
  config.rank = rank;
  config.unique_id = std::move(id);
  config.timeout = std::chrono::seconds{60};
  return config;
}

inline MakeRank mock_ranks(int ranks, const std::string& id) {
  return [=](int rank) { return create_backend("mock", bounded(ranks, rank, id)); };
}

}  // namespace capstan
