// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tools/launcher/child.hpp"
#include "core/tools/launcher/orphan_guard.hpp"
#include "core/tools/launcher/ranks.hpp"

namespace capstan::launcher {

/// The ranks of a job that run on this host, and how to start them.
struct LocalRanksOptions {
  int first = 0;
  int count = 1;
  int size = 1;  ///< of the whole job
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  ///< of the job
  bool bind = true;
  int input = -1;  ///< standard input of rank 0, if rank 0 is here; -1: none
};

/// The ranks of this host, as processes that die with this one.
class LocalRanks final : public Ranks {
 public:
  /// `listener` and `guard` must outlive this.
  LocalRanks(LocalRanksOptions options, RankListener& listener, OrphanGuard& guard)
      : options_(std::move(options)), listener_(listener), guard_(guard) {}
  /// Kills the ranks that still run.
  ~LocalRanks() override;
  LocalRanks(const LocalRanks&) = delete;

  /// Throws CannotRun, SystemError.
  void start();

  void watch(std::vector<pollfd>& entries) const override;
  void handle(std::span<const pollfd> entries) override;
  Deadline due() const override;
  void send_signal(int signal) override;
  bool finished() const override;

 private:
  struct Process {
    int rank;
    Child child;
    bool running = true;
  };

  /// `all`: the processors that are divided among the ranks.
  std::vector<std::pair<std::string, std::string>> environment_of(int rank, const CpuSet& cpus,
                                                                  const CpuSet& all) const;
  void forward(Process& process, Stream stream);
  void reap(Process& process);
  void drain(Process& process, Stream stream);

  LocalRanksOptions options_;
  RankListener& listener_;
  OrphanGuard& guard_;
  std::vector<Process> processes_;
};

}  // namespace capstan::launcher
