// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/deadline.hpp"

namespace capstan::launcher {

enum class Stream { output, errors };

/// Receives the output and the end of ranks.
class RankListener {
 public:
  virtual ~RankListener() = default;
  /// A rank has written `bytes`; empty: the rank writes no more to this stream.
  virtual void on_output(int rank, Stream stream, std::string_view bytes) = 0;
  /// False: the output is not to be read for now.
  virtual bool takes_output() const { return true; }
  /// `status` is that of waitpid(2); `where` is " on host a", or empty for this host.
  virtual void on_end(int rank, pid_t pid, int status, const std::string& where) = 0;
  /// Ranks could not be started: why, and the exit status for the shell.
  virtual void on_trouble(const std::string& what, int exit_status) = 0;
  /// Ranks that were running are lost.
  virtual void on_loss(const std::string& what) { on_trouble(what, 1); }
};

/// Ranks of a job in one place. Their owner calls poll(2) for them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  /// Adds the descriptors that these ranks wait for, always the same number of entries.
  virtual void watch(std::vector<pollfd>& entries) const = 0;
  /// Handles the same entries after the poll.
  virtual void handle(std::span<const pollfd> entries) = 0;
  /// The latest time for the next call of handle().
  virtual Deadline due() const { return Deadline::never(); }
  /// Sends a signal to all ranks and the processes that they have started.
  virtual void send_signal(int signal) = 0;
  /// Whether all ranks have ended and all their output has been passed on.
  virtual bool finished() const = 0;
};

/// Polls all `ranks` and `more` once, until `deadline` at most. Returns the events of the entries
/// of `more`.
std::vector<short> poll_ranks(std::span<Ranks* const> ranks, std::vector<pollfd> more,
                              Deadline deadline);

}  // namespace capstan::launcher
