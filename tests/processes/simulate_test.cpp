// `capstan simulate` as a program, and the sessions of its document.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processes/folder.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Simulate, TheDocumentsSessionsAreTrue) {
  expect_true_sessions("simulation.md", 5);
}

TEST(Simulate, WritesJsonAndAPicture) {
  const Folder folder;
  const auto result = folder.run(
      "capstan simulate broadcast -n 60 -b 64k --fabric dragonfly:routers=4,hosts=4 --svg b.svg "
      "--json");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("\"network\": \"dragonfly of 60 ports: 4 groups of 4 routers"));
  EXPECT_THAT(result.output, HasSubstr("\"critical_path\": {"));
  const std::string svg = folder.run("cat b.svg").output;
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr("class=\"critical\""));
}

TEST(Simulate, RefusesWhatItCannotRun) {
  const Folder folder;
  const auto message = [&](const std::string& options) {
    const auto result = folder.run("capstan simulate all_reduce " + options + " 2>&1");
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(message("--fabric torus:dims=3x3"), HasSubstr("has 9 ports, and 64 are needed"));
  EXPECT_THAT(message("--fabric dragonfly:routers=1048576"),
              HasSubstr("links between switches, and 1e+08 can be simulated"));
  EXPECT_THAT(message("--fabric fat-tree:oversubscription=1e-9"), HasSubstr("oversubscription"));
  EXPECT_THAT(message("--fabric torus:dims=1048576x1048576x1048576x1048576"),
              HasSubstr("and 64 are needed"));
  EXPECT_THAT(message("-a direct -n 500"), HasSubstr("made for up to 256 ranks"));
  EXPECT_THAT(message("-a circle"), HasSubstr("circle"));
  EXPECT_THAT(message("--straggler 64:2"), HasSubstr("a rank below 64"));
  EXPECT_THAT(message("--costs sned=1"), HasSubstr("column 1: expected NAME=NUMBER"));
}

TEST(Simulate, RefusesFilesThatItCannotWriteAndLeavesThoseThatAreThere) {
  const Folder folder;
  const auto refused = [&](const std::string& file) {
    const auto result = folder.run("capstan simulate barrier -n 4 --svg " + file + " 2>&1");
    EXPECT_EQ(result.status, 1) << result.output;
    EXPECT_THAT(result.output, HasSubstr("capstan: cannot write '" + file + "': check the path"));
  };
  folder.run("mkdir folder; ln -s loop loop; echo there > file; ln -s missing link");
  for (const std::string& file : {std::string(300, 'a'), std::string{"loop"}, std::string{"folder"},
                                  std::string{"file/below"}, std::string{"no/folder"}})
    refused(file);
  // A call that is refused later changes nothing.
  for (const char* file : {"file", "link", "new"})
    EXPECT_NE(
        folder.run(fmt::format("capstan simulate barrier -n 4 -a circle --svg {}", file)).status,
        0);
  EXPECT_EQ(folder.run("cat file; readlink link; ls").output,
            "there\nmissing\nfile\nfolder\nlink\nloop\n");
  EXPECT_EQ(folder.run("capstan simulate barrier -n 4 --svg link").status, 0);
  EXPECT_THAT(folder.run("cat missing").output,
              AllOf(StartsWith("<svg"), EndsWith("</svg>\n"), Not(EndsWith("\n\n"))));
}

}  // namespace
}  // namespace capstan
