// SPDX-License-Identifier: Apache-2.0

// A rank's conversation with its launcher over PMI, against a launcher that follows a script.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/mpi_library.hpp"
#include "core/bootstrap/launchers/pmi.hpp"
#include "core/bootstrap/launchers/pmi_client.hpp"
#include "core/bootstrap/launchers/pmi_line.hpp"
#include "core/bootstrap/method.hpp"
#include "tests/bootstrap/bootstrap_helpers.hpp"

namespace capstan::pmi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A line that must come, and what is answered then.
struct Step {
  std::string expected;
  std::string answer;
};

const Step init{"cmd=init pmi_version=1 pmi_subversion=1",
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"};
const Step maxes{"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"};
const Step name{"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=job\n"};

/// The launcher; with its script it ends, or else when the rank has gone.
class Launcher {
 public:
  enum class End { with_the_rank, at_once };

  explicit Launcher(std::vector<Step> script, End how = End::with_the_rank) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    rank_ = FileDescriptor{ends[0]};
    thread_ = std::jthread{[end = FileDescriptor{ends[1]}, script = std::move(script), how] {
      for (const Step& step : script) {
        EXPECT_EQ(receive_line(end), step.expected);
        EXPECT_GE(::send(end.get(), step.answer.data(), step.answer.size(), MSG_NOSIGNAL), 0);
      }
      char byte = 0;
      if (how == End::with_the_rank) {
        EXPECT_LE(::recv(end.get(), &byte, 1, 0), 0) << "more than was expected";
      }
    }};
  }

  Client client(Deadline deadline = patience()) {
    return {std::move(rank_), Client::Start::new_conversation, deadline};
  }
  FileDescriptor rank_end() { return std::move(rank_); }

 private:
  static std::string receive_line(const FileDescriptor& end) {
    std::string line;
    for (char byte = 0; ::recv(end.get(), &byte, 1, 0) == 1 && byte != '\n';) line += byte;
    return line;
  }

  FileDescriptor rank_;
  std::jthread thread_;
};

TEST(PmiClient, PutsMeetsGetsAndTakesLeave) {
  Launcher launcher{{init,
                     maxes,
                     name,
                     {"cmd=put kvsname=job key=a value=7f", "cmd=put_result rc=0 msg=success\n"},
                     {"cmd=barrier_in", "cmd=barrier_out\n"},
                     {"cmd=get kvsname=job key=a", "cmd=get_result rc=0 msg=success value=7f\n"},
                     {"cmd=finalize", "cmd=finalize_ack\n"}}};
  Client client = launcher.client();
  client.put("a", "7f", patience());
  client.barrier(patience());
  EXPECT_EQ(client.get("a", patience()), "7f");
  client.take_leave(patience());
}

TEST(PmiClient, GoesOnWhereMpiHasBegun) {
  Launcher launcher{{maxes, name, {"cmd=barrier_in", "cmd=barrier_out rc=0\n"}}};
  Client client{launcher.rank_end(), Client::Start::another_has_said_init, patience()};
  client.barrier(patience());
}

TEST(PmiClient, AtAPortItIsToldItsPlace) {
  Launcher launcher{{{"cmd=initack pmiid=3",
                      "cmd=initack rc=0\ncmd=set size=8\ncmd=set rank=5\ncmd=set debug=0\n"},
                     init,
                     maxes,
                     name}};
  const Client client{launcher.rank_end(), 3, patience()};
  EXPECT_EQ(client.place(), std::pair(5, 8));
}

TEST(PmiClient, APlaceThatCannotBeIsRefused) {
  for (const char* place : {"cmd=set size=2\ncmd=set rank=2\n", "cmd=set size=0\ncmd=set rank=0\n",
                            "cmd=set size=2\ncmd=set rank=-1\n", "cmd=set rank=1\ncmd=set size=2\n",
                            "cmd=set size=99999999999\ncmd=set rank=1\n"}) {
    Launcher launcher{{{"cmd=initack pmiid=0", std::string{"cmd=initack rc=0\n"} + place}}};
    EXPECT_THROW((Client{launcher.rank_end(), 0, patience()}), BootstrapError) << place;
  }
}

