// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/communicator.hpp"
#include "perf/measure/cell.hpp"
#include "tests/variants_of.hpp"

namespace capstan {

/// Which buffers of a call lie in memory of Communicator::allocate.
enum class BufferKinds { plain, allocated, inputs, outputs, mixed };
inline constexpr BufferKinds all_buffer_kinds[] = {BufferKinds::plain, BufferKinds::allocated,
                                                   BufferKinds::inputs, BufferKinds::outputs,
                                                   BufferKinds::mixed};

/// Memory of both kinds for the input and the output of calls.
class BothMemories {
 public:
  /// All ranks make one. `bytes`: of the largest buffer.
  BothMemories(Communicator& world, std::size_t bytes)
      : world_(world),
        plain_input_(bytes + slack),
        plain_output_(bytes + slack),
        input_(world.allocate<std::uint8_t>(bytes + slack)),
        output_(world.allocate<std::uint8_t>(bytes + slack)) {}

  /// Makes a call with buffers of these kinds, somewhere in the middle of the memory; what is mixed
  /// differs from call to call and from rank to rank. The number of wrong values.
  std::uint64_t wrong_values(const perf::Cell& cell, BufferKinds kinds) {
    const std::uint32_t draw = next();
    const bool any = kinds == BufferKinds::mixed;
    const bool in =
        any ? draw & 1 : kinds == BufferKinds::allocated || kinds == BufferKinds::inputs;
    const bool out =
        any ? draw & 2 : kinds == BufferKinds::allocated || kinds == BufferKinds::outputs;
    const std::size_t element = size_of(cell.type).value();
    const std::size_t at = draw / 4 % (slack / element) * element;
    std::uint8_t* const input = in ? input_.data() : plain_input_.data();
    std::uint8_t* const output = out ? output_.data() : plain_output_.data();
    return perf::wrong_values(world_, cell, reinterpret_cast<std::byte*>(input) + at,
                             reinterpret_cast<std::byte*>(output) + at);
  }

 private:
  static constexpr std::size_t slack = 4096;

  std::uint32_t next() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }

  Communicator& world_;
  std::uint32_t state_ = 4711u * static_cast<std::uint32_t>(world_.rank() + 1);
  std::vector<std::uint8_t> plain_input_, plain_output_;
  SharedBuffer<std::uint8_t> input_, output_;
};

/// Calls of all lengths with buffers of every kind, in place and not, every root; what went wrong
/// first.
inline std::string trouble_with_kinds(Communicator& world, Collective collective,
                                      DataType type = DataType::f32) {
  constexpr std::size_t longest = 40001;
  BothMemories memories(world,
                        longest * static_cast<std::size_t>(world.size()) * size_of(type).value());
  for (Shape& shape : shapes_of(collective, world.size()))
    for (int root = 0; root < (has_root(collective) ? world.size() : 1); ++root)
      for (const BufferKinds kinds : all_buffer_kinds)
        for (const bool in_place : {false, true}) {
          shape.root = root;
          const perf::Cell cell{.collective = collective,
                               .type = type,
                               .shape = shape,
                               .in_place = in_place && collective != Collective::all_to_all_v};
          if (memories.wrong_values(cell, kinds) > 0)
            return std::string{name_of(collective)} + ", count " +
                   std::to_string(shape.count.value()) + ", root " + std::to_string(root) +
                   ", kinds " + std::to_string(static_cast<int>(kinds)) +
                   (in_place ? ", in place" : "");
        }
  return {};
}

}  // namespace capstan
