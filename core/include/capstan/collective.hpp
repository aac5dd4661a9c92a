#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "capstan/blocks.hpp"
#include "capstan/quantity.hpp"

namespace capstan {

/// What a call does, seen from outside; as in MPI. The names that end in _v take a count per rank.
enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  scan,    ///< rank r gets the sum over ranks 0 .. r
  exscan,  ///< rank r gets the sum over ranks 0 .. r-1; rank 0 gets nothing
  all_gather_v,
  reduce_scatter_v,
  gather_v,
  scatter_v,
  all_to_all_v
};

/// All collectives in declaration order.
std::span<const Collective> all_collectives();

/// "all_reduce".
std::string_view name_of(Collective collective);
/// The inverse of name_of; empty when `name` is none of them.
std::optional<Collective> collective_named(std::string_view name);

/// One rank gives, or gets, what the others do not.
bool has_root(Collective collective);
/// Elements are combined by a reduction operation.
bool reduces(Collective collective);
/// Ranks give or get different numbers of elements: `Shape::counts` tells.
bool has_counts(Collective collective);
/// Whether a rank that calls this in place would overwrite parts of its input that peers may have
/// yet to read.
bool overwrites_input(Collective collective);

/// The sizes of one call: what an algorithm is built for, besides its group.
struct Shape {
  /// Elements of the whole buffer (broadcast, reduce, all_reduce, scan, exscan) or of one block
  /// (all_gather and gather: what a rank gives; reduce_scatter and scatter: what a rank gets;
  /// all_to_all: what each rank gives to each). Unused where there are counts.
  Elements count{};
  /// The root's position in the group.
  int root = 0;
  /// _v forms: the length of each rank's block. all_to_all_v: counts[i·p + j] goes from i to j.
  std::vector<Elements> counts{};

  bool operator==(const Shape&) const = default;
};

/// The lengths of a rank's input and output.
struct BufferLengths {
  Elements input, output;
};

/// What a collective promises to the ranks of a group, at one shape: the one description that
/// proofs, plans and calls are held to.
class Contract {
 public:
  /// `shape` is kept by reference.
  Contract(Collective collective, const Shape& shape, int ranks)
      : collective_(collective), shape_(shape), ranks_(ranks) {}

  Collective collective() const { return collective_; }
  BufferLengths lengths(int position) const;

  /// The blocks that a buffer is made of, one per rank; nothing where it is one whole.
  std::optional<Blocks> input_blocks(int position) const;
  std::optional<Blocks> output_blocks(int position) const;

  /// In place, input and output share memory. Where each begins in it: a rank's own block inside
  /// the larger buffer (all_gather, gather, reduce_scatter, scatter), or the same place. An
  /// all_to_all_v cannot be done in place: there the two lie side by side.
  struct Placement {
    Elements input{}, output{};
  };
  Placement in_place(int position) const;

  /// What an element of the output has to hold: one element of the input of one rank, or the sum
  /// of that element over ranks 0 .. last.
  struct Promise {
    int first = 0, last = 0;  ///< contributions of these ranks; none when last < first
    Elements index{};         ///< in their inputs
  };
  Promise promise(int position, Elements index) const;

  /// The larger of all buffers, in elements: how size is understood in rules and tables.
  Elements extent() const;
  /// The length of a block on average, or the count where there are no blocks: what costs are
  /// estimated from.
  Elements typical_count() const;

 private:
  Blocks per_rank() const;
  Blocks sent_by(int position) const;
  Blocks received_by(int position) const;

  Collective collective_;
  const Shape& shape_;
  int ranks_;
};

}  // namespace capstan
