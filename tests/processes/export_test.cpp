// SPDX-License-Identifier: Apache-2.0

// `capstan export` and `capstan verify FILE` as programs, and the sessions of their document.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capstan/collective.hpp"
#include "tests/processes/folder.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Export, TheDocumentsSessionsAreTrue) {
  expect_true_sessions("schedule-files.md", 6);
}

TEST(Export, WritesEveryFormat) {
  const Folder folder;
  const auto format = [&](const std::string& name) {
    const auto result = folder.run("capstan export all_gather -a ring -n 3 --count 2 -f " + name);
    EXPECT_EQ(result.status, 0) << result.output;
    return result.output;
  };
  EXPECT_THAT(format("json"), HasSubstr("\"format\": \"capstan-schedule\""));
  EXPECT_THAT(format("dot"), StartsWith("// all_gather by ring on 3 ranks, 2 elements\ndigraph"));
  EXPECT_THAT(format("svg"), StartsWith("<svg"));
  EXPECT_THAT(format("goal"), StartsWith("num_ranks 3\n"));
  EXPECT_THAT(format("text"), HasSubstr("\nrank 2\n"));
}

TEST(Export, BytesAreThoseOfTheLargestBuffer) {
  const Folder folder;
  EXPECT_THAT(folder.run("capstan export all_gather -n 4 --bytes 64 -f text").output,
              HasSubstr("4 ranks, 4 elements"));
  EXPECT_THAT(folder.run("capstan export all_reduce -n 4 --bytes 64 --type f64 -f text").output,
              HasSubstr("4 ranks, 8 elements"));
  EXPECT_THAT(folder.run("capstan export all_reduce --bytes 7 -f text").output,
              HasSubstr("--bytes 7: it is no multiple of the 4 bytes of f32"));
  for (const Collective collective : all_collectives()) {
    const std::string name{name_of(collective)};
    for (const char* size : {"", " --bytes 48"}) {
      const auto result =
          folder.run(fmt::format("capstan export {} -n 3{} > {}.json && "
                                 "capstan verify {}.json",
                                 name, size, name, name));
      EXPECT_EQ(result.status, 0) << name << size << result.output;
    }
    if (has_counts(collective))
      EXPECT_THAT(folder.run("tr -d ' \\n' < " + name + ".json").output,
                  HasSubstr("\"counts\":[4,4,4"))
          << name;
  }
}

TEST(Export, RefusesWhatCannotBeWritten) {
  const Folder folder;
  const auto refused = [&](const std::string& options) {
    const auto result = folder.run("capstan export " + options);
    EXPECT_EQ(result.status, 2) << options << ": " << result.output;
    return result.output;
  };
  EXPECT_THAT(refused("gossip"), HasSubstr("'gossip' is no file, and none of barrier"));
  EXPECT_THAT(refused("all_gather --count 18446744073709551615"), HasSubstr("--count"));
  EXPECT_THAT(refused("all_reduce --count=-1"), HasSubstr("--count"));
  EXPECT_THAT(refused("all_reduce -a gossip"), HasSubstr("choose one of flat"));
  EXPECT_THAT(refused("all_reduce --root 1"), HasSubstr("all_reduce has no root"));
  EXPECT_THAT(refused("broadcast --root 4"), HasSubstr("there are 4 ranks"));
  EXPECT_THAT(refused("all_reduce --type f31 --format goal"), HasSubstr("--type f31"));
  EXPECT_THAT(refused("all_reduce -o no/folder"), HasSubstr("it cannot be written"));
  EXPECT_THAT(refused("."), HasSubstr(". cannot be read"));
  for (const char* name : {"a:b", "a,b", "a/b", "a;b", "a b", "a=b", "\xc3\xa4", ""})
    EXPECT_THAT(refused(fmt::format("all_reduce --name '{}'", name)),
                HasSubstr("use letters, digits and _ . - only"));
}

TEST(Export, VerifySaysWhatIsWrongWithAFile) {
  const Folder folder;
  folder.run("capstan export all_reduce -a ring -n 3 -o ring.json");
  const auto json = folder.run("capstan verify ring.json --json");
  EXPECT_EQ(json.status, 0);
  EXPECT_THAT(json.output, HasSubstr("\"ok\": true"));
  EXPECT_THAT(folder.run("capstan verify ring.json").output,
              HasSubstr("its sums are not reproducible"));
  EXPECT_THAT(folder.run("capstan verify ring.json --ranks 4").output,
              HasSubstr("--ranks: a schedule file says that itself"));
  const auto cut = folder.run("head -c 700 ring.json > cut.json; capstan verify cut.json");
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.output, HasSubstr("cut.json:"));
  const auto empty = folder.run(
      "sed '0,/\"signal\"/{/\"signal\"/d}' ring.json > bad.json; "
      "capstan verify bad.json");
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.output, HasSubstr("REFUSED"));
  EXPECT_THAT(empty.output, HasSubstr("rank 1, step"));
}

