#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "algorithms/registry.hpp"
#include "core/lowering/protocol.hpp"

namespace capstan {

/// "At this message size run this algorithm", as users write it in Settings::algorithm.
class AlgorithmRules {
 public:
  /// Parses "all_reduce:0-4k:flat,4k-1m:direct,1m-inf:ring", where sizes are bytes, k, m and g are
  /// powers of 1024 and the upper bound is exclusive; several collectives are separated by ';'.
  /// A collective followed by a name alone means all sizes. A name may say how data travel, too:
  /// "direct/staged" (see Protocol). Empty text has no rules. Throws InvalidArgument that shows the
  /// part that it could not read and an example.
  static AlgorithmRules parse(std::string_view text) { return parse(text, built_in); }

  /// Finds an algorithm by its name, or throws InvalidArgument. Null: it does not serve here, and
  /// its rules are left out.
  using Lookup = std::function<const Algorithm*(Collective, std::string_view name)>;
  static AlgorithmRules parse(std::string_view text, const Lookup& lookup);

  struct Rule {
    Bytes from, to;
    const Algorithm* algorithm;
    std::optional<Protocol> protocol{};
  };
  bool empty() const { return rules_.empty(); }
  /// The rule for messages of `bytes`, or null.
  const Rule* find(Collective collective, Bytes bytes) const;

 private:
  static const Algorithm* built_in(Collective collective, std::string_view name) {
    return &algorithm_named(collective, name);
  }

  std::vector<Rule> rules_;
};

/// "64", "4k", "1m", "2g", "inf". Empty when `text` is none of that or exceeds 64 bits.
std::optional<Bytes> parse_bytes(std::string_view text);

}  // namespace capstan
