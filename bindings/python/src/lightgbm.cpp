// SPDX-License-Identifier: Apache-2.0

// The two functions that LightGBM takes in place of its own network:
// LGBM_NetworkInitWithFunctions(). They run inside of LightGBM's calls, which turn exceptions into
// errors of LightGBM.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "communicator.hpp"
#include "module.hpp"

namespace capstan::python {
namespace {

using Length = std::int32_t;
/// Combines the elements of `input` into those of `output`; both have `length` bytes.
using Combine = void (*)(const char* input, char* output, int element_size, Length length);

/// LightGBM has a network for each thread, too.
thread_local std::shared_ptr<Communicator> network;

Communicator& world() {
  if (!network) throw InvalidArgument("capstan_lightgbm: this thread has no network: start one");
  return *network;
}

/// Blocks of LightGBM's buffers follow one another.
std::vector<Elements> counts_of(const Length* starts, const Length* lengths, int blocks) {
  if (blocks != world().size())
    throw InvalidArgument("capstan_lightgbm: " + std::to_string(blocks) + " blocks for " +
                          std::to_string(world().size()) + " ranks");
  std::vector<Elements> counts;
  Length end = 0;
  for (int i = 0; i < blocks; ++i) {
    if (starts[i] != end)
      throw InvalidArgument("capstan_lightgbm: blocks that do not follow one another");
    end += lengths[i];
    counts.emplace_back(static_cast<std::uint64_t>(lengths[i]));
  }
  return counts;
}

void gather_for_lightgbm(char* input, Length, const Length* starts, const Length* lengths,
                         int blocks, char* output, Length length) {
  Request request;
  request.collective = Collective::all_gather_v;
  request.counts = counts_of(starts, lengths, blocks);
  const int own = world().rank();
  // In place, as LightGBM also passes one buffer with its own block at the begin.
  std::memmove(output + starts[own], input, static_cast<std::size_t>(lengths[own]));
  request.input = output + starts[own];
  request.input_count = Elements{static_cast<std::uint64_t>(lengths[own])};
  request.output = output;
  request.output_count = Elements{static_cast<std::uint64_t>(length)};
  world().run(request);
}

/// Exchanges blocks and combines them in the order of ranks.
void reduce_for_lightgbm(char* input, Length length, int element_size, const Length* starts,
                         const Length* lengths, int blocks, char* output, Length,
                         const Combine& combine) {
  const int own = world().rank();
  const auto mine = static_cast<std::size_t>(lengths[own]);
  thread_local std::vector<char> arrived;
  arrived.resize(mine * static_cast<std::size_t>(blocks));
  Request request;
  request.collective = Collective::all_to_all_v;
  request.counts = counts_of(starts, lengths, blocks);
  request.receive_counts.assign(request.counts.size(), Elements{mine});
  request.input = input;
  request.input_count = Elements{static_cast<std::uint64_t>(length)};
  request.output = arrived.data();
  request.output_count = Elements{arrived.size()};
  world().run(request);
  std::memcpy(output, arrived.data(), mine);
  for (std::size_t i = 1; i < request.counts.size(); ++i)
    combine(arrived.data() + i * mine, output, element_size, lengths[own]);
}

}  // namespace

void bind_lightgbm(py::module_& m) {
  m.def("_start_lightgbm", [](const Endpoint& endpoint) {
    network = endpoint.shared();
    return std::pair{reinterpret_cast<std::uintptr_t>(&reduce_for_lightgbm),
                     reinterpret_cast<std::uintptr_t>(&gather_for_lightgbm)};
  });
  m.def("_end_lightgbm", [] {
    const ReleasedGil others_run;
    network.reset();
  });
}

}  // namespace capstan::python
