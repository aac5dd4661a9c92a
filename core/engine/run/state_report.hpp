// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "core/engine/control/process.hpp"
#include "core/engine/control/wait.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

/// The state of a communicator as one rank knows it at one moment: what the rank does itself, and
/// what the others have published.
struct StateReport {
  /// A rank of the communicator.
  struct Member {
    Rank rank, world_rank;
    std::string name;  ///< with host and process
    Process process;
    std::uint64_t begun = 0, finished = 0;  ///< numbers of the last calls that are known of it
    Wait wait{};                            ///< what it has told that it waits for
    std::optional<std::string> departed{};  ///< why it can no longer answer
    bool stopped = false;
  };
  /// An operation of this rank that has not ended.
  struct Pending {
    std::string text;        ///< the call, or the message
    std::string position{};  ///< what it waits for; empty where it has not begun
    bool begun = false;
    std::uint64_t number = 0;  ///< of the call
    std::vector<Rank> peers{};
    std::chrono::milliseconds waited{};
    std::uint32_t step = 0, steps = 0;
    std::string collective{}, type{};
    std::uint64_t input_bytes = 0, output_bytes = 0;
  };

  Rank self;
  std::string group;  ///< " of the group of ..."; empty for the world
  std::vector<Member> members{};
  std::vector<Pending> pending{};
  std::optional<std::string> failure{};
  std::string verdict{};  ///< who keeps this rank waiting; empty if it does not wait
  std::vector<Culprit> culprits{};
};

std::string to_text(const StateReport& report);

}  // namespace capstan
