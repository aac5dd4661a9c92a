#pragma once

#include <functional>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/collective.hpp"
#include "capstan/schedule.hpp"
#include "core/ir/proof/machine.hpp"

namespace capstan::proof {

/// The findings of a proof; without any, the proof has succeeded.
struct Result {
  std::vector<Finding> findings;
  bool ok() const { return findings.empty(); }
};

/// The order in which the phases of a stream's blocks run: round t runs phase k of block t-k.
void for_each_phase(int blocks, int phases, const std::function<void(int block, int phase)>& visit);

/// The inputs and outputs of a sequence of blocks, according to their contracts.
class BlockLayout : public Layout {
 public:
  explicit BlockLayout(bool in_place) : in_place_(in_place) {}

  /// Appends a block; `shape` is copied.
  void add(Collective collective, const Shape& shape, int ranks, bool ordered);

  Elements extent(const Memory& memory) const override;
  Piece home(const Piece& piece) const override;

  /// Reports each output element that does not hold what its contract promises.
  void check_results(Machine& machine) const;

 protected:
  /// The extent of a memory that is neither input nor output.
  virtual Elements extent_of_other(const Memory& memory) const = 0;

 private:
  struct Block {
    Collective collective;
    Shape shape;
    int ranks;
    bool ordered;
    ByRank<BufferLengths> lengths;
    ByRank<Contract::Placement> placements;
  };
  void check_result(Machine& machine, int block, Rank rank, Elements index) const;

  bool in_place_;
  std::vector<Block> blocks_;
};

struct ProofOptions {
  int calls = 4;             ///< back to back, without a barrier in between
  int slots = 2;             ///< over which scratch rotates
  bool in_place = false;     ///< output and input share memory
  int blocks = 1;            ///< more than 1: each call is a stream of this many blocks
  bool synchronizes = true;  ///< see Guarantees; if not, slots are acquired before they are reused
  bool bounded_skew = true;  ///< the same as `synchronizes`, within streams
  bool ordered = false;      ///< see Guarantees
};

/// Proves that the schedules of all ranks together do what the collective promises, in every
/// interleaving and however late puts land: no deadlock, no race, every contribution in its place
/// exactly once, also when calls follow one another.
Result prove_schedules(Collective collective, const Shape& shape, const ByRank<Schedule>& schedules,
                       const ProofOptions& options = {});

}  // namespace capstan::proof
