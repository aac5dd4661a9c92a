#pragma once

#include <string>

#include "capstan/settings.hpp"
#include "core/bootstrap/launchers/launch.hpp"

namespace capstan {

/// How the ranks of a job find their store; join() says what each does.
enum class Method { alone, launchers_store, set_address, pmix, pmi, this_host };

/// The method, and why it is not another, for people to read.
struct ChosenMethod {
  Method method;
  std::string reason;
};

/// Throws BootstrapError if no method fits, or the one that is set does not.
ChosenMethod choose_method(const Launch& launch, Bootstrap bootstrap);

/// Whether the launcher has said so.
bool on_several_hosts(const Launch& launch);

}  // namespace capstan
