// SPDX-License-Identifier: Apache-2.0

// Comments name their subject first. One that begins with Of or What leaves the reader to guess the
// noun that it speaks of.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <sstream>
#include <string_view>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::array<std::string_view, 7> elliptic_beginnings = {
    "Of", "What", "Who", "Whose", "Those", "So many", "How many"};

/// One line that is nothing but a comment.
struct CommentLine {
  std::string_view text;  ///< without marks
  bool opens_block;       ///< does not continue the line before it
};

std::optional<CommentLine> comment_in(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  constexpr std::string_view docstring = "\"\"\"";
  if (line.starts_with(docstring)) return CommentLine{line.substr(docstring.size()), true};
  const bool opens_block = line.starts_with("/*");
  if (!opens_block && !line.starts_with("//") && !line.starts_with("# ")) return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of("/*# "), line.size()));
  return CommentLine{line, opens_block};
}

bool is_elliptic(std::string_view text) {
  return std::ranges::any_of(elliptic_beginnings, [&](std::string_view words) {
    if (!text.starts_with(words)) return false;
    const char next = text.size() == words.size() ? ' ' : text[words.size()];
    return std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_';
  });
}

std::vector<std::string> elliptic_comments(const std::vector<Source>& files) {
  std::vector<std::string> found;
  for (const Source& file : files) {
    std::istringstream lines{file.text};
    bool follows_text = false;  // of the same comment
    int number = 0;
    for (std::string line; std::getline(lines, line); ++number) {
      const auto comment = comment_in(line);
      if (comment && (comment->opens_block || !follows_text) && is_elliptic(comment->text))
        found.push_back(fmt::format("{}:{}: '{}': begin with the subject", file.path, number + 1,
                                    comment->text));
      follows_text = comment && !comment->text.empty();
    }
  }
  return found;
}

TEST(CommentBeginnings, NameTheSubject) {
  const auto files = files_of_repository(
      {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".py", ".js", ".cmake", "CMakeLists.txt"});
  ASSERT_GT(files.size(), 1000U);
  EXPECT_THAT(elliptic_comments(files), IsEmpty());
}

TEST(CommentBeginnings, EllipticOnesAreFound) {
  const std::vector<Source> files = {
      {"a.cpp", "// What it is.\nint a;\n  /// Of a wait:\n  /// What follows.\n  int b;\n"},
      {"b.cpp", "/// The parts:\n///\n/// How many there are.\n"},
      {"c.h", "/* The first. */\n/* Whose it is. */\n"},
      {"d.cpp", "// Whatever\n// What continues.\nint c;  ///< Of a call\n// Often, Of_\n"},
      {"e.cpp", "// Those_\nint d;\n// Offset\nint e;\n/// \"Who\"\n"},
      {"f.py", "#!/usr/bin/python3\n# Of all.\n\"\"\"What it does.\"\"\"\n"}};
  EXPECT_THAT(elliptic_comments(files),
              ElementsAre("a.cpp:1: 'What it is.': begin with the subject",
                          "a.cpp:3: 'Of a wait:': begin with the subject",
                          "b.cpp:3: 'How many there are.': begin with the subject",
                          "c.h:2: 'Whose it is. */': begin with the subject",
                          "f.py:2: 'Of all.': begin with the subject",
                          "f.py:3: 'What it does.\"\"\"': begin with the subject"));
}

}  // namespace
}  // namespace capstan::layering
