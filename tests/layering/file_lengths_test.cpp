// SPDX-License-Identifier: Apache-2.0

// No source has more lines than a reader takes in at once: a longer one has two subjects, and each
// of them deserves a file that its name tells.

#include <fmt/format.h>
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

constexpr std::ptrdiff_t most_lines = 400;

struct Exception {
  std::string_view path, reason;
};
constexpr std::array exceptions = {
    Exception{"bindings/c/capstan.h", "the interface in C is one header by intent"},
};

bool is_exception(std::string_view path) {
  return std::ranges::count(exceptions, path, &Exception::path) != 0;
}

std::ptrdiff_t lines_of(const Source& file) {
  return std::ranges::count(file.text, '\n');
}

/// Files that are too long, with their lengths.
std::vector<std::string> too_long(const std::vector<Source>& files) {
  std::vector<std::string> found;
  for (const Source& file : files)
    if (lines_of(file) > most_lines && !is_exception(file.path))
      found.push_back(fmt::format("{} has {} lines, {} are the most: split it by subject",
                                  file.path, lines_of(file), most_lines));
  return found;
}

std::vector<Source> sources() {
  return files_of_repository({".cpp", ".hpp", ".h", ".c", ".cu", ".hip", ".py", ".pyi", ".js",
                              ".sh", ".cmake", "CMakeLists.txt"});
}

TEST(FileLengths, ALongFileIsFound) {
  const std::string longest(most_lines, '\n');
  EXPECT_THAT(too_long({{"a.cpp", longest},
                        {"b.cpp", longest + "\n"},
                        {"bindings/c/capstan.h", longest + "\n"}}),
              ElementsAre("b.cpp has 401 lines, 400 are the most: split it by subject"));
}

TEST(FileLengths, NoSourceIsTooLong) {
  EXPECT_THAT(too_long(sources()), IsEmpty());
}

TEST(FileLengths, NoScriptIsTooLong) {
  auto scripts = files_of_repository({""});
  std::erase_if(scripts, [](const Source& file) { return !file.text.starts_with("#!"); });
  EXPECT_FALSE(scripts.empty());
  EXPECT_THAT(too_long(scripts), IsEmpty());
}

TEST(FileLengths, ExceptionsAreStillLong) {
  const auto files = sources();
  for (const auto& [path, reason] : exceptions) {
    const auto file = std::ranges::find(files, path, &Source::path);
    ASSERT_NE(file, files.end()) << path;
    EXPECT_GT(lines_of(*file), most_lines) << path << " needs no exception (" << reason << ")";
  }
}

}  // namespace
}  // namespace capstan::layering
