// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/profiles/machine_state.hpp"
#include "core/profiles/profile.hpp"

namespace capstan::cli {

/// The file that `capstan calibrate` writes for this machine, and `--topology here` reads:
/// capstan/clusters/ID.json in XDG_CONFIG_HOME or ~/.config. Empty without a home.
std::string calibrated_file();

/// The results of a calibration.
struct Calibrated {
  std::string cluster;  ///< a topology file, for simulations
  MeasuredGroup group;  ///< without cells, but with a model, if that was asked for
  MachineState state;   ///< of the machine meanwhile
};

/// Measures, as one of the ranks that were started, what links and ranks take, and if asked for,
/// fits the model that chooses algorithms. Twice, if the machine was busy: the less disturbed
/// result counts. Nothing on other ranks than rank 0.
std::optional<Calibrated> calibrate_as_rank(bool fits_model);

}  // namespace capstan::cli
