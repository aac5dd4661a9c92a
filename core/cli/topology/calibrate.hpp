#pragma once

#include <optional>
#include <string>

namespace capstan::cli {

/// The file that `capstan calibrate` writes for this machine, and `--topology here` reads:
/// capstan/clusters/ID.json in XDG_CONFIG_HOME or ~/.config. Empty without a home.
std::string calibrated_file();

/// Measures, as one of the ranks that were started, what links and ranks take. Returns the cluster
/// as a topology file on rank 0, and nothing on the others.
std::optional<std::string> calibrate_as_rank();

}  // namespace capstan::cli
