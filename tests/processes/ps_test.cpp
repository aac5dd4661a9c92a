// SPDX-License-Identifier: Apache-2.0

// `capstan ps` beside jobs that hang.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/processes/hangs.hpp"
#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// A job that hangs.
struct Hang {
  std::string how;
  unsigned seed = 0;
  int ranks = 3, hosts = 1;
};

/// A job that has hung, as it was seen.
struct SeenHang {
  json job{};          ///< as `capstan ps` has it
  json reports{};      ///< by rank, of those that could give one
  double seconds = 0;  ///< that `capstan ps` took
};

/// Starts a job that hangs in this way, and ends it when `ps` names somebody who keeps it waiting.
/// Returns the job as ps has it then. Before it ends, `then` runs for its first $PROCESS.
SeenHang seen_of_job_that(const Hang& hang, const std::string& then = "true") {
  const std::string token = fmt::format("ps-{}-{}-{}", ::getpid(), hang.how, hang.seed);
  const test::TemporaryFolder folder;
  const std::string reports = folder / "reports";
  const std::string script =
      "\"$CAPSTAN\" run -n $RANKS --grace 0.1 -- \"$WORKER\" hang \"$HOW\" \"$TOKEN\" >/dev/null "
      "2>&1 & job=$!; "
      "for look in $(seq 60); do "
      "  seen=$(\"$CAPSTAN\" ps --json); "
      "  own=${seen#*\"$TOKEN\"}; "
      "  [ \"$own\" = \"$seen\" ] || case ${own%%\\\"verdict\\\"*} in *'\"culprits\": []'*) ;; *) "
      "break ;; "
      "esac; "
      "done; "
      "begin=$(date +%s%N); "
      "seen=$(\"$CAPSTAN\" ps --json); "  // the first look may have begun before the last rank came
      "end=$(date +%s%N); sleep $PATIENCE; touch \"$REPORTS\"; "
      "own=${seen#*\"$TOKEN\"}; own=${own#*'\"process\": '}; PROCESS=${own%%,*} bash -c \"$THEN\"; "
      "for look in $(seq 50); do "
      "  [ $(ls \"$REPORTS\".*[0-9] 2>/dev/null | wc -l) -ge $((RANKS - 1)) ] && break; sleep 0.1; "
      "done; "
      "kill -TERM $job; wait $job; echo \"$((end - begin)) $seen\"";
  const auto result =
      run_command({"bash", "-c", script}, {{"CAPSTAN", CAPSTAN_PROGRAM},
                                           {"WORKER", WORKER_PROGRAM},
                                           {"RANKS", fmt::to_string(hang.ranks)},
                                           {"HOW", fmt::format("{},{}", hang.how, hang.seed)},
                                           {"TOKEN", token},
                                           {"CAPSTAN_VIRTUAL_HOSTS", fmt::to_string(hang.hosts)},
                                           // Other hosts are told of waits that last.
                                           {"PATIENCE", hang.hosts > 1 ? "2" : "0"},
                                           {"REPORTS", reports},
                                           {"THEN", then}});
  const std::size_t begin = std::min(result.output.find('['), result.output.size());
  SeenHang seen{.seconds = std::atof(result.output.c_str()) / 1e9};
  for (const json& job : json::parse(result.output.substr(begin), nullptr, false))
    if (job.is_object() && job["command"].get<std::string>().find(token) != std::string::npos)
      seen.job = job;
  if (seen.job.is_null()) ADD_FAILURE() << hang.how << ": " << result.output;
  for (int rank = 0; rank < hang.ranks; ++rank) {
    std::ifstream file{fmt::format("{}.{}", reports, rank)};
    if (file) seen.reports[fmt::to_string(rank)] = json::parse(file, nullptr, false);
  }
  return seen;
}

class HangsSeenFromOutside : public ::testing::TestWithParam<std::pair<std::string, std::string>> {
};

/// A user may be kept from reading processes that are no children.
bool may_read_others() {
  int scope = 0;
  std::ifstream{"/proc/sys/kernel/yama/ptrace_scope"} >> scope;
  return ::geteuid() == 0 || scope == 0;
}

/// HANG_SEEDS seeds from HANG_FIRST_SEED on, for those who plant more than the suite may.
int number_in(const char* variable, int usual) {
  const char* const asked = std::getenv(variable);
  return asked ? std::atoi(asked) : usual;
}

