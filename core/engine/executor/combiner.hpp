// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/executor/running_call.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan {

/// Computes n-ary reductions and copies, from the sources that RunningCall::sources lists to
/// memory that this process can address.
///
/// Used by one thread at a time.
class Combiner {
 public:
  /// Combines `count` elements of each source into `to` and, unless null, `second`. `for_peers`:
  /// peers read what is written to `to`.
  void combine(const RunningCall& call, const HostOp& op, std::byte* to, std::byte* second,
               std::uint64_t count, bool for_peers);

  /// Runs the plan's reduction, with the divisor and the prefetching of the operation.
  static void reduce(const RunningCall& call, const HostOp& op, kernels::Reduction reduction);

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  void combine_in_tiles(const RunningCall& call, const HostOp& op, std::byte* to, std::byte* second,
                        std::uint64_t count);

  std::vector<const void*> tile_sources_;
  std::vector<CacheLine> tile_;
};

}  // namespace capstan
