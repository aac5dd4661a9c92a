// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/collective.hpp"
#include "capstan/hosts.hpp"
#include "core/schedule/proof/machine.hpp"

namespace capstan::proof {

/// The claims that a sequence of calls is held to, beyond the contracts of its collectives.
struct Claims {
  bool ordered = false;           ///< see Guarantees
  bool same_sums = false;         ///< see Guarantees
  bool left_fold = false;         ///< see Guarantees
  bool rank_ordered_sum = false;  ///< see Guarantees
  bool host_ordered_sum = false;  ///< see Guarantees
  /// The hosts of host_ordered_sum, kept by reference. Null: it is not looked at.
  const Hosts* hosts = nullptr;
};

/// The facts that hold for the results, whether or not they were claimed.
struct ResultFacts {
  bool ordered = true, same_sums = true, left_fold = true, rank_ordered_sum = true;
  bool host_ordered_sum = true;
};

/// The inputs and outputs of a sequence of blocks, according to their contracts.
class BlockLayout : public Layout {
 public:
  /// The instance that inputs and outputs of a block have.
  struct Block {
    Collective collective;
    Shape shape;
    int ranks;
    Claims claims;

    Contract contract() const { return {collective, shape, ranks}; }
  };

  explicit BlockLayout(bool in_place) : in_place_(in_place) {}

  /// Appends a block.
  void add(const Block& block);
  std::span<const Block> blocks() const { return blocks_; }
  bool in_place() const { return in_place_; }

  Elements extent(const Memory& memory) const override;
  Piece home(const Piece& piece) const override;

  /// Reports each output element that does not hold what its contract promises.
  ResultFacts check_results(Machine& machine) const;

 protected:
  /// The extent of a memory that is neither input nor output.
  virtual Elements extent_of_other(const Memory& memory) const = 0;

 private:
  /// Where the inputs and outputs of a block lie, by rank.
  struct Places {
    ByRank<BufferLengths> lengths{};
    ByRank<Contract::Placement> placements{};
  };
  void check_result(Machine& machine, int number, Rank rank, Elements index,
                    ResultFacts& facts) const;
  std::string describe(const Values& values, ValueId value) const;

  bool in_place_;
  std::vector<Block> blocks_;
  std::vector<Places> places_;
};

}  // namespace capstan::proof
