// SPDX-License-Identifier: Apache-2.0

// `capstan settings`, variables that have no effect, and CAPSTAN_LOG.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "capstan/settings.hpp"
#include "tests/processes/folder.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json row_of(const nlohmann::json& rows, const std::string& variable) {
  for (const auto& row : rows)
    if (row.at("variable") == variable) return row;
  ADD_FAILURE() << "there is no " << variable << " in " << rows;
  return {};
}

TEST(SettingsCommand, ShowsValueDefaultAndSourceOfAll) {
  const Folder folder;
  const auto result = folder.run("CAPSTAN_TIMEOUT=7.5 CAPSTAN_CHUNK=65536 capstan settings --json");
  EXPECT_EQ(result.status, 0) << result.output;
  const auto rows = nlohmann::json::parse(result.output).at("settings");
  EXPECT_GT(rows.size(), Settings::names().size());
  const auto timeout = row_of(rows, "CAPSTAN_TIMEOUT");
  EXPECT_EQ(timeout.at("value"), "7.5");
  EXPECT_EQ(timeout.at("default"), "300");
  EXPECT_EQ(timeout.at("source"), "environment");
  EXPECT_EQ(row_of(rows, "CAPSTAN_CHUNK").at("value"), "64k");
  EXPECT_EQ(row_of(rows, "CAPSTAN_WIRE").at("source"), "default");
  EXPECT_THAT(folder.run("CAPSTAN_RAILS=2 capstan settings --set").output,
              AllOf(HasSubstr("CAPSTAN_RAILS"), Not(HasSubstr("CAPSTAN_WIRE"))));
}

