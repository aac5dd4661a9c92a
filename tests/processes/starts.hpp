// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace capstan {

using Words = std::vector<std::string>;

enum class Stream { usable, closed, full, unread, stopped };
enum class Signals { usual, children_ignored, blocked, pipe_ignored };

inline constexpr std::array streams{Stream::usable, Stream::closed, Stream::full, Stream::unread};
inline constexpr std::array kinds_of_signals{Signals::usual, Signals::children_ignored,
                                             Signals::blocked, Signals::pipe_ignored};

/// How a parent may leave signals, streams and children to a program that it becomes.
struct Start {
  std::array<Stream, 3> descriptors{};
  Signals signals = Signals::usual;
  int stopped = -1;        ///< the pipe for streams whose reader has stopped
  bool has_child = false;  ///< it has a child of before, which keeps its streams
};

std::string describe(const Start& start);

/// Starts the command. The child of before ends with it.
pid_t begin(const Start& start, const Words& command);

/// As a shell has it; -1 if it does not end by itself.
int status_of(pid_t pid);

/// `capstan` with these words.
pid_t begin_capstan(const Start& start, const Words& words);
int outcome(const Start& start, const Words& words);

/// Two ranks that run this script of the shell.
Words run(const std::string& script);

}  // namespace capstan
