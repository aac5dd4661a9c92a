// How near an all-reduce over shared memory comes to what the machine allows, measured in one run
// on the same pinned processes, in turns:
//
//   small   8 bytes through the public API, against a bare exchange of flags between the same cores
//   large   64 MiB per rank, against reading every input and writing every output once, at the
//           bandwidth with which all cores together copy past the cache
//
// Usage: bounds_bench [RANKS] [ROUNDS]

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "core/base/statistics.hpp"
#include "core/communicator.hpp"
#include "kernels/cpu/reduce.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

constexpr int most_ranks = 64;
constexpr int small_calls = 5000;
constexpr std::size_t large_bytes = 64 << 20;

struct alignas(64) Line {
  std::atomic<std::uint64_t> value;
};

/// What the ranks share besides the communicator: flags[writer][reader], each in its own line.
struct Shared {
  Line flags[most_ranks][most_ranks];
};

template <class T>
T* map(std::size_t bytes, int flags) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw SystemError("not enough memory for the benchmark");
  return static_cast<T*>(memory);
}

float* large_buffer(float value) {
  auto* memory = map<float>(large_bytes, MAP_PRIVATE);
  ::madvise(memory, large_bytes, MADV_HUGEPAGE);
  std::fill_n(memory, large_bytes / sizeof(float), value);
  return memory;
}

class Bench {
 public:
  Bench(Communicator& world, Shared& shared) : world_(world), shared_(shared) {}

  void run(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      flags_.push_back(slowest([&] { exchange_flags(); }) / small_calls);
      small_.push_back(slowest([&] { reduce_small(); }) / small_calls);
    }
    for (int i = 0; i < rounds; ++i) {
      copy_.push_back(slowest([&] { kernels::copy(output_, input_, large_bytes, true); }));
      large_.push_back(slowest([&] {
        world_.all_reduce(std::span<const float>{input_, large_bytes / sizeof(float)},
                          std::span{output_, large_bytes / sizeof(float)}, ReduceOp::max);
      }));
    }
    if (world_.rank() == 0) report(rounds);
  }

 private:
  /// Microseconds that the slowest rank took.
  template <class Work>
  double slowest(Work work) {
    double time = 0;
    world_.all_reduce(std::span{&time, 1});  // start together
    const auto start = std::chrono::steady_clock::now();
    work();
    time =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    world_.all_reduce(std::span{&time, 1}, ReduceOp::max);
    return time;
  }

  void exchange_flags() {
    const int self = world_.rank(), ranks = world_.size();
    for (int i = 0; i < small_calls; ++i) {
      ++sequence_;
      for (int d = 1; d < ranks; ++d)
        shared_.flags[self][(self + d) % ranks].value.store(sequence_, std::memory_order_release);
      for (int d = 1; d < ranks; ++d)
        while (shared_.flags[(self + d) % ranks][self].value.load(std::memory_order_acquire) <
               sequence_) {
        }
    }
  }

  void reduce_small() {
    float values[2] = {1, 2};
    for (int i = 0; i < small_calls; ++i) world_.all_reduce(std::span{values}, ReduceOp::max);
  }

  void report(int rounds) {
    const Statistics flags{flags_}, small{small_}, copy{copy_}, large{large_};
    const double gigabytes = world_.size() * large_bytes / copy.median() / 1e3;
    fmt::print("{} ranks, {} rounds, medians (least; quartile distance)\n", world_.size(), rounds);
    const auto line = [](const char* what, const Statistics& times, double scale,
                         const char* unit) {
      fmt::print("  {:<34} {:>9.3f} {} ({:.3f}; {:.0f} %)\n", what, times.median() / scale, unit,
                 times.least() / scale, 100 * times.spread());
    };
    line("bare flag exchange", flags, 1, "us");
    line("all_reduce of 8 bytes", small, 1, "us");
    fmt::print("  -> {:.2f} times the bare exchange\n", small.median() / flags.median());
    line("copy of 64 MiB on every core", copy, 1e3, "ms");
    line("all_reduce of 64 MiB", large, 1e3, "ms");
    fmt::print("  -> {:.0f} % of the memory bound ({:.1f} GB/s copied by all)\n",
               100 * copy.median() / large.median(), gigabytes);
  }

  Communicator& world_;
  Shared& shared_;
  float* const input_ = large_buffer(1);
  float* const output_ = large_buffer(0);
  std::uint64_t sequence_ = 0;
  std::vector<double> flags_, small_, copy_, large_;  // microseconds, by round
};

int run_rank(const UniqueId& id, int rank, int ranks, const CpuSet& place, Shared& shared,
             int rounds) {
  try {
    bind_this_thread(place);
    Communicator world = Communicator::join(id, rank, ranks);
    Bench{world, shared}.run(rounds);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}

int run(int ranks, int rounds) {
  const Machine machine = Machine::discover();
  if (ranks == 0) ranks = static_cast<int>(machine.cores().size());
  if (ranks < 2 || ranks > most_ranks) {
    fmt::print(stderr, "bounds_bench: {} ranks; choose from 2 to {}\n", ranks, most_ranks);
    return 2;
  }
  if (rounds < 1) {
    fmt::print(stderr, "bounds_bench: {} rounds; choose 1 at least\n", rounds);
    return 2;
  }
  auto& shared = *map<Shared>(sizeof(Shared), MAP_SHARED);
  const auto places = place_ranks(machine, ranks);
  const UniqueId id = create_unique_id();
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0)
      ::_exit(run_rank(id, rank, ranks, places[static_cast<std::size_t>(rank)], shared, rounds));
    children.push_back(pid);
  }
  int status = run_rank(id, 0, ranks, places.front(), shared, rounds);
  for (const pid_t child : children) {
    int ended = 0;
    ::waitpid(child, &ended, 0);
    if (ended != 0) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  return capstan::run(argc > 1 ? std::atoi(argv[1]) : 0, argc > 2 ? std::atoi(argv[2]) : 15);
}
