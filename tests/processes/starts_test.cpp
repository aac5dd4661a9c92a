// SPDX-License-Identifier: Apache-2.0

// `capstan` under parents that leave it odd signals and streams: it ends, with the status that its
// ranks and results have.

#include "tests/processes/starts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/sanitizers.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

/// Each descriptor in each state, the others being usable, and all in one state.
std::vector<Start> starts() {
  std::vector<Start> all;
  for (const Signals signals : kinds_of_signals)
    for (const Stream stream : streams) {
      for (std::size_t fd = 0; fd < 3; ++fd) {
        Start start{.signals = signals};
        start.descriptors[fd] = stream;
        all.push_back(start);
      }
      all.push_back({{stream, stream, stream}, signals});
    }
  return all;
}

TEST(Starts, TheStatusIsThatOfTheRanks) {
  for (const Start& start : starts()) {
    EXPECT_EQ(outcome(start, run("exit 3")), 3) << describe(start);
    EXPECT_EQ(outcome(start, run("true")), 0) << describe(start);
    EXPECT_EQ(outcome(start, {"run", "-n", "1", "--", "/proc/no/such/program"}), 127)
        << describe(start);
  }
}

TEST(Starts, LostOutputOfRanksIsAFailure) {
  for (const Start& start : starts()) {
    const Stream output = start.descriptors[1];
    const int failed = outcome(start, run("echo a line >&2; echo a line; exit 3"));
    const int fine = outcome(start, run("echo a line >&2; echo a line"));
    constexpr int nobody_reads = 128 + SIGPIPE;
    if (output == Stream::unread) {
      EXPECT_TRUE(failed == 3 || failed == nobody_reads) << failed << " " << describe(start);
      EXPECT_EQ(fine, nobody_reads) << describe(start);
    } else {
      EXPECT_EQ(failed == 1 && output != Stream::usable ? 3 : failed, 3) << describe(start);
      EXPECT_EQ(fine, output == Stream::usable ? 0 : 1) << describe(start);
    }
  }
}

TEST(Starts, LostResultsAreAFailure) {
  const std::vector<Words> commands{{"export", "all_reduce", "--algorithm", "ring", "--ranks", "4"},
                                    {"simulate", "all_reduce", "-n", "16", "-b", "1k"},
                                    {"explain", "all_reduce", "--bytes", "1k", "--json"},
                                    {"topo", "--ranks", "2"},
                                    {"verify", "broadcast", "--ranks", "2"},
                                    {"perf", "barrier", "-n", "2", "--seconds", "0.01"},
                                    {"doctor"},
                                    {"--version"},
                                    {"run", "--help"}};
  for (const Words& command : commands)
    for (const Stream stream : streams) {
      const int status = outcome({{Stream::usable, stream, Stream::usable}}, command);
      const std::string what = fmt::format("{}: {}", fmt::join(command, " "), status);
      if (stream == Stream::usable)
        EXPECT_TRUE(status == 0 || command.front() == "doctor") << what;
      else if (stream == Stream::unread)
        EXPECT_TRUE(status == 1 || status == 128 + SIGPIPE) << what;
      else
        EXPECT_EQ(status, 1) << what;
    }
}

TEST(Starts, ErrorsThatNobodyCanReadKeepTheirStatus) {
  for (const Stream stream : {Stream::closed, Stream::full}) {
    const Start start{{Stream::usable, Stream::usable, stream}};
    EXPECT_EQ(outcome(start, {"no-such-command"}), 2);
    EXPECT_EQ(outcome(start, {"perf", "no_such_collective"}), 2);
    EXPECT_EQ(outcome(start, {"verify", "/proc/no/such/file.json"}), 2);
  }
}

