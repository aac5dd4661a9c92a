// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/types.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/schedule/lowering/protocol.hpp"

namespace capstan {

/// The facts of a call that rules ask for.
struct RuledCall {
  Collective collective = Collective::all_reduce;
  Bytes bytes{};  ///< of the largest buffer
  int ranks = 1, hosts = 1;
  DataType type = DataType::f32;
  MemoryKind memory{};
};

/// Numbers from `least` to `most`, both included.
struct NumberRange {
  int least = 0, most = std::numeric_limits<int>::max();
  bool contains(int number) const { return least <= number && number <= most; }
};

/// "For such calls run this algorithm", as users write it in Settings::algorithm.
class AlgorithmRules {
 public:
  /// Parses "all_reduce:0-4k:flat,4k-1m:direct,1m-inf:ring", where sizes are bytes, k, m and g are
  /// powers of 1024 and the upper bound is exclusive; several collectives are separated by ';'.
  /// A collective followed by a name alone means all calls. Other conditions may stand beside the
  /// sizes or instead of them, with spaces between: "0-4k ranks=2-8 hosts=1 type=f32|f64
  /// memory=device:flat", where bounds are inclusive. A name may say how data travel, too:
  /// "direct/staged" (see Protocol), and in which share of the usual blocks: "direct/staged/4".
  /// Empty text has no rules. Throws InvalidArgument with the column and the part that it could not
  /// read, and an example.
  static AlgorithmRules parse(std::string_view text) { return parse(text, built_in); }

  /// Finds an algorithm by its name, or throws InvalidArgument. Null: it does not serve here, and
  /// its rules are left out.
  using Lookup = std::function<const Algorithm*(Collective, std::string_view name)>;
  static AlgorithmRules parse(std::string_view text, const Lookup& lookup);

  struct Rule {
    const Algorithm* algorithm;
    std::optional<Protocol> protocol{};
    std::uint64_t times_shorter = 1;  ///< see Choice
    Bytes from{0}, to{std::numeric_limits<std::uint64_t>::max()};
    NumberRange ranks{}, hosts{};
    std::vector<DataType> types{};  ///< empty: all
    std::optional<MemoryKind> memory{};
    std::string text{};  ///< as it was written

    bool matches(const RuledCall& call) const;
  };
  bool empty() const { return rules_.empty(); }
  std::span<const Rule> all() const { return rules_; }
  /// The first rule that matches, or null.
  const Rule* find(const RuledCall& call) const;

 private:
  static const Algorithm* built_in(Collective collective, std::string_view name) {
    return &algorithm_named(collective, name);
  }

  std::vector<Rule> rules_;
};

/// "64", "4k", "1m", "2g", "inf". Empty when `text` is none of that or exceeds 64 bits.
std::optional<Bytes> parse_bytes(std::string_view text);

}  // namespace capstan
