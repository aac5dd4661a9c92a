// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/platform/net/job_key.hpp"
#include "transports/transport.hpp"

namespace capstan::conformance {

/// Bounds every wait of a test: a wait that lasts longer is a failure, not a slow machine.
inline constexpr std::chrono::seconds patience{100};
/// Ends a rank that hangs where it cannot check a deadline.
inline constexpr unsigned watchdog_seconds = 150;

/// The key of all worlds of tests, whose ranks make their transports by themselves.
inline JobKey test_key() {
  return {Secret::from_text("the secret of these tests"), Nonce{}};
}

template <class Condition>
void wait_until(Condition&& condition, std::string_view what) {
  const Deadline deadline = Deadline::in(patience);
  while (!condition()) {
    if (deadline.expired()) throw std::runtime_error(fmt::format("gave up waiting for {}", what));
    std::this_thread::yield();
  }
}

/// Memory that the ranks of a test share beside the transport under test, threads and forked
/// processes alike: to exchange addresses and to start and finish together.
class SharedScores {
 public:
  static constexpr std::size_t most_ranks = 64;
  static constexpr std::size_t slot_bytes = 4096;

  SharedScores() {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the scores");
    shared_ = new (memory) Shared;
  }
  SharedScores(const SharedScores&) = delete;
  SharedScores& operator=(const SharedScores&) = delete;
  ~SharedScores() { ::munmap(shared_, sizeof(Shared)); }

  /// Returns when `parties` callers have arrived.
  void meet(int parties) {
    const auto size = static_cast<std::uint64_t>(parties);
    const std::uint64_t ticket = shared_->arrived.fetch_add(1, std::memory_order_acq_rel);
    const std::uint64_t everybody = (ticket / size + 1) * size;
    wait_until([&] { return shared_->arrived.load(std::memory_order_acquire) >= everybody; },
               "the other ranks");
  }

  void post(Rank rank, const Address& address) {
    if (address.size() > slot_bytes - sizeof(std::size_t)) throw std::length_error("address");
    Slot& slot = shared_->slots[static_cast<std::size_t>(rank.value())];
    slot.size = address.size();
    std::ranges::copy(address, slot.bytes);
  }
  Address read(Rank rank) const {
    const Slot& slot = shared_->slots[static_cast<std::size_t>(rank.value())];
    return {slot.bytes, slot.bytes + slot.size};
  }

 private:
  struct Slot {
    std::size_t size;
    std::byte bytes[slot_bytes - sizeof(std::size_t)];
  };
  struct Shared {
    std::atomic<std::uint64_t> arrived{0};
    Slot slots[most_ranks];
  };
  Shared* shared_;
};

/// One rank, as the body of a test uses it.
class Member {
 public:
  /// `shared`: a segment that another transport uses, too; for transports that are not mapped.
  using Maker =
      std::function<std::unique_ptr<Transport>(const Member&, Bytes segment, std::byte* shared)>;

  Member(Rank self, int ranks, SharedScores& scores, const Maker& maker)
      : self_(self), ranks_(ranks), staging_(&scores), maker_(&maker) {}

  Rank self() const { return self_; }
  int id() const { return self_.value(); }
  int ranks() const { return ranks_; }
  std::vector<Rank> peers() const {
    std::vector<Rank> result;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank != id()) result.emplace_back(rank);
    }
    return result;
  }

  /// These are called by all ranks together.
  void meet() const { staging_->meet(ranks_); }
  std::unique_ptr<Transport> make(Bytes segment, std::byte* shared = nullptr) const {
    return (*maker_)(*this, segment, shared);
  }
  std::vector<Address> exchange(const Address& own) const {
    staging_->post(self_, own);
    meet();
    std::vector<Address> result;
    for (int rank = 0; rank < ranks_; ++rank) result.push_back(staging_->read(Rank{rank}));
    meet();
    return result;
  }
  std::unique_ptr<Transport> connected(Bytes segment) const {
    std::unique_ptr<Transport> transport = make(segment);
    transport->connect(exchange(transport->address()), Deadline::in(patience));
    return transport;
  }

 private:
  Rank self_;
  int ranks_;
  SharedScores* staging_;
  const Maker* maker_;
};

/// Binds the calling rank to a core of its own, as far as there are enough, so that ranks really
/// run at the same time.
inline void pin_to_core(const Member& member) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) == 0) return;
  int skip = member.id() % CPU_COUNT(&allowed);
  int core = 0;
  while (!CPU_ISSET(core, &allowed) || skip-- > 0) ++core;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(core, &own);
  ::sched_setaffinity(0, sizeof(own), &own);
}

using Body = std::function<void(const Member&)>;

/// A kind of ranks, and the transport between them.
struct World {
  std::string name;
  bool processes;
  std::function<Member::Maker()> new_maker;  // one per run
  bool mirrored = false;                     // links are not mapped: a wake sends what was pushed
  bool lazy = false;                         // connect() waits for nobody
  std::string missing{};                     // why it cannot be had on this machine

  /// Runs `body` once per rank; its failed assertions and exceptions fail the test.
  void run(int ranks, const Body& body) const;
};

/// Skips tests of a world that this machine cannot have.
class WorldTest : public testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    if (!GetParam().missing.empty()) GTEST_SKIP() << GetParam().missing;
  }
};

/// Reports an exception of `body` as a failure of the test.
inline void guarded(const Member& member, const Body& body) {
  try {
    body(member);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << member.id() << ": " << error.what();
  }
}

/// The number of failed assertions of the current test. A forked process begins with its parent's.
inline int failed_assertions() {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  int failed = 0;
  for (int i = 0; i < result.total_part_count(); ++i)
    failed += result.GetTestPartResult(i).failed() ? 1 : 0;
  return failed;
}

/// Starts `body` in a forked process that ends with it, with status 0 if no assertion in it failed.
/// It dies with its parent, and by its watchdog if it hangs. Call it before any thread exists.
inline pid_t fork_body(const std::function<void()>& body) {
  const pid_t parent = ::getpid();
  const int failed_before = failed_assertions();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;

  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::alarm(watchdog_seconds);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // where googletest reports
  body();
  std::fflush(nullptr);
  ::_exit(failed_assertions() > failed_before ? 1 : 0);
}

/// The status of waitpid(2) with which `child` has ended.
inline int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

inline std::string describe_status(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

/// Runs `body` in a process of its own.
inline void run_alone(const std::function<void()>& body) {
  const int status = status_of(fork_body([&] {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }));
  EXPECT_EQ(status, 0) << describe_status(status);
}

/// Like World::run for processes, but returns the status of each rank.
inline std::vector<int> run_processes(int ranks, const Member::Maker& maker, const Body& body) {
  SharedScores scores;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(fork_body([&] { guarded(Member(Rank{rank}, ranks, scores, maker), body); }));
  }
  std::vector<int> statuses;
  for (const pid_t child : children) statuses.push_back(child > 0 ? status_of(child) : -1);
  return statuses;
}

inline void run_threads(int ranks, const Member::Maker& maker, const Body& body) {
  SharedScores scores;
  ::alarm(watchdog_seconds);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] { guarded(Member(Rank{rank}, ranks, scores, maker), body); });
    }
  }
  ::alarm(0);
}

inline void World::run(int ranks, const Body& body) const {
  const Member::Maker maker = new_maker();
  if (!processes) return run_threads(ranks, maker, body);
  const std::vector<int> statuses = run_processes(ranks, maker, body);
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank << ": " << describe_status(statuses[rank]);
  }
}

}  // namespace capstan::conformance
