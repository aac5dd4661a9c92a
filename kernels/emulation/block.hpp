// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace capstan::kernels::device {

/// The position of a thread.
struct EmulatedPlace {
  unsigned thread, threads, block, blocks;
};

/// Where a number of threads meet, again and again.
class EmulatedBarrier {
 public:
  explicit EmulatedBarrier(unsigned threads) : threads_(threads) {}
  void meet() {
    std::unique_lock lock{mutex_};
    const std::uint64_t now = rounds_;
    if (++here_ == threads_) {
      here_ = 0;
      ++rounds_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return rounds_ != now; });
  }

 private:
  const unsigned threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned here_ = 0;
  std::uint64_t rounds_ = 0;
};

/// The state that the threads of a block share.
class EmulatedBlock {
 public:
  EmulatedBlock(unsigned threads, unsigned warp) : all_(threads), values_(threads) {
    for (unsigned first = 0; first < threads; first += warp)
      warps_.push_back(std::make_unique<EmulatedBarrier>(warp));
  }

  void meet() { all_.meet(); }
  /// Gives a value to the warp, and takes that of another thread of it.
  template <class Word>
  Word exchange(unsigned thread, unsigned warp, Word value, unsigned lane) {
    EmulatedBarrier& barrier = *warps_[thread / warp];
    std::memcpy(&values_[thread], &value, sizeof value);
    barrier.meet();
    Word taken;
    std::memcpy(&taken, &values_[thread / warp * warp + lane], sizeof taken);
    barrier.meet();
    return taken;
  }

 private:
  EmulatedBarrier all_;
  std::vector<std::unique_ptr<EmulatedBarrier>> warps_;
  std::vector<std::uint64_t> values_;
};

}  // namespace capstan::kernels::device
