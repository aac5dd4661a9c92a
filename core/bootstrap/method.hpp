#pragma once

#include <string>

#include "capstan/settings.hpp"
#include "core/bootstrap/launchers/launch.hpp"

namespace capstan {

/// How the ranks of a job find their store; join() has what each does.
enum class Meeting { alone, launchers_store, set_address, pmix, pmi, this_host };

/// One of these, and why it is not another: for whoever wants to know.
struct ChosenMeeting {
  Meeting way;
  std::string reason;
};

/// Throws BootstrapError if there is none, or not the one that is set.
ChosenMeeting choose_meeting(const Launch& launch, Bootstrap bootstrap);

/// Whether the launcher has said so.
bool on_several_hosts(const Launch& launch);

}  // namespace capstan