/// A pipe whose reader does not read for now.
class StoppedReader {
 public:
  StoppedReader() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_ = ends[0], write_ = ends[1];
  }
  ~StoppedReader() { ::close(read_), ::close(write_); }
  StoppedReader(const StoppedReader&) = delete;

  int writable_end() const { return write_; }
  void wait_until_full() const {
    pollfd room{write_, POLLOUT, 0};
    for (int looks = 0; looks < 12000 && ::poll(&room, 1, 0) != 0; ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    EXPECT_EQ(::poll(&room, 1, 0), 0) << "nobody fills the pipe";
  }
  /// All that comes until writers have closed it.
  std::string read_on() {
    ::close(std::exchange(write_, -1));
    std::string text;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(read_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }

 private:
  int read_ = -1, write_ = -1;
};

constexpr std::array stopped_streams{std::array{Stream::usable, Stream::stopped, Stream::usable},
                                     std::array{Stream::usable, Stream::usable, Stream::stopped},
                                     std::array{Stream::usable, Stream::stopped, Stream::stopped}};

TEST(Starts, AReaderThatStopsKeepsNobodyFromEndingTheJob) {
  for (const auto& descriptors : stopped_streams)
    for (const char* script : {"yes >&2 & yes", "trap '' TERM; yes >&2 & yes",
                               "yes | head -c 100000 | tee /dev/stderr; exit 3"}) {
      const StoppedReader reader;
      const Start start{.descriptors = descriptors, .stopped = reader.writable_end()};
      const pid_t told = begin_capstan(start, run(script));
      reader.wait_until_full();
      ::kill(told, SIGTERM);
      const int status = status_of(told);
      EXPECT_TRUE(status == 128 + SIGTERM || (status == 3 && script[0] == 'y'))
          << status << ", " << script << ", " << describe(start);
    }
}

TEST(Starts, ATimeLimitHoldsWhereAReaderHasStopped) {
  for (const auto& descriptors : stopped_streams) {
    const StoppedReader reader;
    const Start start{.descriptors = descriptors, .stopped = reader.writable_end()};
    const Words job{"run", "-n", "2", "--timeout", "1", "--", "sh", "-c", "yes >&2 & yes"};
    EXPECT_EQ(outcome(start, job), 124) << describe(start);
  }
}

TEST(Starts, AReaderThatGoesOnGetsEveryLine) {
  StoppedReader reader;
  const Start start{{Stream::usable, Stream::stopped, Stream::usable}, {}, reader.writable_end()};
  const pid_t job = begin_capstan(start, run("seq 1 60000; exit 3"));
  reader.wait_until_full();
  const std::string text = reader.read_on();
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 * 60000);
  EXPECT_EQ(status_of(job), 3);
}

TEST(Starts, RanksBeginWithUsualSignalsAndOpenDescriptors) {
  const std::string script =
      "grep -qE '^SigBlk:\t0+$' /proc/self/status && "
      "[ $((0x$(sed -n 's/^SigIgn:\t//p' /proc/self/status) >> 16 & 1)) = 0 ] && "
      "for i in 0 1 2; do [ -e /proc/$$/fd/$i ] || exit 5; done";
  for (const Start& start : starts()) EXPECT_EQ(outcome(start, run(script)), 0) << describe(start);
}

/// A shell command that becomes `capstan` with these words.
int outcome_in_shell(const std::string& before, const std::string& words) {
  return status_of(begin({}, {"sh", "-c", before + " && exec " CAPSTAN_PROGRAM " " + words}));
}

/// Short results, which are written at the end, and long ones, whose prints fail.
TEST(Starts, LostResultsAreNamed) {
  const test::TemporaryFolder folder;
  const std::string errors = folder / "errors";
  for (const char* words :
       {"export all_reduce --algorithm ring --ranks 4", "export all_reduce --ranks 64",
        "simulate all_reduce -n 16 -b 1k", "explain all_reduce --bytes 1k --json", "topo --ranks 2",
        "topo --ranks 64", "verify broadcast --ranks 2", "perf barrier -n 2 --seconds 0.01",
        "doctor", "settings", "--version", "run --help", "help --man", "help --completion bash"})
    for (const char* output : {"/dev/full", "&-"}) {
      const auto to = fmt::format("exec >{} 2>{}", output, errors);
      EXPECT_EQ(outcome_in_shell(to, words), 1) << words;
      std::ostringstream said;
      said << std::ifstream{errors}.rdbuf();
      EXPECT_NE(said.str().find("written to standard output"), std::string::npos)
          << words << " >" << output << ": " << said.str();
    }
}

