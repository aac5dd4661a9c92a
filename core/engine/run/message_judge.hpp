// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/run/engine.hpp"

namespace capstan {

/// Makes the errors of messages that end without their peers.
class Engine::Judge final : public Messages::Judge {
 public:
  Judge(Engine& engine, Time now) : engine_(engine), now_(now) {}

  std::optional<std::string> gone(Rank peer) override;
  bool all_losses_are_known() override;
  std::exception_ptr lost(const Messages::MessageTransfer& transfer, Rank peer,
                          const std::string& reason) override;
  /// The error of a probe whose source, or whose every source, is gone; null otherwise.
  std::exception_ptr lost_probe(const Messages::MessageTransfer& wanted);
  bool is_late(Time::duration waited) override { return engine_.is_late(waited); }
  std::exception_ptr late(const Messages::MessageTransfer& transfer, Rank peer,
                          Time::duration waited) override;

 private:
  std::exception_ptr noted(std::exception_ptr error);

  Engine& engine_;
  const Time now_;
  std::vector<Rank> dead_;
};

}  // namespace capstan