/// Three to six ranks, which pretend to be on two hosts at times.
Hang hang_of(const std::string& how, unsigned seed) {
  if (seed == 0) return {.how = how};
  return {.how = how,
          .seed = seed,
          .ranks = 3 + static_cast<int>(seed % 4),
          .hosts = seed % 3 == 2 ? 2 : 1};
}

void expect_seen(const Hang& hang, const std::string& why) {
  const SeenHang seen = seen_of_job_that(hang);
  const json& job = seen.job;
  ASSERT_FALSE(job.is_null());
  SCOPED_TRACE(fmt::format("{}, seed {}", hang.how, hang.seed));
  const int guilty = guilty_of(hang.seed, hang.ranks);
  EXPECT_EQ(job["ranks"], hang.ranks);
  EXPECT_EQ(job["here"].size(), static_cast<std::size_t>(hang.ranks));
  const std::vector<int> culprits = job["culprits"];
  EXPECT_THAT(culprits, ::testing::Contains(guilty)) << job;
  const bool alone = why.find("by way of others") == std::string::npos;
  if (alone) {
    EXPECT_THAT(culprits, ::testing::ElementsAre(guilty)) << job;
    EXPECT_THAT(job["verdict"].get<std::string>(),
                HasSubstr(fmt::format("rank {} (host ", guilty)));
  }
  EXPECT_THAT(job["verdict"].get<std::string>(), HasSubstr(why)) << job;
  EXPECT_GE(seen.reports.size(), static_cast<std::size_t>(hang.ranks) - 1);
  for (const auto& [rank, report] : seen.reports.items()) {
    if (rank == fmt::to_string(guilty)) continue;  // it waits for nobody
    EXPECT_THAT(report["verdict"].get<std::string>(), HasSubstr(why)) << report;
    std::vector<int> named;
    for (const json& culprit : report["culprits"]) named.push_back(culprit["world_rank"]);
    EXPECT_THAT(named, ::testing::Contains(guilty)) << report;
  }
  if (std::getenv("HANG_SEEDS"))
    fmt::print("{}, seed {}: {} ranks, ps took {:.2f} s, {} reports: {}\n", hang.how, hang.seed,
               hang.ranks, seen.seconds, seen.reports.size(), job["verdict"].get<std::string>());
}