/// Files, names and variables may be of somebody else, and a terminal obeys what they hold.
TEST(SettingsCommand, NoCommandShowsControlCharacters) {
  const Folder folder;
  std::ofstream{folder / "escape"} << "\033[31m\007";
  std::ofstream{folder / "named.json"} << R"({"\u001b[31m": 1})";
  folder.run(
      "capstan export all_reduce --algorithm ring --ranks 2 --count 8 --name own |"
      R"( sed 's/"summary": "/&\\u001b[31m/' >summary.json;)"
      R"( sed 's/"put"/"\\u001b[31m"/' summary.json >verb.json)");
  for (const std::string command :
       {"capstan \"$E\"", "capstan perf \"$E\"", "capstan perf all_reduce \"--$E\"",
        "capstan verify \"$E.json\"", "capstan verify verb.json", "capstan run -n \"$E\" true",
        "capstan run -n 1 \"$E\"", "capstan run --hosts \"$E\" true",
        "capstan explain all_reduce --bytes \"$E\"",
        "CAPSTAN_ALGORITHM=\"$E\" capstan explain all_reduce --bytes 8",
        "CAPSTAN_SCHEDULES=summary.json CAPSTAN_ALGORITHM=all_reduce:own"
        " capstan explain all_reduce --bytes 32 --ranks 2",
        "capstan simulate all_reduce -n 4 --topology \"$E\"",
        "capstan simulate all_reduce -n 4 --topology named.json",
        "CAPSTAN_TIMEOUT=\"$E\" capstan settings", "CAPSTAN_INTERFACE=\"$E\" capstan settings",
        "CAPSTAN_INTERFACE=\"$E\" capstan doctor"}) {
    const auto result = folder.run("E=$(cat escape); " + command);
    EXPECT_THAT(result.output, HasSubstr("\\x1b[31m")) << command;
    EXPECT_THAT(result.output, Not(AnyOf(HasSubstr("\033"), HasSubstr("\007")))) << command;
  }
}

TEST(SettingsCommand, NeverShowsASecret) {
  const Folder folder;
  for (const std::string variable : {"CAPSTAN_SECRET", "CAPSTAN_COORDINATOR_SECRET"})
    for (const std::string form : {"", " --json"}) {
      const auto result = folder.run(variable + "=0123456789abcdef capstan settings" + form);
      EXPECT_THAT(result.output,
                  AllOf(HasSubstr("(not shown)"), Not(HasSubstr("0123456789abcdef"))));
    }
}

TEST(SettingsCommand, NamesWhatCannotBeReadAndWhatHasNoEffect) {
  const Folder folder;
  const auto result = folder.run("CAPSTAN_RAILS=9 CAPSTAN_TIMEOUTS=3 capstan settings");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("CAPSTAN_RAILS='9': expected a number from 1 to 8"));
  EXPECT_THAT(result.output,
              HasSubstr("CAPSTAN_TIMEOUTS has no effect: did you mean CAPSTAN_TIMEOUT?"));
}

/// One line of all ranks together: the first rank speaks.
TEST(MisspeltVariables, AreWarnedOfOnce) {
  const Folder folder;
  const std::string perf = "capstan perf barrier -n 2 2>&1 >/dev/null";
  const auto result = folder.run("CAPSTAN_TIMEOUTS=3 " + perf);
  const auto first = result.output.find("CAPSTAN_TIMEOUTS is no variable of Capstan");
  ASSERT_NE(first, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("CAPSTAN_TIMEOUTS is no", first + 1), std::string::npos);
  EXPECT_THAT(folder.run(perf).output, Not(HasSubstr("no variable")));
}

TEST(LogLevels, InfoTellsStartAndChoices) {
  const Folder folder;
  const std::string perf = "capstan perf all_reduce -n 2 -b 8 -e 8 2>&1 >/dev/null";
  const std::string quiet = folder.run(perf).output;
  const std::string told = folder.run("CAPSTAN_LOG=info " + perf).output;
  for (const char* part : {"rank 0 of 2: capstan ", "rank 1 of 2: capstan ", "hosts: 1",
                           "single copy: ", "all_reduce(2 x f32, sum): "}) {
    EXPECT_THAT(told, HasSubstr(part));
    EXPECT_THAT(quiet, Not(HasSubstr(part)));
  }
  EXPECT_THAT(folder.run("CAPSTAN_LOG=loud " + perf).output,
              HasSubstr("CAPSTAN_LOG='loud': expected debug, info, warn, error or off"));
}

/// One rank of two processors is bound to a core, which is less than its share.
TEST(LogLevels, InfoTellsTheBindingAndHowToChangeIt) {
  if (Machine::discover().cores().size() < 2) GTEST_SKIP() << "needs two cores";
  const auto told = [](const std::string& options, const std::string& before = "") {
    const Folder folder;
    return folder
        .run("CAPSTAN_LOG=info " + before + " capstan run " + options + " -- " + WORKER_PROGRAM +
             " rank 2>&1")
        .output;
  };
  EXPECT_THAT(told("-n 1"), AllOf(HasSubstr("by capstan run: fewer than its share, "),
                                  HasSubstr("; capstan run --bind none binds no rank")));
  EXPECT_THAT(told("-n 1 --bind none"),
              AllOf(HasSubstr(", not bound"), Not(HasSubstr("fewer than"))));
  const auto cpu = std::to_string(*Machine::discover().processing_units().begin());
  EXPECT_THAT(told("-n 1", "taskset -c " + cpu), Not(HasSubstr("fewer than its share")))
      << "what the launcher may use";
}

/// Without a setting, as the default binding makes the program's threads take turns.
TEST(LogLevels, AWarningTellsOfThreadsThatTheBindingSlows) {
  if (Machine::discover().cores().size() < 2) GTEST_SKIP() << "needs two cores";
  const auto told = [](const std::string& words) {
    const Folder folder;
    return folder.run("capstan run -n 2 " + words + " 2>&1").output;
  };
  const std::string worker = std::string{" -- "} + WORKER_PROGRAM;
  EXPECT_THAT(
      told(worker + " rank-beside-threads"),
      AllOf(HasSubstr("[warning] rank 0 of 2: CPUs "), HasSubstr("fewer than the 3 threads"),
            HasSubstr("; capstan run --bind none binds no rank")));
  for (const auto& words : {worker + " rank", "--bind none" + worker + " rank-beside-threads"})
    EXPECT_THAT(told(words), Not(HasSubstr("warning")));
}

}  // namespace
}  // namespace capstan
