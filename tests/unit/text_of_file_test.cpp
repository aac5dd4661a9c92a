// SPDX-License-Identifier: Apache-2.0

// Files that a user names: whatever they are, reading ends.

#include "core/platform/net/text_of_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "capstan/error.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TextOfFile, IsThatOfFilesAndPipes) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "file", pipe = folder / "pipe";
  const std::string text(200'000, 'x');
  std::ofstream{file} << text;
  EXPECT_EQ(text_of_file(file), text);
  std::ofstream{folder / "empty"};
  EXPECT_EQ(text_of_file(folder / "empty"), "");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::jthread writer{[&] { std::ofstream{pipe} << text; }};
  EXPECT_EQ(text_of_file(pipe), text);
}

TEST(TextOfFile, EndsWhereNothingComes) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto refusal_of = [](const std::string& path, const std::string& why) {
    EXPECT_THAT([&] { static_cast<void>(text_of_file(path, Bytes{1 << 20})); },
                ThrowsMessage<InvalidArgument>(HasSubstr(why)));
  };
  refusal_of(pipe, "nobody writes to it");
  refusal_of("/dev/zero", "a device");
  refusal_of(folder / "none", "No such file");
  refusal_of(folder / "", "a folder");
  std::ofstream{folder / "long"} << std::string((1 << 20) + 1, 'x');
  refusal_of(folder / "long", "longer than 1 MiB");
}

}  // namespace
}  // namespace capstan
