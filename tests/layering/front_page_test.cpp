// SPDX-License-Identifier: Apache-2.0

// README is short; tests/layering/documents compiles or runs its blocks.

#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

#include "tests/layering/repository.hpp"

namespace capstan::layering {
namespace {

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

}  // namespace
}  // namespace capstan::layering
