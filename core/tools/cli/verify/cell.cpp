// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/verify/cell.hpp"

#include <algorithm>

namespace capstan::cli {
namespace {

void add(CellResult& result, const AlgorithmProof& proof) {
  result.proofs += proof.proofs;
  for (const AlgorithmFlaw& flaw : proof.findings) result.findings.push_back(flaw.text);
}

/// Counts the steps of a schedule. Returns the elements that it sends to other hosts.
std::uint64_t measure(CellResult& result, const Schedule& schedule, const Hosts& hosts) {
  std::uint64_t elements = 0, messages = 0, away = 0;
  for (const Step& step : schedule.steps()) {
    if (step.verb == Verb::put) {
      elements += step.destination.length.value();
      if (!hosts.together(schedule.self(), step.peer)) away += step.destination.length.value();
    }
    if (step.verb == Verb::signal) ++messages;
  }
  result.sent = std::max(result.sent, elements);
  result.signals = std::max(result.signals, messages);
  result.steps = std::max(result.steps, schedule.steps().size());
  return away;
}

void measure(CellResult& result, const ByRank<Schedule>& schedules, const Hosts& hosts) {
  result.sent = result.signals = 0;
  std::vector<std::uint64_t> by_host(static_cast<std::size_t>(hosts.count()));
  for (const Schedule& schedule : schedules)
    by_host[static_cast<std::size_t>(hosts.host_of(schedule.self()))] +=
        measure(result, schedule, hosts);
  result.between = std::ranges::max(by_host);
}

/// A proof has work with each step and with what it reads; signals and waits handle a clock, which
/// has a number for each rank. Lengths do not matter: elements that stay together are one.
/// measured: docs/lab-notebook.md#work-of-proofs
double work_of(const Schedule& schedule, int ranks) {
  constexpr double of_source = 2, ranks_like_a_step = 20;
  double work = 0;
  for (const Step& step : schedule.steps()) {
    const bool moves = step.verb != Verb::signal && step.verb != Verb::wait;
    work += 1 + (moves ? of_source * step.source_count : ranks / ranks_like_a_step);
  }
  return work;
}

}  // namespace

CellResult prove(const ProofCell& cell) {
  const Algorithm& algorithm = *cell.algorithm;
  CellResult result;
  for (const Shape& shape : cell.shapes) {
    add(result, prove_algorithm(algorithm, cell.hosts, shape, cell.buffers));
    measure(result, schedules_of(algorithm, cell.hosts, shape), cell.hosts);
  }
  if (result.ok())
    add(result, prove_streams(algorithm, cell.hosts,
                              ProvenStreams::of(algorithm.collective, cell.hosts.ranks())));
  return result;
}

double work_of(const ProofCell& cell) {
  double work = 0;
  for (const Shape& shape : cell.shapes)
    for (const Schedule& schedule : schedules_of(*cell.algorithm, cell.hosts, shape))
      work += work_of(schedule, cell.hosts.ranks());
  // Each schedule is proven, and the program of each protocol.
  const auto protocols = protocols_of(*cell.algorithm, cell.hosts).size();
  return work * static_cast<double>(1 + protocols) * (cell.buffers == ProvenBuffers::both ? 2 : 1);
}

}  // namespace capstan::cli
