// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

namespace capstan::launcher {

/// Prints to standard error. Where that is closed, full or read by nobody, the text is lost and
/// nothing else happens: no exception, no SIGPIPE.
inline void say_on_stderr(std::string_view text) {
  sigset_t pipe, pending, previous;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &previous);
  static_cast<void>(!std::fwrite(text.data(), 1, text.size(), stderr));
  constexpr std::timespec at_once{};
  if (::sigismember(&pending, SIGPIPE) == 0) ::sigtimedwait(&pipe, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

template <class... Values>
void complain(fmt::format_string<Values...> format, Values&&... values) {
  say_on_stderr(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace capstan::launcher
