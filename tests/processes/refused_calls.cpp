// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/refused_calls.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <vector>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using enum CallPattern::When;

// Numbers that the headers of older systems lack.
constexpr std::uint32_t socket_option_peer_pidfd = 77, advice_collapse = 25,
                        advice_populate_write = 23, advice_populate_read = 22,
                        memfd_noexec_seal = 8;

constexpr std::array patterns{
    CallPattern{"pidfd_open", SYS_pidfd_open},
    CallPattern{"SO_PEERPIDFD", SYS_getsockopt, equal, 2, socket_option_peer_pidfd},
    CallPattern{"membarrier", SYS_membarrier},
    CallPattern{"userfaultfd", SYS_userfaultfd},
    CallPattern{"process_vm_readv", SYS_process_vm_readv},
    CallPattern{"process_vm_writev", SYS_process_vm_writev},
    CallPattern{"MFD_NOEXEC_SEAL", SYS_memfd_create, any_bit, 1, memfd_noexec_seal},
    CallPattern{"MADV_REMOVE", SYS_madvise, equal, 2, MADV_REMOVE},
    CallPattern{"MADV_HUGEPAGE", SYS_madvise, equal, 2, MADV_HUGEPAGE},
    CallPattern{"MADV_COLLAPSE", SYS_madvise, equal, 2, advice_collapse},
    CallPattern{"MADV_POPULATE_READ", SYS_madvise, equal, 2, advice_populate_read},
    CallPattern{"MADV_POPULATE_WRITE", SYS_madvise, equal, 2, advice_populate_write},
    CallPattern{"sched_setaffinity", SYS_sched_setaffinity},
    CallPattern{"mlock", SYS_mlock},
    CallPattern{"prctl", SYS_prctl},
    CallPattern{"close_range", SYS_close_range},
};

constexpr std::array needed{
    CallPattern{"memfd_create", SYS_memfd_create},
    CallPattern{"ftruncate", SYS_ftruncate},
    CallPattern{"fallocate", SYS_fallocate},
    CallPattern{"eventfd", SYS_eventfd2},
    CallPattern{"sendmsg", SYS_sendmsg},
    CallPattern{"recvmsg", SYS_recvmsg},
    CallPattern{"sendto", SYS_sendto},
    CallPattern{"recvfrom", SYS_recvfrom},
    CallPattern{"socket", SYS_socket},
    CallPattern{"connect", SYS_connect},
    CallPattern{"accept", SYS_accept4},
    CallPattern{"ppoll", SYS_ppoll},
    CallPattern{"epoll_ctl", SYS_epoll_ctl},
    CallPattern{"clone3", SYS_clone3},
    CallPattern{"openat", SYS_openat},
    CallPattern{"fcntl", SYS_fcntl},
    CallPattern{"futex", SYS_futex},
};

/// Ends in `action` if the call matches, else continues behind.
void append(std::vector<sock_filter>& program, const CallPattern& call, std::uint32_t action) {
  const bool looks_at_argument = call.when != always;
  const auto number = static_cast<std::uint32_t>(call.number);
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  const unsigned char rest = looks_at_argument ? 3 : 1;
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, rest));
  if (looks_at_argument) {
    const auto low_word =
        static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * call.argument);
    const std::uint16_t test = call.when == equal ? BPF_JEQ : BPF_JSET;
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_word));
    program.push_back({static_cast<std::uint16_t>(BPF_JMP | BPF_K | test), 0, 1, call.value});
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, action));
}

}  // namespace

std::span<const CallPattern> optional_calls() {
  return patterns;
}

std::span<const CallPattern> needed_calls() {
  return needed;
}

void filter_calls(std::span<const CallPattern> calls, std::uint32_t action) {
  std::vector<sock_filter> program;
  for (const CallPattern& call : calls) append(program, call, action);
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
    throw SystemError("seccomp is not to be had");
}

}  // namespace capstan
