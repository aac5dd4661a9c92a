// SPDX-License-Identifier: Apache-2.0

// README and how-it-works are short; tests/layering/documents compiles or runs their blocks.

#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

std::string document(const std::string& path) {
  for (const Source& file : files_of_repository({".md"}))
    if (file.path == path) return file.text;
  return "";
}

std::ptrdiff_t words_of(const std::string& text) {
  std::istringstream words{text};
  return std::distance(std::istream_iterator<std::string>{words}, {});
}

TEST(FrontPage, HasAtMostNineHundredWords) {
  const auto count = words_of(document("README.md"));
  EXPECT_GT(count, 300);
  EXPECT_LE(count, 900);
}

/// A page has some 500 words.
TEST(HowItWorks, HasAtMostTwelvePages) {
  const auto count = words_of(document("docs/how-it-works.md"));
  EXPECT_GT(count, 3000);
  EXPECT_LE(count, 6000);
}

/// A paragraph or an item of a list; tables and code do not count.
TEST(HowItWorks, HasNoParagraphOfOverEightyWords) {
  std::istringstream lines{document("docs/how-it-works.md")};
  std::string paragraph;
  const auto check = [&] {
    EXPECT_LE(words_of(paragraph), 80) << paragraph;
    paragraph.clear();
  };
  bool code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) code = !code;
    if (code || line.empty() || line.starts_with("- ") || line.starts_with("|")) check();
    if (!code && !line.starts_with("|")) paragraph += line + "\n";
  }
  check();
}

}  // namespace
}  // namespace capstan::layering
