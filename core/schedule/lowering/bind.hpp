// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/schedule/lowering/plan.hpp"

namespace capstan {

/// The call and the layout that programs for its blocks are bound to.
struct Binding {
  const Call& call;
  Protocol protocol;
  SlotKind slots;
  const Hosts& hosts;
  Rank self;
  const SlotLayout& layout;
  Bytes long_read;  ///< see PlanLimits
};

/// Turns a program for a block of this shape into the bound program that the executor runs, with
/// offsets in bytes into the buffers of the whole call.
BoundProgram bind(Program program, const Shape& block, const Binding& to);

/// Takes one operation out of a program.
void erase_op(BoundProgram& program, std::size_t index);

}  // namespace capstan
