// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "capstan/deadline.hpp"
#include "core/bootstrap/launchers/pmi_line.hpp"
#include "core/platform/net/file_descriptor.hpp"

namespace capstan::pmi {

/// A rank's end of a conversation with its launcher in PMI's wire protocol, version 1:
///
///   init ------------------> get_maxes -> get_my_kvsname -> put | barrier_in | get -> finalize
///    (once, or MPI has done it)                                 (again and again)
///
/// Each line that is sent gets one line in answer. Other ranks may get a value once all ranks of
/// the job have been in a barrier after its put. The launcher is not trusted to answer in time, or
/// in PMI.
///
/// Calls throw BootstrapError, or TimedOut when the deadline passes. All further calls then throw
/// BootstrapError, as a later line could not be told from the missing one. Not thread-safe.
class Client {
 public:
  enum class Start { new_conversation, another_has_said_init };

  /// `socket` may be shared: its settings stay, and nothing is read beyond an answer.
  Client(FileDescriptor socket, Start start, Deadline deadline);
  /// Connects as process `id` of the launcher's. The launcher answers with its rank.
  Client(FileDescriptor socket, int id, Deadline deadline);

  /// Rank and size, if the launcher has sent them.
  std::optional<std::pair<int, int>> place() const { return place_; }

  /// A key serves once; neither key nor value has blanks.
  void put(const std::string& key, const std::string& value, Deadline deadline);
  std::string get(const std::string& key, Deadline deadline);
  /// Waits for all ranks of the job.
  void barrier(Deadline deadline);
  /// Tells the launcher that this process ends, which it would otherwise take for a crash. The last
  /// call, also after an error.
  void take_leave(Deadline deadline);

 private:
  Line ask(const Line& request, std::string_view expected, Deadline deadline);
  void begin(Start start, Deadline deadline);
  /// The number that the launcher sends unasked.
  int setting(std::string_view name, Deadline deadline);
  Line receive(std::string_view expected, Deadline deadline);
  void send_line(std::string_view line, Deadline deadline);
  std::string receive_line(Deadline deadline);
  void wait_for_launcher(short events, Deadline deadline);
  [[noreturn]] void fail(const std::string& what);
  [[noreturn]] void fail_with(int error);

  FileDescriptor socket_;
  std::string name_;  ///< of the job's values
  std::size_t longest_value_ = 0;
  std::string asked_;  ///< the command of the last line that was sent
  std::optional<std::pair<int, int>> place_;
  std::string begun_;    ///< the received part of a line
  std::string failure_;  ///< why the conversation is over
};

}  // namespace capstan::pmi
