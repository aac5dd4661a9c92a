// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/sleeper.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "core/platform/net/system_call.hpp"
#include "core/platform/net/wait_readable.hpp"

namespace capstan::shm {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t awake = 0;
constexpr std::uint32_t asleep = 1;
constexpr std::chrono::nanoseconds longest_unfenced_sleep = 1ms;
static_assert(sizeof(Doorbell) == 4 && Doorbell::is_always_lock_free, "futexes are 4 bytes");

bool membarrier(int command) {
  return ::syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool register_wakers(Scope scope) {
  return membarrier(scope == Scope::process ? MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
                                            : MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

bool fence_wakers(Scope scope) {
  return membarrier(scope == Scope::process ? MEMBARRIER_CMD_PRIVATE_EXPEDITED
                                            : MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void futex(Doorbell& word, Scope scope, int operation, std::uint32_t value,
           const timespec* timeout) {
  const int flag = scope == Scope::process ? FUTEX_PRIVATE_FLAG : 0;
  ::syscall(SYS_futex, &word, operation | flag, value, timeout, nullptr, 0);
}

}  // namespace

FileDescriptor make_bell() {
  return FileDescriptor{checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")};
}

std::optional<std::string> unsafe_to_ring(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0 || (status.st_mode & S_IFMT) != 0)  // as of anonymous inodes
    return "it handed over a bell that is no event";
  if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) return "it handed over a bell that can block";
  return std::nullopt;
}

void ring_doorbell(Doorbell& doorbell, Scope scope, int bell) {
  // Release: what the waker published is visible to a sleeper that finds the word reset.
  if (doorbell.exchange(awake, std::memory_order_acq_rel) != asleep) return;
  if (bell >= 0) {
    ::eventfd_write(bell, 1);  // cannot overflow: the sleeper resets it at each sleep
  } else {
    futex(doorbell, scope, FUTEX_WAKE, 1, nullptr);
  }
}

Sleeper::Sleeper(Doorbell& doorbell, Scope scope, bool use_membarrier, int bell)
    : doorbell_(&doorbell),
      scope_(scope),
      bell_(bell),
      registered_(use_membarrier && register_wakers(scope)),
      fences_wakers_(registered_) {}

void Sleeper::prepare() {
  doorbell_->store(asleep, std::memory_order_seq_cst);
  if (fences_wakers_) fences_wakers_ = fence_wakers(scope_);
}

void Sleeper::sleep(std::chrono::nanoseconds at_most) {
  if (!fences_wakers_) at_most = std::min(at_most, longest_unfenced_sleep);
  if (at_most > 0ns) {
    if (bell_ >= 0) {
      wait_readable({bell_}, at_most);
    } else {
      const timespec timeout = to_timespec(at_most);
      futex(*doorbell_, scope_, FUTEX_WAIT, asleep, &timeout);
    }
  }
  cancel();
}

void Sleeper::cancel() {
  doorbell_->exchange(awake, std::memory_order_acq_rel);
  eventfd_t rings;
  if (bell_ >= 0) ::eventfd_read(bell_, &rings);  // a ring after this ends the next sleep early
}

}  // namespace capstan::shm
