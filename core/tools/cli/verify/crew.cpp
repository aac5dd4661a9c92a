// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/verify/crew.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace capstan::cli {

Crew::Crew(std::span<const ProofCell> cells, int threads) : cells_(cells), endings_(cells.size()) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { prove_cells(); });
}

Crew::~Crew() {
  begun_ = cells_.size();
}

void Crew::prove_cells() {
  for (std::size_t i = begun_++; i < cells_.size(); i = begun_++) {
    Ending ending;
    try {
      ending.result = prove(cells_[i]);
    } catch (...) {
      ending.error = std::current_exception();
    }
    const std::lock_guard lock{mutex_};
    endings_[i] = std::move(ending);
    done_ += cells_[i].work;
    ended_.notify_one();
  }
}

CellResult Crew::next(const Watch& watch) {
  constexpr std::chrono::milliseconds between_looks{100};
  std::unique_lock lock{mutex_};
  std::optional<Ending>& ending = endings_[taken_];
  while (!ended_.wait_for(lock, between_looks, [&] { return ending.has_value(); })) {
    const double done = done_;
    lock.unlock();
    watch(done, cells_[std::min(begun_.load(), cells_.size()) - 1]);
    lock.lock();
  }
  ++taken_;
  const Ending taken = std::move(*std::exchange(ending, std::nullopt));
  if (taken.error) std::rethrow_exception(taken.error);
  return taken.result;
}

}  // namespace capstan::cli
