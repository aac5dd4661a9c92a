// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/run/engine.hpp"
#include "core/schedule/selection/model_scale.hpp"

namespace capstan::cli {

/// Times some calls of a few sizes in each way that can run them, for about a second, and fits the
/// model to them. All ranks call it; rank 0 gets the scale, the others the defaults.
ModelScale measure_model(Engine& engine);

}  // namespace capstan::cli