/// Exported files run in every call of an unmodified program, and give right results.
TEST(Schedules, FilesRunOnProcesses) {
  const Folder folder;
  folder.run("mkdir files");
  for (const auto& [collective, algorithm] :
       {std::pair{"all_reduce", "ring"}, {"broadcast", "binomial"}, {"all_gather", "bruck"}})
    for (const char* ranks : {"3", "4"}) {
      const auto written = folder.run(
          fmt::format("capstan export {0} -a {1} -n {2} --name other -o files/{0}{2}.json",
                      collective, algorithm, ranks));
      EXPECT_EQ(written.output, "");
    }
  for (const char* ranks : {"3", "4"})
    for (const char* collective : {"all_reduce", "broadcast", "all_gather"}) {
      const auto result = folder.run(fmt::format(
          "CAPSTAN_SCHEDULES=files CAPSTAN_ALGORITHM={1}:other capstan run -n {0} -- {2} few_types "
          "{1}",
          ranks, collective, WORKER_PROGRAM));
      EXPECT_EQ(result.status, 0) << collective << ": " << result.output;
    }
  const auto perf = folder.run(
      "CAPSTAN_SCHEDULES=files capstan perf all_reduce -n 3 --algorithm other -b 8 -e 64K --factor "
      "64 --seconds 0.01");
  EXPECT_EQ(perf.status, 0) << perf.output;
  EXPECT_THAT(perf.output, HasSubstr("other"));
}

/// Ranks would refuse it, so it is not chosen.
TEST(Schedules, ExplainTellsWhatTheProofRefuses) {
  const Folder folder;
  folder.run("capstan export all_reduce -a ring -n 4 --name mine -o mine.json");
  const std::string explain =
      "CAPSTAN_SCHEDULES=mine.json CAPSTAN_ALGORITHM=all_reduce:mine capstan explain all_reduce "
      "-n 4 -b 1M ";
  const auto runs = folder.run(explain);
  EXPECT_EQ(runs.status, 0) << runs.output;
  EXPECT_THAT(runs.output, HasSubstr("chosen:   mine ("));
  EXPECT_THAT(runs.output, HasSubstr("* mine/"));
  const std::string impatient = "CAPSTAN_PROOF_LIMIT=0.000001 ";
  const auto refused = folder.run(impatient + explain);
  EXPECT_EQ(refused.status, 1) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("REFUSED:  mine ("));
  EXPECT_THAT(refused.output, HasSubstr("CAPSTAN_PROOF_LIMIT"));
  EXPECT_THAT(refused.output, Not(HasSubstr("chosen")));
  EXPECT_THAT(folder.run(impatient + explain + "--json").output,
              Not(HasSubstr("\"chosen\": true")));
  const auto trusted = folder.run("CAPSTAN_PROOF_LIMIT=trust CAPSTAN_REPRODUCIBLE=none " + explain);
  EXPECT_EQ(trusted.status, 0) << trusted.output;
  const auto built_in =
      folder.run("CAPSTAN_PROVE=1 " + impatient +
                 "capstan explain all_reduce -n 16 -b 1M --rules all_reduce:ring");
  EXPECT_EQ(built_in.status, 1) << built_in.output;
}

/// One rank has another schedule under the same name.
TEST(Schedules, RanksWithOtherOnesAreNamed) {
  const Folder folder;
  folder.run("capstan export all_reduce -a ring -n 2 --name mine -o 0.json");
  folder.run("capstan export all_reduce -a flat -n 2 --name mine -o 1.json");
  const auto result =
      folder.run(fmt::format("capstan run -n 2 -- sh -c 'CAPSTAN_SCHEDULES=$CAPSTAN_RANK.json "
                             "CAPSTAN_ALGORITHM=all_reduce:mine {} few_types all_reduce'",
                             WORKER_PROGRAM));
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("by an algorithm that was added, #"));
  EXPECT_THAT(result.output, HasSubstr("rank 1"));
}

TEST(Schedules, BadFilesEndTheProgramWithTheirPlace) {
  const Folder folder;
  folder.run("capstan export all_reduce -a ring -n 2 --name mine -o ring.json");
  folder.run(
      "sed '0,/\"put\"/{/\"put\"/d}' ring.json > put.json; head -c 600 ring.json > cut.json");
  const auto alone = [&](const std::string& file) {
    return folder.run("CAPSTAN_SCHEDULES=" + file + " " + WORKER_PROGRAM + " few_types all_reduce")
        .output;
  };
  EXPECT_THAT(alone("put.json"), HasSubstr("which nobody has written"));
  EXPECT_THAT(alone("cut.json"), HasSubstr("cut.json:"));
  EXPECT_THAT(alone("none.json"), HasSubstr("none.json cannot be read"));
}

TEST(Schedules, AFileIsAddedOnceHoweverItsPathIsSpelt) {
  const Folder folder;
  folder.run("mkdir files; capstan export all_reduce -a ring -n 2 --name mine -o files/ring.json");
  folder.run("ln -s ring.json files/link.json; ln -s files other");
  for (const char* also : {"./files/ring.json", "files/../files/ring.json", "files/link.json",
                           "$PWD/files/ring.json", "other", "files", "files//ring.json"}) {
    const auto result = folder.run(fmt::format(
        "CAPSTAN_SCHEDULES=files/ring.json,{} CAPSTAN_ALGORITHM=all_reduce:mine {} few_types "
        "all_reduce",
        also, WORKER_PROGRAM));
    EXPECT_EQ(result.status, 0) << also << ": " << result.output;
  }
  folder.run("cp files/ring.json copy.json");
  const auto copy = folder.run("CAPSTAN_SCHEDULES=files/ring.json,copy.json " + std::string{} +
                               WORKER_PROGRAM + " few_types all_reduce");
  EXPECT_THAT(copy.output, HasSubstr("copy.json: all_reduce has an algorithm 'mine' for 2 ranks"));
}

}  // namespace
}  // namespace capstan
