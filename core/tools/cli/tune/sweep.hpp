// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "capstan/collective.hpp"
#include "core/profiles/profile.hpp"
#include "perf/report/origin.hpp"

namespace capstan::cli {

/// The cells that `capstan tune` measures, and how it does so.
struct SweepPlan {
  std::vector<Collective> collectives;
  std::vector<Bytes> sizes;
  double seconds = 0.3;  ///< for each cell, about
  std::string vendor{};  ///< of devices, in whose memory calls are measured; empty: of the host
  std::string file;      ///< the profile
  bool restart = false;  ///< measures again what the file has
  std::string under_load;
  bool accepts_load = false;  ///< cells count although the machine is busy
  std::string command{};      ///< that measures, and the commit of its program
  std::string commit{};
  std::string json{};  ///< of --json: a file for all times; empty: none
  report::Facts origin{};
};

/// The profile in a file, for this machine and version; a new one if there is no file, or if one of
/// others is to be begun anew. Throws InvalidArgument for files that are bad or of others.
Profile profile_to_continue(const SweepPlan& plan);

/// Measures as one rank of the job that a launcher has started. Rank 0 writes the profile after
/// each cell. Returns the exit status.
int sweep_as_rank(const SweepPlan& plan);

}  // namespace capstan::cli
