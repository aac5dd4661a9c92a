// SPDX-License-Identifier: Apache-2.0

// `capstan ps` beside jobs that hang.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// Starts a job that hangs in this way, and ends it when `ps` names somebody who keeps it waiting.
/// Returns the job as ps has it then. Before it ends, `then` runs for its first $PROCESS.
json seen_of_job_that(const std::string& how, const std::string& then = "true") {
  const std::string token = fmt::format("ps-{}-{}", ::getpid(), how);
  const std::string script =
      "\"$CAPSTAN\" run -n 3 --grace 0.1 -- \"$WORKER\" hang \"$HOW\" \"$TOKEN\" >/dev/null 2>&1 & "
      "job=$!; "
      "for look in $(seq 60); do "
      "  seen=$(\"$CAPSTAN\" ps --json); "
      "  own=${seen#*\"$TOKEN\"}; "
      "  [ \"$own\" = \"$seen\" ] || case ${own%%\\\"verdict\\\"*} in *'\"culprits\": []'*) ;; *) "
      "break ;; "
      "esac; "
      "done; "
      "seen=$(\"$CAPSTAN\" ps --json); "  // the first look may have begun before the last rank came
      "own=${seen#*\"$TOKEN\"}; own=${own#*'\"process\": '}; PROCESS=${own%%,*} bash -c \"$THEN\"; "
      "kill -TERM $job; wait $job; echo \"$seen\"";
  const auto result = run_command({"bash", "-c", script}, {{"CAPSTAN", CAPSTAN_PROGRAM},
                                                           {"WORKER", WORKER_PROGRAM},
                                                           {"HOW", how},
                                                           {"TOKEN", token},
                                                           {"THEN", then}});
  const json all =
      json::parse(result.output.substr(std::min(result.output.find('['), result.output.size())),
                  nullptr, false);
  for (const json& job : all)
    if (job.is_object() && job["command"].get<std::string>().find(token) != std::string::npos)
      return job;
  ADD_FAILURE() << how << ": " << result.output;
  return {};
}

class HangsSeenFromOutside : public ::testing::TestWithParam<std::pair<std::string, std::string>> {
};

/// A user may be kept from reading processes that are no children.
bool may_read_others() {
  int scope = 0;
  std::ifstream{"/proc/sys/kernel/yama/ptrace_scope"} >> scope;
  return ::geteuid() == 0 || scope == 0;
}

TEST_P(HangsSeenFromOutside, AreToldWithWhoAndWhy) {
  if (!may_read_others()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps users from it";
  const auto& [how, why] = GetParam();
  const json job = seen_of_job_that(how);
  ASSERT_FALSE(job.is_null());
  EXPECT_EQ(job["ranks"], 3);
  EXPECT_EQ(job["here"].size(), 3U);
  const std::vector<int> culprits = job["culprits"];
  EXPECT_THAT(culprits, ::testing::Contains(1)) << job;
  EXPECT_THAT(job["verdict"].get<std::string>(), HasSubstr("rank 1 (host ")) << job;
  EXPECT_THAT(job["verdict"].get<std::string>(), HasSubstr(why)) << job;
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
    const json job = seen_of_job_that(
        how,
        fmt::format("$CAPSTAN ps $PROCESS --stacks >{}; $CAPSTAN ps $PROCESS --stacks --json={}",
                    text, data));
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
  const json job = seen_of_job_that(
      "sleeps", fmt::format("$CAPSTAN ps $PROCESS --flight-record {} >/dev/null", records));
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