TEST_P(HangsSeenFromOutside, AreToldWithWhoAndWhy) {
  if (!may_read_others()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps users from it";
  const auto& [how, why] = GetParam();
  const int first = number_in("HANG_FIRST_SEED", 0);
  for (int seed = first; seed < first + number_in("HANG_SEEDS", 1); ++seed)
    expect_seen(hang_of(how, static_cast<unsigned>(seed)), why);
}

INSTANTIATE_TEST_SUITE_P(
    Classes, HangsSeenFromOutside,
    ::testing::Values(std::pair{"sleeps", "does nothing for barrier"},
                      std::pair{"computes", "does nothing for barrier"},
                      std::pair{"stopped", "is stopped (by SIGSTOP or a debugger)"},
                      std::pair{"other call", "waits for itself by way of others"},
                      std::pair{"sends", "waits for itself by way of others"},
                      std::pair{"circle", "waits for itself by way of others"},
                      std::pair{"group", "does nothing for all_reduce"},
                      std::pair{"split", "does nothing for split()"},
                      std::pair{"long", "does nothing for all_reduce(1048576 x f32, sum)"},
                      std::pair{"message", "has sent no message with tag 5"}),
    [](const auto& given) {
      std::string name = given.param.first;
      std::erase(name, ' ');
      return name;
    });

std::string content_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

TEST(Ps, ShowsWhereInItsProgramTheGuiltyRankIs) {
  if (!may_read_others()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps users from it";
  if (run_command({"sh", "-c", "command -v gdb || command -v eu-stack"}).status != 0)
    GTEST_SKIP() << "needs gdb or elfutils";
  for (const std::string how : {"sleeps", "stopped"}) {
    const test::TemporaryFolder folder;
    const std::string text = folder / "text", data = folder / "data";
    const json job =
        seen_of_job_that(
            {.how = how},
            fmt::format(
                "$CAPSTAN ps $PROCESS --stacks >{}; $CAPSTAN ps $PROCESS --stacks --json={}", text,
                data))
            .job;
    ASSERT_FALSE(job.is_null());
    EXPECT_THAT(content_of(text), HasSubstr("Stacks of rank 1 (process ")) << how;
    EXPECT_THAT(content_of(text), HasSubstr(how == "sleeps" ? "pause" : "raise")) << how;
    const json ranks = json::parse(content_of(data)).front()["here"];
    EXPECT_FALSE(ranks[0].contains("stacks"));
    EXPECT_THAT(ranks[1]["stacks"]["text"].get<std::string>(), HasSubstr("hang")) << how;
  }
}

TEST(Ps, RefusesAProcessThatIsInNoJob) {
  const auto result = run_command({CAPSTAN_PROGRAM, "ps", fmt::to_string(::getpid())});
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("is no rank of a job that can be read"));
}

/// Reads what Python has stored.
json unpickled(const std::string& path) {
  const auto result = run_command(
      {"python3", "-c",
       "import json, pickle, sys; print(json.dumps(pickle.load(open(sys.argv[1], 'rb'))))", path});
  EXPECT_EQ(result.status, 0) << result.output;
  return json::parse(result.output, nullptr, false);
}

/// Rank 1 is two calls behind, of one of which it knows nothing: what PyTorch's analyser looks for.
TEST(FlightRecords, HaveTheLastCallsOfEveryRank) {
  if (!may_read_others()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps users from it";
  const test::TemporaryFolder folder;
  const std::string records = folder / "records";
  const json job =
      seen_of_job_that({.how = "sleeps"},
                       fmt::format("$CAPSTAN ps $PROCESS --flight-record {} >/dev/null", records))
          .job;
  ASSERT_FALSE(job.is_null());
  std::vector<json> last;
  for (int rank = 0; rank < 3; ++rank) {
    const json record = unpickled(fmt::format("{}/capstan_trace_rank_{}", records, rank));
    ASSERT_FALSE(record.is_discarded());
    EXPECT_EQ(record["pg_config"]["0"]["ranks"], "[0, 1, 2]");
    EXPECT_EQ(record["entries"].size(), record["entries"].back()["record_id"]) << record;
    last.push_back(record["entries"].back());
  }
  for (const int rank : {0, 2}) {
    EXPECT_EQ(last.at(rank)["profiling_name"], "nccl:barrier");
    EXPECT_EQ(last.at(rank)["state"], "started");
    EXPECT_EQ(last.at(rank)["record_id"], last[1]["record_id"].get<int>() + 1);
  }
  EXPECT_EQ(last[1]["state"], "completed");
#ifdef PYTORCH_PYTHON
  const auto analysis =
      run_command({PYTORCH_PYTHON, "-m", "torch.distributed.flight_recorder.fr_trace", records});
  EXPECT_EQ(analysis.status, 0) << analysis.output;
  EXPECT_THAT(analysis.output, HasSubstr("Not all ranks joining collective"));
  EXPECT_THAT(analysis.output, HasSubstr("missing ranks: {1}"));
#endif
}

/// Without being asked, at a tenth of the time-out: one line of the whole job.
TEST(LongWaits, AreToldByThemselvesOnce) {
  const test::TemporaryFolder folder;
  const std::string script =
      "{ \"$CAPSTAN\" run -n 3 --grace 0.1 -- \"$WORKER\" hang sleeps told "
      ">/dev/null 2>\"$TOLD\" & }; job=$!; "
      "for look in $(seq 600); do grep -q waited \"$TOLD\" && break; sleep 0.1; done; "
      "sleep 1; kill -TERM $job; wait $job; grep waited \"$TOLD\"";
  const auto result = run_command({"bash", "-c", script}, {{"CAPSTAN", CAPSTAN_PROGRAM},
                                                           {"WORKER", WORKER_PROGRAM},
                                                           {"TOLD", folder / "lines"},
                                                           {"CAPSTAN_TIMEOUT", "100"}});
  EXPECT_EQ(occurrences(result.output, " has waited 1"), 1) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("rank 0 has waited 10 of the 100 s of CAPSTAN_TIMEOUT: rank 1 "
                        "(host "));
  EXPECT_THAT(result.output, HasSubstr("does nothing for barrier"));
  EXPECT_THAT(result.output, HasSubstr("`capstan ps "));
}

}  // namespace
}  // namespace capstan
