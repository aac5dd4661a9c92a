// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/kept_arguments.hpp"

namespace capstan::mpi {

KeptArguments::KeptArguments(const Arguments& arguments, Place place) : arguments_(arguments) {
  const bool is_root = arguments.root == place.rank;
  if (arguments.kind != Kind::scatterv || is_root) keep(arguments_.send, place.size);
  if (arguments.kind != Kind::gatherv || is_root) keep(arguments_.receive, place.size);
}

void KeptArguments::keep(Side& side, int ranks) {
  if (side.in_place()) return;
  side.counts = copy(side.counts, ranks);
  side.offsets = copy(side.offsets, ranks);
  if (side.types) side.types = types_.emplace_back(side.types, side.types + ranks).data();
}

Numbers KeptArguments::copy(const Numbers& numbers, int ranks) {
  if (!numbers) return {};
  std::vector<long long>& kept = numbers_.emplace_back();
  for (int rank = 0; rank < ranks; ++rank) kept.push_back(static_cast<long long>(numbers[rank]));
  return Numbers{kept.data()};
}

}  // namespace capstan::mpi
