// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "capstan/hosts.hpp"
#include "core/schedule/selection/link_model.hpp"

namespace capstan {

/// Constants of LinkModel that differ together from machine to machine.
struct ModelFactor {
  std::string_view name;  ///< as profiles have it
  std::span<double LinkModel::* const> constants;
};

inline constexpr std::size_t model_factor_count = 19;
const std::array<ModelFactor, model_factor_count>& model_factors();

/// Factors for the constants of a LinkModel, one for each of model_factors(): how many times as
/// large a machine's constants are as the defaults. A value.
struct ModelScale {
  std::array<double, model_factor_count> factors = [] {
    std::array<double, model_factor_count> ones{};
    ones.fill(1);
    return ones;
  }();

  LinkModel applied(LinkModel model) const;
  bool operator==(const ModelScale&) const = default;
};

/// The scales that were fitted to measurements with some numbers of ranks.
class ModelScales {
 public:
  void add(int ranks, bool on_one_host, const ModelScale& scale);
  /// The scale that was measured with about as many ranks: on one host, or on several. Where
  /// nothing was measured on several hosts, that of one host; else the defaults.
  ModelScale at(const Hosts& hosts) const;
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    int ranks;
    bool on_one_host;
    ModelScale scale;
  };
  const Entry* nearest(int ranks, bool on_one_host) const;
  std::vector<Entry> entries_;
};

}  // namespace capstan
