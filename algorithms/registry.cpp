// SPDX-License-Identifier: Apache-2.0
#include "algorithms/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "algorithms/all_gather/all_gather.hpp"
#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/all_to_all/all_to_all.hpp"
#include "algorithms/barrier/barrier.hpp"
#include "algorithms/broadcast/broadcast.hpp"
#include "algorithms/exscan/exscan.hpp"
#include "algorithms/gather/gather.hpp"
#include "algorithms/reduce/reduce.hpp"
#include "algorithms/reduce_scatter/reduce_scatter.hpp"
#include "algorithms/scan/scan.hpp"
#include "algorithms/scatter/scatter.hpp"
#include "capstan/error.hpp"

namespace capstan {
namespace {

/// A group of one keeps what it gives.
Schedule local_copy(const Group& group, const Contract& contract) {
  const auto [input, output] = contract.lengths(group.position());
  ScheduleBuilder s{group, input, output};
  if (contract.collective() != Collective::exscan) s.copy(s.output(), s.input());
  return std::move(s).build();
}

}  // namespace

Schedule Algorithm::schedule(const Group& group, const Shape& shape) const {
  if (group.size() > max_ranks)
    throw InvalidArgument(
        fmt::format("{} algorithm '{}' is limited to {} ranks, not {}: choose another",
                    name_of(collective), name, max_ranks, group.size()));
  if (group.size() == 1) return local_copy(group, Contract{collective, shape, 1});
  return source ? source->schedule(group, shape) : build(group, shape);
}

std::span<const Algorithm> algorithms(Collective collective) {
  switch (collective) {
    case Collective::barrier:
      return barrier_algorithms();
    case Collective::broadcast:
      return broadcast_algorithms();
    case Collective::reduce:
      return reduce_algorithms();
    case Collective::all_reduce:
      return all_reduce_algorithms();
    case Collective::all_gather:
      return all_gather_algorithms();
    case Collective::reduce_scatter:
      return reduce_scatter_algorithms();
    case Collective::gather:
      return gather_algorithms();
    case Collective::scatter:
      return scatter_algorithms();
    case Collective::all_to_all:
      return all_to_all_algorithms();
    case Collective::scan:
      return scan_algorithms();
    case Collective::exscan:
      return exscan_algorithms();
    case Collective::all_gather_v:
      return all_gather_v_algorithms();
    case Collective::reduce_scatter_v:
      return reduce_scatter_v_algorithms();
    case Collective::gather_v:
      return gather_v_algorithms();
    case Collective::scatter_v:
      return scatter_v_algorithms();
    case Collective::all_to_all_v:
      return all_to_all_v_algorithms();
  }
  return {};
}

const Algorithm& algorithm_named(Collective collective, std::string_view name) {
  const auto known = algorithms(collective);
  const auto found = std::ranges::find(known, name, &Algorithm::name);
  if (found != known.end()) return *found;

  std::vector<std::string_view> names;
  std::ranges::transform(known, std::back_inserter(names), &Algorithm::name);
  throw InvalidArgument(fmt::format("{} has no algorithm '{}': choose one of {}",
                                    name_of(collective), name, fmt::join(names, ", ")));
}

}  // namespace capstan
