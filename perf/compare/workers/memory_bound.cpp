// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/workers/memory_bound.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan::perf {
namespace {

constexpr int most_ranks = 64, spins_before_yield = 4000;

struct alignas(64) Line {
  std::atomic<std::uint64_t> value;
};
struct Shared {
  Line flags[most_ranks][most_ranks];  // [writer][reader]
};

/// A memfd of rank 0 that the other ranks open through /proc; all belong to the same user.
class SharedFile {
 public:
  SharedFile(Store& store, bool owner) {
    constexpr const char* key = "bound/memory";
    if (owner) {
      file_ = FileDescriptor{::memfd_create("capstan-bound", MFD_CLOEXEC)};
      static_cast<void>(!::ftruncate(file_.get(), sizeof(Shared)));
      put_text(store, key, fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get()));
    } else {
      const auto path = get_text(store, key, Deadline::in(std::chrono::seconds{60}));
      file_ = FileDescriptor{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
    }
    memory_ = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (memory_ == MAP_FAILED) throw SystemError("the ranks of the bound share no memory");
  }
  ~SharedFile() { ::munmap(memory_, sizeof(Shared)); }
  SharedFile(const SharedFile&) = delete;

  Shared* operator->() const { return static_cast<Shared*>(memory_); }

 private:
  FileDescriptor file_;  // rank 0 keeps it open for ranks that join later
  void* memory_ = nullptr;
};

class MemoryBound : public Library {
 public:
  MemoryBound(const Launch& launch, Store& store) : launch_(launch), shared_(store, rank() == 0) {
    if (launch_.size > most_ranks)
      throw InvalidArgument("too many ranks for the bound: 64 at most");
  }

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  bool computes() const override { return false; }

  Call prepare(const Cell& cell, float* input, float* output) override {
    const BufferLengths own = cell.contract(size()).lengths(rank());
    const std::size_t elements = share_of(cell), bytes = elements * sizeof(float);
    const bool suffice = !cell.in_place && std::min(own.input, own.output) >= Elements{elements};
    source_.resize(suffice ? 0 : elements, 1.0f);
    target_.resize(source_.size());
    const float* from = suffice ? input : source_.data();
    float* to = suffice ? output : target_.data();
    const bool stream = streaming_wins(to, from, bytes);
    return [=, this] {
      barrier();
      if (bytes > 0) kernels::copy(to, from, bytes, stream);
    };
  }

  void barrier() override {
    const int self = rank(), ranks = size();
    ++sequence_;
    for (int d = 1; d < ranks; ++d)
      shared_->flags[self][(self + d) % ranks].value.store(sequence_, std::memory_order_release);
    for (int d = 1; d < ranks; ++d) {
      const auto& flag = shared_->flags[(self + d) % ranks][self].value;
      for (int spins = 0; flag.load(std::memory_order_acquire) < sequence_; ++spins)
        if (spins >= spins_before_yield) std::this_thread::yield();
    }
  }

 private:
  /// Half of the elements that a rank reads and writes on average: a copy reads and writes each.
  std::size_t share_of(const Cell& cell) const {
    const Contract contract = cell.contract(size());
    std::uint64_t read = 0, written = 0;
    for (int r = 0; r < size(); ++r) {
      read += contract.lengths(r).input.value();
      written += contract.lengths(r).output.value();
    }
    if (cell.collective == Collective::broadcast)  // the root's buffer is both
      written -= cell.shape.count.value();
    return (read + written) / (2 * static_cast<std::uint64_t>(size()));
  }

  static bool streaming_wins(void* to, const void* from, std::size_t bytes) {
    const auto time = [&](bool stream) {
      double best = 1e9;
      for (int i = 0; i < 4; ++i) {
        const auto start = std::chrono::steady_clock::now();
        kernels::copy(to, from, bytes, stream);
        best = std::min(
            best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      return best;
    };
    return bytes >= 65536 && time(true) < time(false);
  }

  const Launch launch_;
  const SharedFile shared_;
  std::uint64_t sequence_ = 0;
  std::vector<float> source_, target_;
};

}  // namespace

std::unique_ptr<Library> memory_bound(const Launch& launch, Store& store) {
  return std::make_unique<MemoryBound>(launch, store);
}

}  // namespace capstan::perf
