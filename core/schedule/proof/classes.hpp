// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/schedule/proof/block_layout.hpp"
#include "core/schedule/proof/budget.hpp"

namespace capstan::proof {

/// Cuts the memories of a proof into classes: elements that every effect treats alike.
///
/// The ends of operands are cuts. A cut inside an operand is one at the same distance in the other
/// operands of the effect, as their elements meet there. Between two cuts all elements share their
/// fate, so one of them is proven for all: the cost of a proof depends on the steps, and not on
/// lengths.
///
/// Cuts lie on axes. The inputs and outputs of a block have one axis, on which the blocks of all
/// ranks lie upon each other; where ranks have counts of their own, each count has one. Every other
/// memory has its own axis for each form of blocks, whichever slot it lies in.
class Classes {
 public:
  enum class Scratch : std::uint8_t { of_each_rank, alike };  ///< alike: on one axis for all ranks

  /// `layout` is kept by reference. Throws TooMuchWork.
  Classes(const ByRank<std::vector<Effect>>& scripts, const BlockLayout& layout, Budget& budget,
          Scratch scratch = Scratch::of_each_rank);

  /// The same effects on classes instead of elements. Those that go one by one are taken apart.
  /// Throws TooMuchWork.
  ByRank<std::vector<Effect>> reduced(ByRank<std::vector<Effect>> scripts, Budget& budget) const;
  /// A block's shape, in classes.
  Shape reduced(std::size_t block) const;
  /// The number of classes before an offset, which is a cut.
  Elements reduced(const Memory& memory, Elements offset) const;
  /// The cuts of a block without counts, from 0 to its length; and those of scratch that is alike.
  const std::vector<std::uint64_t>& cuts_of_block(std::size_t block) const {
    return sorted_[axes_of_kind_[kind_of_[block]]];
  }
  std::vector<std::uint64_t> cuts_of_scratch() const;
  /// The first element of a class.
  Elements first_element(const Memory& memory, Elements number) const;

 private:
  /// A part of memory, up to the next part. It lies on `axis`, from the beginning of that axis on.
  struct Part {
    std::uint64_t begin;
    std::uint32_t axis;
    std::uint64_t classes = 0;  ///< before it
  };
  using Parts = std::vector<Part>;
  struct Point {
    std::uint32_t axis;
    std::uint64_t offset;

    auto operator<=>(const Point&) const = default;
  };
  /// Elements that meet: a run of this length from either point on.
  struct Link {
    Point a, b;
    std::uint64_t length;

    auto operator<=>(const Link&) const = default;
  };
  using Kind = Memory::Kind;
  using Key = std::tuple<std::size_t, Kind, Rank, int, int>;  // call's kind, ..., region, form

  std::uint32_t add_axis(std::uint64_t end);
  void add_blocks();
  void add_buffers(std::size_t kind);
  Key key_of(const Memory& memory) const;
  const Parts& parts_of(const Memory& memory);
  Parts parts_of_buffer(std::size_t kind, const Memory& memory) const;
  void note(const Effect& effect, Budget& budget);
  void note_run(const Effect& effect, std::uint64_t from, std::uint64_t to);
  void close(Budget& budget);
  void sort();
  void reduce(Effect& effect) const;
  static std::vector<Effect> one_by_one(std::vector<Effect> script);

  const BlockLayout& layout_;
  const Scratch scratch_;
  std::vector<std::size_t> kind_of_;         // by block: the first one of the same shape
  std::vector<std::uint32_t> axes_of_kind_;  // by that: the first axis of its buffers
  std::map<Key, Parts> parts_;
  std::vector<std::set<std::uint64_t>> cuts_;  // by axis
  std::vector<Link> links_;
  std::vector<std::vector<std::uint64_t>> sorted_;  // by axis: its cuts
  std::vector<const Parts*> of_operands_;           // of the effect that is noted
};

/// The layout of a proof, in classes.
class ClassLayout : public BlockLayout {
 public:
  ClassLayout(const BlockLayout& elements, const Classes& classes);

  bool shares_memory(Rank a, Rank b) const override { return elements_.shares_memory(a, b); }
  Elements element_at(const Piece& piece) const override {
    return classes_.first_element(piece.memory, piece.offset);
  }

 private:
  Elements extent_of_other(const Memory& memory) const override {
    return classes_.reduced(memory, elements_.extent(memory));
  }

  const BlockLayout& elements_;
  const Classes& classes_;
};

}  // namespace capstan::proof
