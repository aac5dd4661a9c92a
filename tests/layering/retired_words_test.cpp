// SPDX-License-Identifier: Apache-2.0

// Names that were replaced by the field's terms do not come back: retired_words.txt holds them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct RetiredWord {
  std::string word, instead;
  std::vector<std::string> allowed_in;  // beginnings of paths
};

/// "WORD  INSTEAD  [PATH ...]" lines: columns are two or more spaces apart.
std::vector<RetiredWord> parse_words(std::istream& lines) {
  std::vector<RetiredWord> words;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const auto first = line.find("  ");
    const auto instead = line.find_first_not_of(' ', first);
    const auto second = line.find("  ", instead);
    RetiredWord word{line.substr(0, first), line.substr(instead, second - instead), {}};
    std::istringstream paths{second == std::string::npos ? "" : line.substr(second)};
    for (std::string path; paths >> path;) word.allowed_in.push_back(path);
    words.push_back(word);
  }
  return words;
}

bool is_part_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Whether the word stands at `offset` by itself rather than within a longer one.
bool stands_alone(const std::string& text, std::size_t offset, const std::string& word) {
  const std::size_t end = offset + word.size();
  const bool starts =
      offset == 0 || !is_part_of_name(word.front()) || !is_part_of_name(text[offset - 1]);
  const bool ends =
      end == text.size() || !is_part_of_name(word.back()) || !is_part_of_name(text[end]);
  return starts && ends;
}

bool is_allowed(const RetiredWord& word, const std::string& path) {
  return std::ranges::any_of(word.allowed_in,
                             [&](const std::string& start) { return path.starts_with(start); });
}

std::vector<std::string> findings(const std::vector<Source>& files,
                                  const std::vector<RetiredWord>& words) {
  std::vector<std::string> all;
  for (const Source& file : files)
    for (const RetiredWord& word : words) {
      if (is_allowed(word, file.path)) continue;
      for (auto at = file.text.find(word.word); at != std::string::npos;
           at = file.text.find(word.word, at + 1))
        if (stands_alone(file.text, at, word.word))
          all.push_back(fmt::format("{}:{}: '{}' is retired, say: {}", file.path,
                                    line_of(file.text, at), word.word, word.instead));
    }
  return all;
}

bool may_name_them(const Source& file) {
  const std::string path = file.path;
  return path == "CHANGELOG.md" || path.starts_with("tests/layering/retired_words");
}

TEST(RetiredWords, AreNowhereInTheRepository) {
  std::ifstream list{CAPSTAN_SOURCE_DIRECTORY "/tests/layering/retired_words.txt"};
  const auto words = parse_words(list);
  ASSERT_GT(words.size(), 20U);
  auto files = files_of_repository(
      {".hpp", ".cpp", ".h", ".cu", ".cuh", ".md", ".txt", ".cmake", ".in", ".json", ".svg"});
  std::erase_if(files, may_name_them);
  ASSERT_GT(files.size(), 200U);
  EXPECT_THAT(findings(files, words), IsEmpty());
}

TEST(RetiredWords, AreFoundAsWholeWords) {
  std::istringstream list{"# word  instead\nboard  staging\nForm::  Protocol::  old/\n"};
  const auto words = parse_words(list);
  const std::vector<Source> files = {{"a.cpp", "keyboard\nboards\nthe board\n"},
                                     {"b.cpp", "Form::flags; Reform::x, Form\n"},
                                     {"old/c.cpp", "Form::flags\n"}};
  EXPECT_THAT(findings(files, words),
              ElementsAre("a.cpp:3: 'board' is retired, say: staging",
                          HasSubstr("b.cpp:1: 'Form::' is retired, say: Protocol::")));
}

}  // namespace
}  // namespace capstan::layering