/// The signal of a limit of files ends nothing.
TEST(Starts, AResultBeyondTheLimitOfFilesIsLost) {
  const test::TemporaryFolder folder;
  const std::string limited = fmt::format("ulimit -f 0 && exec >{} 2>/dev/null", folder / "out");
  for (const std::string& words : std::vector<std::string>{
           "export all_reduce --algorithm ring --ranks 4", "export all_reduce --ranks 64",
           "export all_reduce --algorithm ring --ranks 4 -o " + (folder / "file.json"),
           "perf barrier -n 2 --seconds 0.01 --json=" + (folder / "file.json"), "settings"})
    EXPECT_EQ(outcome_in_shell(limited, words), 1) << words;
  EXPECT_NE(outcome_in_shell(limited, "run -n 2 -- echo a line"), 128 + SIGXFSZ);
  EXPECT_EQ(outcome_in_shell("ulimit -f 0", "run -n 1 -- sh -c 'exec 2>/dev/null; echo > " +
                                                (folder / "of_rank") + "'"),
            128 + SIGXFSZ)
      << "ranks begin with usual signals";
}

/// A limit of 64 KiB, as embedded systems and batch systems set it. Sanitizers need more.
TEST(Starts, SmallStacksAreEnough) {
  if (sanitized) GTEST_SKIP();
  const test::TemporaryFolder folder;
  for (const std::string& words : std::vector<std::string>{
           "run -n 2 -- seq 1 20000",
           "run --hosts localhost:2 --agent 'env HOST={host}' -- seq 1 20000",
           "perf all_reduce -n 2 --seconds 0.01", "topo --ranks 2", "doctor", "settings",
           "verify all_reduce --ranks 4", "export all_reduce --algorithm ring --ranks 4",
           "simulate all_reduce -n 16 -b 1k", "explain all_reduce --bytes 1k", "run --help", "ps",
           "calibrate -n 2 -o " + (folder / "calibrated.json"),
           "tune broadcast --sizes 8 -n 2 --seconds 0.01 --restart -o " +
               (folder / "profile.json")})
    EXPECT_LE(outcome_in_shell("ulimit -s 64 && exec >/dev/null", words), 1) << words;
}

TEST(Starts, AFolderThatIsGoneAndAMissingProcEndNoCommand) {
  const test::TemporaryFolder folder;
  const std::string gone = folder / "gone";
  const std::string in_no_folder = fmt::format("mkdir -p {0} && cd {0} && rmdir {0}", gone);
  const std::string no_proc = "mount -t tmpfs none /proc";
  // Sanitizers read /proc themselves.
  const bool may_mount =
      !sanitized && status_of(begin({}, {"unshare", "-m", "sh", "-c", no_proc})) == 0;
  const auto without_proc = [&](const std::string& words) {
    return status_of(begin(
        {}, {"unshare", "-m", "sh", "-c", no_proc + " && exec " CAPSTAN_PROGRAM " " + words}));
  };
  for (const char* words :
       {"topo --ranks 2", "simulate all_reduce -n 16 -b 1k", "explain all_reduce --bytes 1k",
        "verify broadcast --ranks 2", "export broadcast --algorithm flat --ranks 2", "--version",
        "run --help", "run -n 2 -- true", "run -n 2 -- " WORKER_PROGRAM " rank",
        "perf all_reduce -n 2 -b 8 -e 8 --seconds 0.01"}) {
    EXPECT_EQ(outcome_in_shell(in_no_folder, words), 0) << words;
    if (!may_mount) continue;
    EXPECT_EQ(without_proc(words), 0) << words;
  }
}

}  // namespace
}  // namespace capstan
