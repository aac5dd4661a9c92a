// SPDX-License-Identifier: Apache-2.0

// Exports for other programs: traces, JSON lines, Prometheus.

#include "capstan/observe/exports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::chrono::steady_clock::time_point moment{1h};

/// Two ranks, one of which has two communicators; names that formats have to escape.
Profiler recorded() {
  Profiler profiler;
  const auto add = [&](int rank, const char* tag, std::chrono::nanoseconds after, bool failed) {
    profiler.record({.operation = "all\"reduce\n",
                     .bytes = Bytes{1 << 20},
                     .began = moment + after,
                     .ended = moment + after + 2ms,
                     .ranks = 2,
                     .algorithm = "ring\xff",
                     .rank = rank,
                     .tag = tag,
                     .failed = failed});
  };
  add(0, "world", 1ms, false);
  add(1, "world", 1500us, false);
  add(1, "pair", 5ms, true);
  return profiler;
}

TEST(Exports, ATraceHasRanksAsProcessesTagsAsThreadsAndOneClock) {
  const json trace = json::parse(to_trace(recorded().profiles()));
  std::vector<json> complete;
  std::set<std::string> names;
  for (const json& event : trace.at("traceEvents")) {
    ASSERT_TRUE(event.at("pid").is_number_integer() && event.at("tid").is_number_integer());
    if (event.at("ph") == "X") complete.push_back(event);
    if (event.at("ph") == "M") names.insert(event.at("args").at("name"));
  }
  EXPECT_EQ(names, (std::set<std::string>{"rank 0", "rank 1", "world", "pair"}));
  ASSERT_EQ(complete.size(), 3U);
  EXPECT_EQ(complete[0].at("name"), "all\"reduce\n");
  EXPECT_EQ(complete[0].at("ts"), 0.0);
  EXPECT_EQ(complete[0].at("dur"), 2000.0);
  EXPECT_EQ(complete[1].at("ts"), 500.0);
  EXPECT_EQ(complete[1].at("pid"), 1);
  EXPECT_NE(complete[1].at("tid"), complete[2].at("tid"));
  EXPECT_EQ(complete[2].at("cat"), "failed");
  EXPECT_EQ(complete[0].at("args").at("bytes"), 1 << 20);
  EXPECT_EQ(complete[0].at("args").at("MiB/s"), 500.0);
}

TEST(Exports, ATraceOfNothingIsATrace) {
  EXPECT_TRUE(json::parse(to_trace({})).at("traceEvents").empty());
  EXPECT_EQ(to_json_lines({}), "");
}

TEST(Exports, JsonLinesHaveEveryMember) {
  const auto profiles = recorded().profiles();
  std::istringstream lines{to_json_lines(profiles)};
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json each = json::parse(line);
    EXPECT_EQ(each.at("operation"), profiles[count].operation);
    EXPECT_EQ(each.at("duration_ns"), 2'000'000);
    EXPECT_EQ(each.at("ended_ns").get<std::int64_t>() - each.at("began_ns").get<std::int64_t>(),
              2'000'000);
    EXPECT_EQ(each.at("rank"), profiles[count].rank);
    EXPECT_EQ(each.at("tag"), profiles[count].tag);
    EXPECT_EQ(each.at("failed"), profiles[count].failed);
    EXPECT_EQ(each.at("index"), count);
  }
  EXPECT_EQ(count, 3U);
}

/// A name in /dev/shm that goes with the test.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& ending)
      : name("/dev/shm/capstan-" + std::to_string(::getpid()) + ending) {}
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(name.c_str()); }
  const std::string name;
};

