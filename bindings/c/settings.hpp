// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/c/capstan.h"
#include "capstan/settings.hpp"

namespace capstan::c {

/// The environment's settings, but for what is set here; null: nothing is.
Settings to_settings(const capstan_settings* given);

/// One of CAPSTAN_REPRODUCIBLE_...
Reproducible to_promise(std::int32_t promise);

}  // namespace capstan::c
