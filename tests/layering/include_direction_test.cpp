// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "core/base/palette.hpp"
#include "tests/layering/include_checker.hpp"
#include "tests/layering/include_rules.hpp"
#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(IncludeDirection, HoldsInTheWholeRepository) {
  const auto sources = files_of_repository({".hpp", ".cpp", ".h", ".cu", ".cuh"});
  EXPECT_GT(sources.size(), 50U);
  EXPECT_THAT(violations(sources), IsEmpty());
}

TEST(IncludeRules, AreReadFromTheFoldersThatTheySpeakOf) {
  const auto rules = parse_rules(
      {{"a/includes.rules", "# a comment\n\nset few = x \\\n    y\n. pure: @few z | fmt\n"},
       {"b/c/includes.rules", "*: @few\neach @few: z\nd: | hwloc\n"}});
  ASSERT_EQ(rules.size(), 5U);
  EXPECT_EQ(rules[0].folder, "a");
  EXPECT_TRUE(rules[0].pure);
  EXPECT_THAT(rules[0].layers, ElementsAre("x", "y", "z"));
  EXPECT_THAT(rules[0].libraries, ElementsAre("fmt"));
  EXPECT_EQ(rules[1].folder, "b/c/*");
  EXPECT_THAT(rules[1].layers, ElementsAre("x", "y"));
  EXPECT_EQ(rules[2].folder, "x");
  EXPECT_EQ(rules[3].folder, "y");
  EXPECT_EQ(rules[4].folder, "b/c/d");
  EXPECT_THAT(rules[4].layers, IsEmpty());
}

TEST(IncludeRules, MistakesAreNamedWithTheirPlace) {
  for (const std::string line : {"net core/base", "net also: core/base", ": core/base",
                                 "net: @none", "each @none: x", "set x y", "set x = y\nset x = z"})
    EXPECT_THROW(parse_rules({{"a/includes.rules", line}}), std::invalid_argument) << line;
  EXPECT_THAT(
      [] { parse_rules({{"a/includes.rules", "\nnet: @none"}}); },
      ::testing::ThrowsMessage<std::invalid_argument>("a/includes.rules:2: there is no set @none"));
}

TEST(IncludeDirection, ReadsIncludeLinesInAnyLayout) {
  const auto includes = includes_of(
      "#pragma once\n#include <span>\n  #  include\t\"core/include/capstan/span.hpp\"  // why\n"
      "// #include <thread>\n#include HWY_TARGET_INCLUDE\n#include");
  ASSERT_EQ(includes.size(), 2U);
  EXPECT_EQ(includes[0].target, "span");
  EXPECT_FALSE(includes[0].quoted);
  EXPECT_EQ(includes[1].target, "core/include/capstan/span.hpp");
  EXPECT_TRUE(includes[1].quoted);
  EXPECT_EQ(includes[1].line, 3);
}

TEST(IncludeDirection, AllowsWhatTheDesignAllows) {
  EXPECT_THAT(
      violations({
          {"core/include/capstan/types.hpp",
           "#include <cstdint>\n#include \"capstan/quantity.hpp\"\n"},
          {"core/include/capstan/quantity.hpp", ""},
          {"algorithms/ring.cpp", "#include <fmt/format.h>\n#include \"capstan/types.hpp\"\n"},
          {"transports/transport.hpp", "#include <chrono>\n#include \"capstan/types.hpp\"\n"},
          {"transports/shm/mapping.cpp",
           "#include <sys/mman.h>\n#include \"transports/transport.hpp\"\n"},
          {"core/engine/world/world.cpp", "#include \"transports/transport.hpp\"\n"},
          {"tests/unit/ring_test.cpp", "#include <gtest/gtest.h>\n"},
      }),
      IsEmpty());
}

