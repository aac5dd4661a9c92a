// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/tools/cli/verify/cell.hpp"

namespace capstan::cli {

/// Threads that prove cells. Results come in the order of the cells, whichever ends first.
class Crew {
 public:
  /// Is told the work that is done, and the cell that was begun last.
  using Watch = std::function<void(double done, const ProofCell& begun)>;

  /// The cells must outlive the crew.
  Crew(std::span<const ProofCell> cells, int threads);
  /// Waits for the proofs that are under way; no other is begun.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// The result of the next cell. Throws what its proof has thrown. `watch` is called several times
  /// a second while the result is not there.
  CellResult next(const Watch& watch);

 private:
  struct Ending {
    CellResult result{};
    std::exception_ptr error{};
  };

  void prove_cells();

  const std::span<const ProofCell> cells_;
  std::atomic<std::size_t> begun_ = 0;
  std::size_t taken_ = 0;
  std::mutex mutex_;  // of the next three
  std::condition_variable ended_;
  std::vector<std::optional<Ending>> endings_;  // by cell
  double done_ = 0;
  std::vector<std::jthread> threads_;  // the last member: they use all others
};

}  // namespace capstan::cli
