// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "capstan/blocks.hpp"
#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The operation that a call carries out, as in MPI. Names that end in _v take a count per rank.
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

/// The call has a root: one rank whose part differs from that of all others.
bool has_root(Collective collective);
/// The call combines elements by a reduction operation.
bool reduces(Collective collective);
/// Ranks give or get different numbers of elements: see Shape::counts.
bool has_counts(Collective collective);
/// Whether a rank that calls this in place would overwrite parts of its input that peers may have
/// yet to read.
bool overwrites_input(Collective collective);

/// The sizes of one call. A schedule depends on nothing else but the group.
struct Shape {
  /// Elements of the whole buffer (broadcast, reduce, all_reduce, scan, exscan) or of one block
  /// (all_gather and gather: the block that a rank gives; reduce_scatter and scatter: the block
  /// that a rank gets; all_to_all: the block from each rank to each). Unused where there are
  /// counts.
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

/// The result that a collective promises to the ranks of a group, for one shape. Proofs, plans and
/// checks of calls all use this one description.
class Contract {
 public:
  /// `shape` is kept by reference.
  Contract(Collective collective, const Shape& shape, int ranks)
      : collective_(collective), shape_(shape), ranks_(ranks) {}

  Collective collective() const { return collective_; }
  BufferLengths lengths(int position) const;

  /// The blocks of a buffer, one per rank; empty where the buffer is not divided.
  std::optional<Blocks> input_blocks(int position) const;
  std::optional<Blocks> output_blocks(int position) const;

  /// The offsets of input and output in the memory that they share in place: a rank's own block
  /// inside the larger buffer (all_gather, gather, reduce_scatter, scatter), or the same offset. An
  /// all_to_all_v cannot be done in place: its two buffers lie side by side.
  struct Placement {
    Elements input{}, output{};
  };
  Placement in_place(int position) const;

  /// The value of an output element: one element of the input of one rank, or the sum of that
  /// element over ranks first .. last.
  struct Promise {
    int first = 0, last = 0;  ///< contributions of these ranks; none when last < first
    Elements index{};         ///< in their inputs
  };
  Promise promise(int position, Elements index) const;

  /// The length of the largest buffer of any rank: the size that rules and tables mean.
  Elements extent() const;
  /// The length of the largest output of any rank. It costs a look at each rank.
  Elements largest_output() const;
  /// The mean length of a block, or the count where there are no blocks. Costs are estimated from
  /// it.
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
