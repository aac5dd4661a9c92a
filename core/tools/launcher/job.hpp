// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tools/launcher/output.hpp"
#include "core/tools/launcher/ranks.hpp"
#include "core/tools/launcher/signals.hpp"

namespace capstan::launcher {

/// Output and time limits of a job.
struct JobOptions {
  int size = 1;
  bool tag_lines = true;
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds grace{3000};
  bool keep_going = false;  ///< a rank that fails ends no others
};

/// Supervises all ranks of a job on all hosts: prints their output, forwards signals, and ends all
/// ranks when one fails, when the time is up, or when this process is told to end. After a failure
/// it waits for `patience` first, so that the others can report what they have noticed of it.
class Job final : public RankListener {
 public:
  static constexpr std::chrono::milliseconds patience{500};

  /// `signals` must outlive this.
  Job(const JobOptions& options, const SignalSource& signals);

  void add(std::unique_ptr<Ranks> ranks) { ranks_.push_back(std::move(ranks)); }
  /// Returns when all ranks have ended and what they have printed has been written: the exit status
  /// for the shell. Told to end, it gives up what nobody reads.
  int run();
  Outlet& errors() { return errors_; }

  void on_output(int rank, Stream stream, std::string_view bytes) override;
  void on_end(int rank, pid_t pid, int status, const std::string& where) override;
  void on_trouble(const std::string& what, int exit_status) override;
  void on_loss(const std::string& what) override;
  bool takes_output() const override { return !output_.is_full() && !errors_.is_full(); }

 private:
  struct Lines {
    LineForwarder output, errors;
  };

  bool finished() const;
  bool all_written() const { return output_.empty() && errors_.empty(); }
  void write_output();
  void pass_on_signal();
  void notice_lost_output();
  template <class... Values>
  void say(fmt::format_string<Values...> format, Values&&... values) {
    errors_.add("capstan run: " + fmt::format(format, std::forward<Values>(values)...) + "\n");
  }
  void take_failure(const std::string& what, int exit_status);
  void end_all();
  void expire();
  void send_signal(int signal);

  const JobOptions options_;
  const SignalSource& signals_;
  Outlet output_{STDOUT_FILENO}, errors_{STDERR_FILENO};
  std::vector<Lines> lines_;
  std::vector<std::unique_ptr<Ranks>> ranks_;
  Deadline deadline_;
  bool failed_ = false;  ///< a rank; the others are ended at the deadline
  bool ending_ = false;
  bool told_to_end_ = false;  ///< by a signal, or as the time is up
  bool killed_ = false;
  bool output_lost_ = false;
  int status_ = 0;  ///< of the first failure
};

}  // namespace capstan::launcher
