#include "core/lowering/prove_algorithm.hpp"

#include <fmt/format.h>

#include "core/lowering/verify.hpp"

namespace capstan {
namespace {

/// "all_reduce by ring on 4 ranks, root 1, count 7, in place, staged". `form` is a protocol, or
/// "schedule".
std::string name_of_case(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                         bool in_place, std::string_view form) {
  std::string count = fmt::format("count {}", shape.count.value());
  if (has_counts(algorithm.collective)) {
    count = "counts";
    for (const Elements each : shape.counts) count += fmt::format(" {}", each.value());
  }
  return fmt::format("{} by {} on {} ranks{}{}, {}{}, {}", name_of(algorithm.collective),
                     algorithm.name, hosts.ranks(),
                     hosts.single() ? "" : fmt::format(" of {} hosts", hosts.count()),
                     has_root(algorithm.collective) ? fmt::format(", root {}", shape.root) : "",
                     count, in_place ? ", in place" : "", form);
}

/// Collects what is found at one size.
class Prover {
 public:
  Prover(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape)
      : algorithm_(algorithm), hosts_(hosts), shape_(shape) {}

  void prove(bool in_place) {
    const std::size_t before = proof_.findings.size();
    add(proof::prove_schedules(algorithm_.collective, shape_, schedules_,
                               {.in_place = in_place,
                                .synchronizes = algorithm_.guarantees.synchronizes,
                                .bounded_skew = algorithm_.guarantees.bounded_skew,
                                .ordered = algorithm_.guarantees.ordered}),
        in_place, "schedule");
    if (proof_.findings.size() > before) return;
    for (const Protocol protocol : all_protocols) {
      const bool apart = in_place && overwrites_input(algorithm_.collective);
      if (!runs_in(algorithm_, protocol, hosts_) || (reads_buffers(protocol) && apart)) continue;
      const LoweredCall call{&algorithm_, protocol, shape_};
      add(prove_programs({call, call, call, call, call}, hosts_, {.in_place = in_place}), in_place,
          name_of(protocol));
    }
  }

  AlgorithmProof take() { return std::move(proof_); }

 private:
  void add(const proof::Result& result, bool in_place, std::string_view form) {
    ++proof_.proofs;
    for (const proof::Finding& finding : result.findings)
      proof_.findings.push_back(
          flaw_of(finding, name_of_case(algorithm_, hosts_, shape_, in_place, form)));
  }

  const Algorithm& algorithm_;
  const Hosts& hosts_;
  const Shape& shape_;
  const ByRank<Schedule> schedules_ = schedules_of(algorithm_, hosts_, shape_);
  AlgorithmProof proof_;
};

}  // namespace

ByRank<Schedule> schedules_of(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape) {
  ByRank<Schedule> schedules;
  for (const Rank rank : all_ranks(hosts.ranks()))
    schedules.push_back(algorithm.schedule(Group::world(hosts, rank), shape));
  return schedules;
}

AlgorithmFlaw flaw_of(const proof::Finding& finding, std::string_view proven) {
  const std::string place =
      finding.step < 0 ? ""
                       : fmt::format("{}, step {}: ", proof::rank_name(finding.rank), finding.step);
  return {fmt::format("{}: {}{}", proven, place, finding.message), finding.rank, finding.step};
}

std::vector<std::string> AlgorithmProof::texts() const {
  std::vector<std::string> texts;
  for (const AlgorithmFlaw& flaw : findings) texts.push_back(flaw.text);
  return texts;
}

AlgorithmProof prove_algorithm(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                               ProvenBuffers buffers) {
  Prover prover{algorithm, hosts, shape};
  prover.prove(true);
  if (buffers == ProvenBuffers::both) prover.prove(false);
  return prover.take();
}

}  // namespace capstan
