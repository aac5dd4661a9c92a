// SPDX-License-Identifier: Apache-2.0

// `capstan calibrate` as a program: what it measures by real ranks, where it keeps it, and who
// reads it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/processes/folder.hpp"

namespace capstan {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string home = "XDG_CONFIG_HOME=$PWD ";

TEST(Calibrate, IsKeptByTheIdentityOfTheMachineAndReadLater) {
  const Folder folder;
  const auto missing = folder.run(home + "capstan simulate barrier -n 4 --topology here 2>&1");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.output, HasSubstr("run `capstan calibrate`"));
  const auto measured = folder.run(home + "capstan calibrate -n 2 --despite-load 2>&1");
  ASSERT_EQ(measured.status, 0) << measured.output;
  EXPECT_THAT(measured.output, HasSubstr("read it by capstan simulate --topology here"));
  const std::string file = folder.run("ls capstan/clusters").output;
  const auto json = nlohmann::json::parse(folder.run("cat capstan/clusters/*").output);
  EXPECT_EQ(json["machine"].get<std::string>() + ".json\n", file);
  EXPECT_EQ(json["host"]["ranks"], 2);
  EXPECT_FALSE(json.contains("network"));
  for (const char* cost : {"call", "signal", "flag", "copy-byte"})
    EXPECT_GT(json["costs"][cost].get<double>(), 0) << cost;
  const auto read = [&](const std::string& command) {
    const auto result = folder.run(home + "capstan " + command + " --topology here 2>&1");
    EXPECT_EQ(result.status, 0) << result.output;
    return result.output;
  };
  EXPECT_THAT(read("simulate all_reduce -n 8 -b 64k"), HasSubstr("on 8 ranks and 4 hosts\n"));
  EXPECT_THAT(read("explain all_reduce -n 8 -b 64k"),
              HasSubstr(", measured with 2 ranks on 1 host\n"));
}

/// The library reads the factors by itself; the cells of a profile stay.
TEST(Calibrate, FitsTheModelThatChooses) {
  const Folder folder;
  const auto run = [&](const std::string& command) {
    const auto result = folder.run(home + "capstan " + command + " 2>&1");
    EXPECT_EQ(result.status, 0) << result.output;
    return result.output;
  };
  const auto profile = [&] {
    return nlohmann::json::parse(folder.run("cat capstan/profiles/*").output)["groups"][0];
  };
  EXPECT_THAT(run("explain all_reduce -n 2 -b 1k"), HasSubstr("decided by: the model; the first"));
  EXPECT_THAT(run("calibrate -n 2 --despite-load"), HasSubstr("the model's factors for 2 ranks"));
  const auto calibrated = profile();
  EXPECT_EQ(calibrated["cells"].size(), 0u);
  for (const char* factor : {"flags", "packets", "staging-reads"})
    EXPECT_GT(calibrated["model"][factor].get<double>(), 0) << factor;
  EXPECT_EQ(calibrated["model"]["wire"], 1) << "there is no network";
  EXPECT_THAT(run("explain all_reduce -n 2 -b 1k"),
              HasSubstr("decided by: the model, fitted to this machine; the first calls"));
  EXPECT_THAT(run("tune --check capstan/profiles/*"), HasSubstr("0 findings"));
  EXPECT_THAT(run("tune --judge capstan/profiles/*"), HasSubstr("no cell was measured"));
  run("tune all_reduce -n 2 --sizes 1k --seconds 0.01");
  EXPECT_EQ(profile()["cells"].size(), 1u);
  run("calibrate -n 2 --despite-load");
  EXPECT_EQ(profile()["cells"].size(), 1u);
  EXPECT_THAT(run("perf all_reduce -n 2 -b 64k -e 64k --rounds 2 --seconds 0.01"),
              HasSubstr("wrong values: 0"));
}

TEST(Calibrate, WritesWhereItIsTold) {
  const Folder folder;
  const auto printed = folder.run("capstan calibrate -n 2 --despite-load -o -");
  ASSERT_EQ(printed.status, 0) << printed.output;
  EXPECT_EQ(nlohmann::json::parse(printed.output)["format"], "capstan-topology");
  EXPECT_THAT(printed.output, EndsWith("\n}\n")) << "no blank line";
  EXPECT_EQ(folder
                .run("capstan calibrate -n 2 --despite-load -o file.json 2>&1; capstan simulate "
                     "barrier -n 4 "
                     "--topology file.json")
                .status,
            0);
  const auto refused = [&](const std::string& line) {
    const auto result = folder.run(line + " 2>&1");
    EXPECT_NE(result.status, 0) << result.output;
    return result.output;
  };
  EXPECT_THAT(refused("capstan calibrate -n 2 -o no/folder/file"),
              HasSubstr("cannot write 'no/folder/file'"));
  EXPECT_THAT(refused("env -u HOME -u XDG_CONFIG_HOME capstan calibrate -n 2"),
              HasSubstr("name a file by --output"));
  EXPECT_THAT(refused("env -u HOME -u XDG_CONFIG_HOME capstan simulate barrier --topology here"),
              HasSubstr("neither XDG_CONFIG_HOME nor HOME"));
}

}  // namespace
}  // namespace capstan
