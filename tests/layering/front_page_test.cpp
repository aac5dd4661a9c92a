// SPDX-License-Identifier: Apache-2.0

// README is short, and its programs are parts of examples that are built and run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The code blocks of a document in one of these languages.
std::vector<std::string> blocks_in(const std::string& document) {
  static const std::regex block{"\n```(?:cpp|c|python)\n([^`]*)```"};
  std::vector<std::string> blocks;
  for (std::sregex_iterator at{document.begin(), document.end(), block}, end; at != end; ++at)
    blocks.push_back((*at)[1]);
  return blocks;
}

std::vector<std::string> blocks_without_example(const std::string& document,
                                                const std::vector<Source>& examples) {
  auto blocks = blocks_in(document);
  std::erase_if(blocks, [&](const std::string& block) {
    return std::ranges::any_of(examples, [&](const Source& example) {
      return example.text.find(block) != std::string::npos;
    });
  });
  return blocks;
}

std::string readme() {
  for (const Source& file : files_of_repository({"README.md"}))
    if (file.path == "README.md") return file.text;
  return "";
}

TEST(FrontPage, HasAtMostNineHundredWords) {
  std::istringstream words{readme()};
  const auto count = std::distance(std::istream_iterator<std::string>{words}, {});
  EXPECT_GT(count, 300);
  EXPECT_LE(count, 900);
}

TEST(FrontPage, ShowsPartsOfExamples) {
  auto examples = files_of_repository({".cpp", ".c", ".py"});
  std::erase_if(examples,
                [](const Source& file) { return !file.path.starts_with("docs/example/"); });
  EXPECT_GE(blocks_in(readme()).size(), 3U);
  EXPECT_THAT(blocks_without_example(readme(), examples), IsEmpty());
}

TEST(FrontPage, ABlockThatIsInNoExampleIsFound) {
  EXPECT_THAT(
      blocks_without_example("\n```cpp\nint a;\n```\n\n```sh\nls\n```\n\n```python\nb\n```\n",
                             {{"docs/example/a.cpp", "int a;\nint b;\n"}}),
      ElementsAre("b\n"));
}

}  // namespace
}  // namespace capstan::layering
