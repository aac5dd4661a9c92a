// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/custom_algorithm.hpp"
#include "core/schedule/interchange/schedule_set.hpp"

namespace capstan {

/// The algorithms that the program has added, for all communicators of the process. Nothing is ever
/// removed. Thread-safe.
class AddedAlgorithms {
 public:
  static AddedAlgorithms& of_process();

  void add(CustomAlgorithm algorithm);
  /// Schedules of an algorithm for their number of ranks. `source` is named in messages.
  void add(ScheduleSet set, const std::string& source);
  /// Once for each file, however its path is spelt.
  void add_paths(const std::string& paths);

  /// The algorithm that a rule names, proven for these hosts. Null: it has none for so many ranks.
  /// Throws AlgorithmRefused, and InvalidArgument for a name that nobody knows.
  const Algorithm* find(Collective collective, std::string_view name, const Hosts& hosts);
  /// Throws InvalidArgument for a name that nobody knows. Proves nothing, and gives null for one
  /// that was added.
  const Algorithm* check_name(Collective collective, std::string_view name);
  /// The names of all that were added, in rising order.
  std::vector<std::string> names(Collective collective);

 private:
  /// An algorithm for some hosts, proven.
  struct Instance {
    std::unique_ptr<const ScheduleSource> source;
    Algorithm algorithm;
  };
  struct Entry {
    std::string name, summary;
    Collective collective{};
    CustomAlgorithm function{};                        ///< or
    std::map<int, ScheduleSet> schedules;              ///< by number of ranks
    std::map<std::vector<int>, Instance> instances{};  ///< by the host of each rank
  };
  using Key = std::pair<Collective, std::string>;

  Entry& entry_of(Collective collective, const std::string& name);
  Entry* known(Collective collective, std::string_view name);
  static Instance prove(const Entry& entry, const Hosts& hosts);

  std::recursive_mutex mutex_;  // functions of the program are asked meanwhile
  std::map<Key, Entry> entries_;
  std::set<std::string> paths_;  // without links and detours
};

}  // namespace capstan
