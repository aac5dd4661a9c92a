// SPDX-License-Identifier: Apache-2.0
#include "algorithms/broadcast/broadcast.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"flat",
              Collective::broadcast,
              "the root sends everything to everybody: one step",
              &rooted<flat_broadcast>,
              all_pairs,
              {},
              Traffic::inputs},
    Algorithm{"binomial",
              Collective::broadcast,
              "down a binomial tree: log2(p) steps",
              &rooted<binomial_broadcast>,
              any_size,
              {}},
    Algorithm{"scatter_all_gather",
              Collective::broadcast,
              "a block to each rank, then round a ring",
              &rooted<scatter_all_gather_broadcast>,
              4096,
              {}},
    Algorithm{"direct",
              Collective::broadcast,
              "a block to each rank, which sends it to all: two steps",
              &rooted<direct_broadcast>,
              all_pairs,
              {},
              Traffic::outputs},
    Algorithm{"rendezvous",
              Collective::broadcast,
              "as direct, while the root writes a block to everybody",
              &rooted<rendezvous_broadcast>,
              all_pairs,
              {.synchronizes = true},
              Traffic::results},
    Algorithm{"chain",
              Collective::broadcast,
              "from rank to rank; long messages as a pipeline of blocks",
              &rooted<chain_broadcast>,
              any_size,
              {}},
    Algorithm{"leaders",
              Collective::broadcast,
              "to one rank of each host, then within hosts",
              &rooted<leaders_broadcast>,
              4096,
              {},
              Traffic::partials,
              Requires::several_hosts},
};

}  // namespace

std::span<const Algorithm> broadcast_algorithms() {
  return list;
}

}  // namespace capstan
