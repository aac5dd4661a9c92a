// SPDX-License-Identifier: Apache-2.0

// Double binary tree all-reduce (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan", 2009): two binary trees, each for one half of the data. A rank
// that is inside one tree is a leaf of the other, so that all ranks share the work.
//
// About 4·log2(p) steps, 2n elements sent per rank at most, 2n scratch.
//
//   p = 6   first tree        3           second tree (mirrored)     2
//                           /   \                                  /   \         .
//                          1     5                                0     4
//                         / \   /                                  \   / \       .
//                        0   2 4                                    1 3   5

#include <bit>

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/tree.hpp"

namespace capstan {
namespace {

/// Root of the in-order binary tree over positions [first, first + size): its left subtree is
/// perfect, so that every even position (counted from `first`) is a leaf.
int root_of(int first, int size) {
  return first + static_cast<int>(std::bit_floor(static_cast<unsigned>(size))) - 1;
}

struct BinaryNode {
  int parent = -1, left = -1, right = -1;
  bool is_left = false;
};

/// Walks from the root of the in-order tree over 0 .. size-1 down to `position`.
BinaryNode in_order_node(int size, int position) {
  BinaryNode node;
  int first = 0, root = root_of(0, size);
  while (root != position) {
    node.parent = root;
    node.is_left = position < root;
    if (node.is_left) {
      size = root - first;
    } else {
      size -= root + 1 - first;
      first = root + 1;
    }
    root = root_of(first, size);
  }
  if (root > first) node.left = root_of(first, root - first);
  if (root + 1 < first + size) node.right = root_of(root + 1, first + size - root - 1);
  return node;
}

/// This rank's place in the in-order tree in which position i plays the part `role(i)`;
/// `position_of` is the inverse of role.
template <class Role, class Inverse>
TreePlace binary_place(const Group& group, Role role, Inverse position_of) {
  const BinaryNode node = in_order_node(group.size(), role(group.position()));
  const auto member = [&](int part) {
    return part < 0 ? std::nullopt : std::optional{group[position_of(part)]};
  };
  return {.parent = member(node.parent),
          .slot = node.is_left ? 0 : 1,
          .children = {member(node.left), member(node.right)}};
}

TreePlace first_tree(const Group& group) {
  const auto same = [](int i) { return i; };
  return binary_place(group, same, same);
}

/// Mirrored when the size is even, shifted by one when it is odd: either way inner positions of the
/// first tree (odd ones) play the part of even ones, which are leaves.
TreePlace second_tree(const Group& group) {
  const int p = group.size();
  if (p % 2 == 0) {
    const auto mirror = [p](int i) { return p - 1 - i; };
    return binary_place(group, mirror, mirror);
  }
  return binary_place(
      group, [&](int i) { return group.wrap(i + 1); }, [&](int i) { return group.wrap(i - 1); });
}

}  // namespace

Schedule double_binary_tree_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const TreePlace trees[] = {first_tree(group), second_tree(group)};
  const Range halves[] = {nth_block(count, 2, 0), nth_block(count, 2, 1)};
  for (int i = 0; i < 2; ++i) reduce_up(s, trees[i], halves[i], 2, s.output(halves[i]));
  for (int i = 0; i < 2; ++i) broadcast_down(s, trees[i], halves[i]);
  return std::move(s).build();
}

}  // namespace capstan
