// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tools/launcher/child.hpp"
#include "core/tools/launcher/host_list.hpp"
#include "core/tools/launcher/host_protocol.hpp"
#include "core/tools/launcher/orphan_guard.hpp"
#include "core/tools/launcher/output.hpp"
#include "core/tools/launcher/ranks.hpp"

namespace capstan::launcher {

/// The ranks of a job that run on another host, and how to start them there.
struct RemoteHostOptions {
  HostSlots place;
  std::vector<std::string> agent;  ///< starts Capstan's daemon there, through ssh for example
  nlohmann::json start;            ///< the daemon's orders
  bool feeds_input = false;        ///< rank 0 is there and gets this process's standard input
  std::chrono::milliseconds answer_timeout{60000};  ///< for the daemon to answer
};

/// The ranks of another host, seen through the daemon there.
class RemoteHost final : public Ranks {
 public:
  /// Starts the agent, whose complaints go to `errors`. All three must outlive this. Throws
  /// CannotRun, SystemError.
  RemoteHost(RemoteHostOptions options, RankListener& listener, Outlet& errors, OrphanGuard& guard);
  /// Kills the agent, at which the daemon ends its ranks.
  ~RemoteHost() override;
  RemoteHost(const RemoteHost&) = delete;

  void watch(std::vector<pollfd>& entries) const override;
  void handle(std::span<const pollfd> entries) override;
  Deadline due() const override;
  void send_signal(int signal) override;
  bool finished() const override;

 private:
  void read_messages();
  void take(const nlohmann::json& message);
  void take_hello(const nlohmann::json& message);
  void forward_errors();
  void feed_input();
  void say(const nlohmann::json& message);
  void flush();
  void reap();
  void kill_agent(int signal);
  void lose(const std::string& what, int exit_status);
  std::string agent_text() const;

  const RemoteHostOptions options_;
  RankListener& listener_;
  OrphanGuard& guard_;
  Child agent_;
  FileDescriptor control_;  ///< the daemon's standard input
  std::string outgoing_;
  HostMessageReader reader_{true};
  LineForwarder errors_;
  Deadline answer_due_;
  std::size_t input_in_flight_ = 0;
  int left_;  ///< ranks that have not ended
  int agent_status_ = 0;
  bool agent_runs_ = true;
  bool answered_ = false;
  bool feeding_;
  bool kill_asked_ = false;
  bool lost_ = false;
};

}  // namespace capstan::launcher
