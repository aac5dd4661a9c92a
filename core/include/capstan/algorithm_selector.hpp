// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/export.hpp"
#include "capstan/quantity.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Chooses algorithms for a number of ranks that need not exist: nothing runs. It decides as a
/// communicator does before it has measured anything: by the rules, or else by the least time that
/// the model of this machine predicts. Profiles and trials, which a communicator knows besides, it
/// does not see: Communicator::explain() does.
///
///   capstan::AlgorithmSelector selector{8};
///   selector.select(capstan::Collective::all_reduce, capstan::Bytes{1 << 20}).algorithm;
///
/// Thread-safe. The first question about a size takes up to milliseconds, later ones a look-up.
class AlgorithmSelector {
 public:
  struct Selection {
    std::string algorithm;  ///< "ring"
    std::string protocol;   ///< how data travel: "staged"
    std::string reason;     ///< in words
  };

  /// An example of rules, by size and number of ranks: recursive doubling below 4 KiB on up to 8
  /// ranks, Rabenseifner below 1 MiB on up to 16, a ring below 16 MiB, else a tree.
  static constexpr std::string_view example_rules =
      "all_reduce:0-4k ranks=1-8:recursive_doubling,0-1m ranks=1-16:rabenseifner,0-16m:ring,"
      "16m-inf:binomial_tree;all_gather:ring;reduce_scatter:recursive_halving";

  /// `rules` as in Settings::algorithm; empty: the model decides. The ranks are spread evenly over
  /// the hosts, each of which is like this one. Throws InvalidArgument for fewer ranks than hosts,
  /// no rank, no host, and rules that cannot be read.
  explicit AlgorithmSelector(int ranks, const std::string& rules = {}, int hosts = 1);

  int ranks() const;

  /// The choice for a call whose largest buffer has so many bytes, in whole elements. Throws
  /// InvalidArgument for the collectives with a length per rank, whose names end in _v.
  Selection select(Collective collective, Bytes bytes, DataType type = DataType::f32,
                   ReduceOp op = ReduceOp::sum) const;

  /// The names of a collective's algorithms.
  static std::vector<std::string_view> names(Collective collective);
  /// The same name, or "unknown" if the collective has no such algorithm.
  static std::string_view known_name(Collective collective, std::string_view name);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace CAPSTAN_EXPORT capstan
