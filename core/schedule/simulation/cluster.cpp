// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulation/cluster.hpp"

namespace capstan {
namespace {

struct CostName {
  std::string_view name;
  double RankCosts::* member;
};

constexpr CostName names[] = {
    {"call", &RankCosts::call},           {"send", &RankCosts::send},
    {"receive", &RankCosts::receive},     {"cpu-byte", &RankCosts::cpu_byte},
    {"signal", &RankCosts::signal},       {"flag", &RankCosts::flag},
    {"copy-byte", &RankCosts::copy_byte}, {"reduce-byte", &RankCosts::reduce_byte}};

}  // namespace

RankCosts gpu_costs() {
  RankCosts costs;
  costs.copy_byte = 1 / 2000.0;
  costs.reduce_byte = 0;
  return costs;
}

double* cost_named(RankCosts& costs, std::string_view name) {
  for (const CostName& known : names)
    if (known.name == name) return &(costs.*known.member);
  return nullptr;
}

std::string cost_names() {
  std::string all;
  for (const CostName& known : names) all += (all.empty() ? "" : ", ") + std::string{known.name};
  return all;
}

}  // namespace capstan
