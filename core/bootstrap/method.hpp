// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/settings.hpp"
#include "core/bootstrap/launchers/launch.hpp"

namespace capstan {

/// A way for the ranks of a job to find their store; join() says what each method does.
enum class Method { alone, launchers_store, set_address, pmix, pmi, this_host };

/// The method, and why it is not another, for people to read.
struct ChosenMethod {
  Method method;
  std::string reason;
};

/// Throws BootstrapError if no method fits, or the one that is set does not.
ChosenMethod choose_method(const Launch& launch, Bootstrap bootstrap);

/// The launcher has said that the job has ranks on other hosts, too.
bool on_several_hosts(const Launch& launch);

}  // namespace capstan
