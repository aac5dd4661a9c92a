// SPDX-License-Identifier: Apache-2.0

// Descriptors of the library stay away from the program's standard streams.

#include "core/platform/net/file_descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/platform/net/poller.hpp"
#include "core/platform/net/wakeup.hpp"

namespace capstan {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

/// In a child, whose standard streams are closed: 0 if all is as it should be.
int without_standard_streams() {
  for (const int fd : {0, 1, 2}) ::close(fd);
  const Poller poller;
  const Wakeup wakeup;
  const FileDescriptor file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  const auto socket = FileDescriptor::not_in_children(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const int fd : {0, 1, 2})
    if (is_open(fd)) return 1;
  if (file.get() <= 2 || socket.get() <= 2) return 2;
  if ((::fcntl(file.get(), F_GETFD) & FD_CLOEXEC) == 0) return 3;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_open(socket.get()) ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 4;
}

TEST(FileDescriptor, IsNeverAStandardStream) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(without_standard_streams());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace capstan