/// Colours of verbs that stand elsewhere than in the palette: pictures would differ.
TEST(Pictures, TakeTheColoursOfVerbsFromThePalette) {
  for (const Source& file : files_of_repository({".cpp", ".hpp"})) {
    if (!file.path.starts_with("core/") || file.path == "core/base/palette.hpp" ||
        file.path.starts_with("core/tools/cli/topo/"))
      continue;
    for (const std::string_view colour :
         {palette::copy, palette::reduce, palette::put, palette::signal, palette::wait,
          palette::notify, palette::slot})
      EXPECT_EQ(file.text.find(colour), std::string::npos) << file.path << ": " << colour;
  }
}

struct Violation {
  std::string_view name;
  Source source;
  std::string complaint;
};

class IncludeDirectionCatches : public ::testing::TestWithParam<Violation> {};

TEST_P(IncludeDirectionCatches, ThisViolation) {
  const std::vector<Source> sources = {GetParam().source,
                                       {"core/engine/executor/host_executor.hpp", ""},
                                       {"core/tools/cli/commands.hpp", ""},
                                       {"transports/ofi/ofi_endpoint.hpp", ""},
                                       {"tests/unit/helper.hpp", ""},
                                       {"kernels/cpu/copy.hpp", ""}};
  EXPECT_THAT(violations(sources), ElementsAre(HasSubstr(GetParam().complaint)));
}

INSTANTIATE_TEST_SUITE_P(
    MadeUp, IncludeDirectionCatches,
    ::testing::Values(
        Violation{
            "Upwards",
            {"core/schedule/ir/bad.cpp", "\n#include \"core/engine/executor/host_executor.hpp\"\n"},
            "core/schedule/ir/bad.cpp:2: core/schedule/ir must not know core/engine/executor"},
        Violation{
            "UpwardsByRelativePath",
            {"core/schedule/ir/bad.hpp", "#include \"../../engine/executor/host_executor.hpp\"\n"},
            "core/schedule/ir must not know core/engine/executor"},
        Violation{"Sideways",
                  {"transports/shm/bad.cpp", "#include \"transports/ofi/ofi_endpoint.hpp\"\n"},
                  "transports/shm must not know transports/ofi"},
        Violation{"ParentOfSiblings",
                  {"transports/bad.cpp", "#include \"transports/ofi/ofi_endpoint.hpp\"\n"},
                  "transports must not know transports/ofi"},
        Violation{"AlgorithmUsesKernel",
                  {"algorithms/bad.cpp", "#include \"kernels/cpu/copy.hpp\"\n"},
                  "algorithms must not know kernels"},
        Violation{
            "LibraryUsesProgram",
            {"core/communicator/communicator.cpp", "#include \"core/tools/cli/commands.hpp\"\n"},
            "core/communicator must not know core/tools/cli"},
        Violation{"ProductUsesTests",
                  {"core/engine/world/bad.cpp", "#include \"tests/unit/helper.hpp\"\n"},
                  "core/engine/world must not know tests"},
        Violation{"Library",
                  {"kernels/cpu/bad.cpp", "#include <spdlog/spdlog.h>\n"},
                  "kernels must not use the library spdlog"},
        Violation{
            "Clock", {"core/schedule/ir/bad.cpp", "#include <chrono>\n"}, "must not use <chrono>"},
        Violation{"SystemHeader",
                  {"algorithms/bad.cpp", "#include <unistd.h>\n"},
                  "algorithms is pure and must not use <unistd.h>"},
        Violation{"MissingHeader",
                  {"core/schedule/ir/bad.cpp", "#include \"core/schedule/ir/gone.hpp\"\n"},
                  "there is no \"core/schedule/ir/gone.hpp\""},
        Violation{"NewFolder", {"gadgets/bad.cpp", ""}, "no rule says"},
        Violation{"Circle",
                  {"kernels/a.hpp", "#include \"kernels/a.hpp\"\n"},
                  "includes itself: kernels/a.hpp -> kernels/a.hpp"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace capstan::layering