/// The message when the launcher answers `answer` to get_my_kvsname.
std::string complaint_about(const std::string& answer) {
  Launcher launcher{{init, maxes, {"cmd=get_my_kvsname", answer}}, Launcher::End::at_once};
  return message_of<BootstrapError>([&] { launcher.client(); });
}

TEST(PmiClient, WhatIsNoAnswerIsAnErrorWithARemedy) {
  struct Case {
    std::string answer, why;
  };
  for (const auto& [answer, why] : std::vector<Case>{
           {"", "closed the connection"},
           {"cmd=my_kvsname kvsname=job", "closed the connection"},  // no newline, then the end
           {"\n", "it has no cmd"},
           {"nonsense\n", "not made of name=value"},
           {"cmd=my_kvsname =job\n", "not made of name=value"},
           {"cmd=my_kvsname kvsname=a kvsname=b\n", "says something twice"},
           {"cmd=my_kvsname cmd=maxes\n", "says something twice"},
           {"cmd=my_kvsname kvsname=\x1b[2J\n", "bytes that are no text"},
           {"cmd=my_kvsname\n", "does not say where the job's values are"},
           {"cmd=my_kvsname kvsname=\n", "does not say where the job's values are"},
           {"cmd=maxes vallen_max=7\n", "answers maxes instead of my_kvsname"},
           {"cmd=my_kvsname rc=-1 msg=no_such_job\n", "refuses get_my_kvsname: rc=-1, no_such_job"},
           {"cmd=my_kvsname rc=zero kvsname=job\n", "refuses get_my_kvsname: rc=zero"},
           {std::string(longest_line, 'x') + "\n", "no end"},
           {std::string(100'000, 'x'), "no end"}}) {
    EXPECT_THAT(complaint_about(answer),
                AllOf(HasSubstr(why), HasSubstr("CAPSTAN_STORE"), HasSubstr("get_my_kvsname"),
                      Not(HasSubstr("\x1b"))));
  }
}

TEST(PmiClient, ALimitOfValuesThatCannotBeIsRefused) {
  for (const char* answer : {"cmd=maxes vallen_max=0\n", "cmd=maxes\n", "cmd=maxes vallen_max=x\n",
                             "cmd=maxes vallen_max=99999999999999\n"}) {
    Launcher launcher{{init, {"cmd=get_maxes", answer}}};
    EXPECT_THAT(message_of<BootstrapError>([&] { launcher.client(); }),
                HasSubstr("how long a value may be"));
  }
}

TEST(PmiClient, AValueThatIsTooLongIsNotSent) {
  Launcher launcher{{init, {"cmd=get_maxes", "cmd=maxes vallen_max=4\n"}, name}};
  Client client = launcher.client();
  EXPECT_THAT(message_of<BootstrapError>([&] { client.put("a", "12345", patience()); }),
              HasSubstr("values of 4 bytes, 5 are needed"));
}

TEST(PmiClient, ARefusalDoesNotEndTheConversation) {
  Launcher launcher{{init,
                     maxes,
                     name,
                     {"cmd=get kvsname=job key=a", "cmd=get_result rc=-1 msg=key_a_not_found\n"},
                     {"cmd=barrier_in", "cmd=barrier_out\n"}}};
  Client client = launcher.client();
  EXPECT_THAT(message_of<BootstrapError>([&] { client.get("a", patience()); }),
              HasSubstr("key_a_not_found"));
  client.barrier(patience());
}

TEST(PmiClient, ALauncherThatIsSilentIsLeftInTime) {
  // It answers the first, and takes the rest as they come.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor launcher{ends[1]};
  const std::string first = init.answer + maxes.answer + name.answer + "cmd=barri";
  ASSERT_GT(::send(launcher.get(), first.data(), first.size(), 0), 0);
  Client client{FileDescriptor{ends[0]}, Client::Start::new_conversation, patience()};
  EXPECT_THAT(message_of<TimedOut>([&] { client.barrier(soon()); }),
              AllOf(HasSubstr("not all ranks"), HasSubstr("0.1 s"), HasSubstr("never started")));
  // A late answer must not count as the next one.
  EXPECT_THAT(message_of<BootstrapError>([&] { client.put("a", "1", patience()); }),
              HasSubstr("not all ranks"));
  const std::string late = "er_out\ncmd=finalize_ack\n";
  ASSERT_GT(::send(launcher.get(), late.data(), late.size(), 0), 0);
  EXPECT_NO_THROW(client.take_leave(patience())) << "also after an error";
}

TEST(PmiClient, AnAnswerMayComeInPieces) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::jthread launcher{[end = FileDescriptor{ends[1]}] {
    for (const char byte : init.answer + maxes.answer + name.answer) {
      EXPECT_EQ(::send(end.get(), &byte, 1, MSG_NOSIGNAL), 1);
      std::this_thread::yield();
    }
    char rest[1000];
    while (::recv(end.get(), rest, sizeof rest, 0) > 0) {
    }
  }};
  EXPECT_NO_THROW((Client{FileDescriptor{ends[0]}, Client::Start::new_conversation, patience()}));
}

TEST(PmiClient, ALauncherThatReadsNothingIsLeftInTime) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const FileDescriptor launcher{ends[1]};
  FileDescriptor rank{ends[0]};
  const std::string filler(100'000, 'x');
  while (::send(rank.get(), filler.data(), filler.size(), MSG_DONTWAIT) > 0) {
  }
  EXPECT_THAT(message_of<TimedOut>(
                  [&] { Client{std::move(rank), Client::Start::new_conversation, soon()}; }),
              HasSubstr("did not answer init within 0.1 s"));
}

TEST(PmiMessage, AnyTextTravelsWithoutBlanks) {
  const std::string text{"10.77.0.1:4711 a secret\n=\0\xff", 27};
  const std::string digits = to_hex(text);
  EXPECT_EQ(digits.find_first_not_of("0123456789abcdef"), digits.npos);
  EXPECT_EQ(from_hex(digits), text);
  for (const char* wrong : {"7", "7g", "xx", "7f 7"}) EXPECT_THROW(from_hex(wrong), BootstrapError);
}

Launch member(std::optional<Access> access, int local_size) {
  return {.rank = 1,
          .size = 4,
          .local_rank = 1,
          .local_size = local_size,
          .job = "test",
          .launcher = "MPICH",
          .pmi = std::move(access)};
}

TEST(Method, PmiIsForSeveralHostsUnlessItIsSet) {
  const Access access{.descriptor = 7};
  EXPECT_EQ(choose_method(member(access, 2), Bootstrap::automatic).method, Method::pmi);
  EXPECT_EQ(choose_method(member(access, 4), Bootstrap::automatic).method, Method::this_host);
  EXPECT_EQ(choose_method(member(access, 4), Bootstrap::pmi).method, Method::pmi);
  EXPECT_THAT(message_of<BootstrapError>([&] { choose_method(member(access, 2), Bootstrap::tcp); }),
              HasSubstr("let CAPSTAN_BOOTSTRAP be auto"));
  EXPECT_THAT(message_of<BootstrapError>([&] { choose_method(member({}, 4), Bootstrap::pmi); }),
              AllOf(HasSubstr("MPICH offers no PMI here"), HasSubstr("rank 1")));
}

TEST(Method, ADescriptorThatIsNotTheLaunchersIsNotSpokenTo) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor ours{ends[0]}, other{ends[1]};
  EXPECT_THAT(
      message_of<BootstrapError>([&] { get({.descriptor = ours.get()}, "key", patience()); }),
      HasSubstr("is no socket of the launcher's here"));
  char byte = 0;
  EXPECT_LT(::recv(other.get(), &byte, 1, MSG_DONTWAIT), 0) << "nothing was said";
}

/// As Python's modules load it. A library stays loaded: in a process of its own.
TEST(MpiLibrary, IsSeenThoughItIsNotAmongTheProgramsOwn) {
  EXPECT_EQ(mpi_library(), MpiLibrary::absent);
  EXPECT_EXIT(
      {
        // MPICH loads UCX, which by default overwrites functions that clang's sanitizers intercept.
        ::setenv("UCX_MEM_EVENTS", "no", 1);
        const bool there = ::dlopen("libmpich.so.12", RTLD_NOW | RTLD_LOCAL) ||
                           ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_LOCAL);
        ::_exit(!there || mpi_library() == MpiLibrary::loaded ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace capstan::pmi
