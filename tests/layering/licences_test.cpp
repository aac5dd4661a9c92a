// SPDX-License-Identifier: Apache-2.0

// Every source says its licence in its first line: a file that somebody copies has left LICENSE
// behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::array<std::string_view, 2> lines = {"// SPDX-License-Identifier: Apache-2.0\n",
                                                   "# SPDX-License-Identifier: Apache-2.0\n"};

/// Names of files whose first line, or the one after "#!", is another.
std::vector<std::string> without_licence(const std::vector<Source>& files) {
  std::vector<std::string> found;
  for (const Source& file : files) {
    std::string_view text = file.text;
    if (text.starts_with("#!")) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    if (std::ranges::none_of(lines, [&](auto line) { return text.starts_with(line); }))
      found.push_back(file.path);
  }
  return found;
}

TEST(Licences, AFileWithoutItsLineIsFound) {
  EXPECT_THAT(without_licence({{"a.cpp", "#include <a>\n"},
                               {"b.cpp", "// SPDX-License-Identifier: Apache-2.0\n"},
                               {"c", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"},
                               {"d", "#!/bin/sh\necho\n"},
                               {"e", "#!"}}),
              ElementsAre("a.cpp", "d", "e"));
}

TEST(Licences, EverySourceHasItsLine) {
  EXPECT_THAT(
      without_licence(files_of_repository({".cpp", ".hpp", ".h", ".c", ".cu", ".hip", ".py", ".pyi",
                                           ".sh", ".cmake", ".rules", "CMakeLists.txt"})),
      IsEmpty());
}

TEST(Licences, EveryScriptHasItsLine) {
  auto scripts = files_of_repository({""});
  std::erase_if(scripts, [](const Source& file) { return !file.text.starts_with("#!"); });
  EXPECT_FALSE(scripts.empty());
  EXPECT_THAT(without_licence(scripts), IsEmpty());
}

}  // namespace
}  // namespace capstan::layering
