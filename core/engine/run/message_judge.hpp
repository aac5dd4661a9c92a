// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/run/engine.hpp"

namespace capstan {

/// Makes the errors of messages that end without their peers.
class Engine::Judge final : public Messages::Judge {
 public:
  Judge(Engine& engine, Time now) : engine_(engine), now_(now) {}

  std::optional<std::string> gone(Rank peer) override { return engine_.watchdog_.departed(peer); }
  std::exception_ptr lost(const Messages::MessageTransfer& transfer, Rank peer,
                          const std::string& reason) override;
  bool is_late(Time::duration waited) override { return engine_.is_late(waited); }
  std::exception_ptr late(const Messages::MessageTransfer& transfer, Rank peer,
                          Time::duration waited) override;

 private:
  std::exception_ptr noted(std::exception_ptr error);

  Engine& engine_;
  const Time now_;
};

}  // namespace capstan
