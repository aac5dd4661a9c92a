// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/tools/cli/simulate/scenario.hpp"

namespace capstan::cli {

/// "12.5 MB".
std::string amount(double bytes);

/// The load of the links of one class.
struct ClassLoad {
  std::string name;
  int used = 0;
  double bytes = 0, busy = 0;  ///< of all
  LinkLoad most{};
};

/// The loads of the links in the run of the fastest way, a total for each class of links.
std::vector<ClassLoad> loads_of(const Scenario& scenario);
/// The links that are busy for longest, as many as the options ask for.
std::vector<LinkLoad> busiest(const Scenario& scenario);
std::string link_name(const Cluster& cluster, int link);

}  // namespace capstan::cli
