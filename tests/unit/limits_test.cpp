// SPDX-License-Identifier: Apache-2.0

// Which limit is behind an error.

#include "core/platform/net/limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The error of a child that may have `most` of a resource and starts a thread.
std::string error_of_a_thread(__rlimit_resource resource, std::uint64_t most) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  if (::fork() == 0) {
    const rlimit limit{most, most};
    ::setrlimit(resource, &limit);
    std::string text = "started";
    try {
      std::thread{[] {}}.join();
    } catch (const std::system_error& error) {
      try {
        refuse_thread("a test", error);
      } catch (const SystemError& told) {
        text = told.what();
      }
    }
    static_cast<void>(!::write(ends[1], text.data(), text.size()));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text(4000, '\0');
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  ::wait(nullptr);
  return text.substr(0, got < 0 ? 0 : static_cast<std::size_t>(got));
}

std::uint64_t address_space() {
  std::ifstream file{"/proc/self/statm"};
  std::uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(LimitOfThreads, IsTheAddressSpaceWhereNoStackFits) {
  const std::string text = error_of_a_thread(RLIMIT_AS, address_space() + (1 << 20));
  EXPECT_THAT(text, HasSubstr("RLIMIT_AS"));
  EXPECT_THAT(text, HasSubstr("ulimit -v"));
  EXPECT_THAT(text, Not(HasSubstr("RLIMIT_NPROC")));
}

TEST(LimitOfThreads, IsThatOfTheUserElsewhere) {
  EXPECT_THAT(limit_of_threads(), HasSubstr("RLIMIT_NPROC"));
}

}  // namespace
}  // namespace capstan
