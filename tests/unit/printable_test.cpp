// SPDX-License-Identifier: Apache-2.0

// Texts that are safe on a terminal, whoever the words in them are of.

#include "core/base/printable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "capstan/error.hpp"
#include "core/base/error_text.hpp"

namespace capstan {
namespace {

TEST(Printable, ControlCharactersAndBytesThatAreNoTextAreWritten) {
  EXPECT_EQ(printable("plain, \xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"),
            "plain, \xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82");
  EXPECT_EQ(printable(std::string_view{"\0\r\x7f", 3}), "\\x00\\x0d\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3") << "no UTF-8";
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "an escape in one character";
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae") << "turns the direction";
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
  EXPECT_EQ(printable_lines("one\ntwo\x1b\n"), "one\ntwo\\x1b\n") << "lines stay lines";
}

/// Whether a terminal shows a text and does nothing else.
bool is_safe(std::string_view text) {
  return printable_lines(text) == text;
}

TEST(Errors, AreSafeToPrintWhateverTheyQuote) {
  std::vector<std::string> words{"\x1b[2J\x1b]0;title\x07", "a\xff\xfe",
                                 "\xe2\x80\xae"
                                 "turned"};
  for (int byte = 0; byte < 256; ++byte) words.emplace_back(1, static_cast<char>(byte));
  for (const std::string& word : words) {
    const std::string text = "the name '" + word + "' of a peer";
    const std::vector<std::function<void()>> throwers{
        [&] { throw Error(text); },
        [&] { throw InvalidArgument(text); },
        [&] { throw SystemError(text); },
        [&] { throw LimitReached(text); },
        [&] { throw BootstrapError(text); },
        [&] { throw PeerLost(Rank{1}, text); },
        [&] { throw TimedOut(text); },
        [&] { throw Mismatch(text); },
        [&] { throw Truncated(text); },
        [&] { throw Aborted(text); },
        [&] { throw Cancelled(text); },
        [&] { throw DeadlineExceeded(text); },
        [&] { throw OperationFailed(text, nullptr); }};
    for (const auto& thrower : throwers) try {
        thrower();
      } catch (const Error& error) {
        EXPECT_TRUE(is_safe(error.what())) << error.what();
        EXPECT_EQ(Error(error.what()).what(), std::string_view{error.what()}) << "written once";
      }
    EXPECT_TRUE(is_safe(text_of(std::make_exception_ptr(std::runtime_error(text)))));
  }
  EXPECT_STREQ(Error("two\nlines").what(), "two\nlines");
}

TEST(Errors, NameWhatIsPendingSafely) {
  const DeadlineExceeded error("late", {}, {"all_reduce(1 x f32, operation \"\x1b[2J\")"});
  EXPECT_TRUE(is_safe(error.pending().front())) << error.pending().front();
}

}  // namespace
}  // namespace capstan