TEST(RecordingFile, IsReadWhileItIsWritten) {
  const TemporaryFile file{".running"};
  Profiler profiler{ProfilerOptions{.capacity = 100, .file = file.name}};
  EXPECT_TRUE(read_profiles(file.name).empty());
  std::atomic<bool> done = false;
  std::jthread writer{[&] {
    for (int i = 0; i < 20000; ++i)
      profiler.record({.operation = i % 2 == 0 ? "even" : "odd",
                       .bytes = Bytes{static_cast<std::uint64_t>(i)}});
    done = true;
  }};
  while (!done)
    for (const OperationProfile& each : read_profiles(file.name))
      ASSERT_EQ(each.operation, each.bytes.value() % 2 == 0 ? "even" : "odd");
  writer.join();
  const auto profiles = read_profiles(file.name);
  ASSERT_EQ(profiles.size(), 100U);
  EXPECT_EQ(profiles.back().bytes, Bytes{19999});
  EXPECT_EQ(profiles.front().index, 19900U);
  profiler.clear();
  EXPECT_TRUE(read_profiles(file.name).empty());
}

TEST(RecordingFile, IsReadAfterACrash) {
  const TemporaryFile file{".crashed"};
  const pid_t child = ::fork();
  if (child == 0) {
    Profiler profiler{ProfilerOptions{.file = file.name}};
    profiler.record({.operation = "last words", .bytes = Bytes{5}, .rank = 3});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto profiles = read_profiles(file.name);
  ASSERT_EQ(profiles.size(), 1U);
  EXPECT_EQ(profiles.front().operation, "last words");
  EXPECT_EQ(profiles.front().rank, 3);
  EXPECT_THAT(to_trace(profiles), HasSubstr("rank 3"));
}

TEST(RecordingFile, BadFilesAreRefused) {
  const TemporaryFile file{".bad"};
  EXPECT_THROW((void)read_profiles(file.name), SystemError);
  EXPECT_THROW(Profiler(ProfilerOptions{.file = "/proc/no/such/folder/file"}), SystemError);
  std::ofstream{file.name} << "capstan1 and nothing else";
  EXPECT_THROW((void)read_profiles(file.name), InvalidArgument);
  {
    const Profiler replaces{ProfilerOptions{.capacity = 2, .file = file.name}};
    EXPECT_TRUE(read_profiles(file.name).empty());
  }
  std::filesystem::resize_file(file.name, 5000);
  EXPECT_THROW((void)read_profiles(file.name), InvalidArgument);
}

TEST(Exports, PrometheusGetsCountersAndASummary) {
  Profiler profiler;
  for (int i = 1; i <= 4; ++i)
    profiler.record({.operation = "a\"b\\c\nd",
                     .bytes = Bytes{100},
                     .began = moment,
                     .ended = moment + std::chrono::seconds{i},
                     .algorithm = "ring",
                     .failed = i == 4});
  const std::string labels = R"({operation="a\"b\\c\nd",algorithm="ring")";
  EXPECT_EQ(to_prometheus(profiler),
            "# HELP capstan_operations_total Operations that have succeeded.\n"
            "# TYPE capstan_operations_total counter\n"
            "capstan_operations_total" +
                labels +
                "} 3\n"
                "# HELP capstan_operation_failures_total Operations that have failed.\n"
                "# TYPE capstan_operation_failures_total counter\n"
                "capstan_operation_failures_total" +
                labels +
                "} 1\n"
                "# HELP capstan_operation_bytes_total Bytes of operations that have succeeded.\n"
                "# TYPE capstan_operation_bytes_total counter\n"
                "capstan_operation_bytes_total" +
                labels +
                "} 300\n"
                "# HELP capstan_operation_seconds Time of operations that have succeeded.\n"
                "# TYPE capstan_operation_seconds summary\n"
                "capstan_operation_seconds" +
                labels +
                ",quantile=\"0.5\"} 2\n"
                "capstan_operation_seconds" +
                labels +
                ",quantile=\"0.9\"} 3\n"
                "capstan_operation_seconds" +
                labels +
                ",quantile=\"0.99\"} 3\n"
                "capstan_operation_seconds_sum" +
                labels +
                "} 6\n"
                "capstan_operation_seconds_count" +
                labels + "} 3\n");
}

}  // namespace
}  // namespace capstan
