// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/prove_algorithm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/schedule/lowering/slots.hpp"
#include "core/schedule/lowering/verify.hpp"
#include "core/schedule/proof/shapes.hpp"

namespace capstan {
namespace {

/// Collects what is found about an algorithm on some hosts.
class Prover {
 public:
  Prover(const Algorithm& algorithm, const Hosts& hosts, proof::Budget* budget)
      : algorithm_(algorithm), hosts_(hosts), budget_(budget) {}

  void prove_calls(const Shape& shape, const ByRank<Schedule>& schedules, bool in_place) {
    if (!prove_schedules(shape, schedules, proof_options(algorithm_, in_place, &hosts_),
                         "schedule"))
      return;
    for (const Protocol protocol : protocols_of(algorithm_, hosts_)) {
      if (in_place && !may_be_in_place(algorithm_, protocol)) continue;
      const LoweredCall call{&algorithm_, protocol, shape};
      add(prove_programs({call, call, call, call, call}, hosts_,
                         {.in_place = in_place, .budget = budget_}),
          shape, in_place, name_of(protocol));
    }
  }

  void prove_streams(const ProvenStreams& streams) {
    proof::ProofOptions options = proof_options(algorithm_, true, &hosts_);
    options.calls = 2;
    options.slots = slots_of_streams;
    options.blocks = 5;
    const auto schedules = schedules_of(algorithm_, hosts_, streams.block);
    if (!prove_schedules(streams.block, schedules, options, blocks)) {
      if (options.bounded_skew) blame_promise(streams.block, schedules, options);
      return;
    }
    if (streams.block_length == Elements{0}) return;
    for (const Protocol protocol : protocols_of(algorithm_, hosts_)) {
      if (in_packets(protocol)) continue;
      const LoweredCall large{&algorithm_, protocol, streams.large, streams.block_length},
          small{&algorithm_, protocol, streams.small, streams.block_length};
      const bool in_place = may_be_in_place(algorithm_, protocol);
      add(prove_programs({large, small, large}, hosts_, {.in_place = in_place, .budget = budget_}),
          streams.large, in_place,
          fmt::format("{}, in blocks of {}", name_of(protocol), streams.block_length.value()));
    }
  }

  AlgorithmProof take() { return std::move(proof_); }

 private:
  static constexpr int slots_of_streams = standard_slots.count.staging;
  static constexpr std::string_view blocks = "schedule, in blocks";

  bool prove_schedules(const Shape& shape, const ByRank<Schedule>& schedules,
                       const proof::ProofOptions& options, std::string_view form) {
    proof::ProofOptions within = options;
    within.budget = budget_;
    const auto result = proof::prove_schedules(algorithm_.collective, shape, schedules, within);
    add(result, shape, options.in_place, form);
    return result.ok();
  }

  /// If the schedules are right without the promise of a bounded skew, only that is wrong.
  void blame_promise(const Shape& shape, const ByRank<Schedule>& schedules,
                     proof::ProofOptions options) {
    options.bounded_skew = false;
    if (!proof::prove_schedules(algorithm_.collective, shape, schedules, options).ok()) return;
    for (AlgorithmFlaw& flaw : proof_.findings)
      flaw.text +=
          "; this is so because it promises 'bounded_skew': without this promise ranks wait "
          "before they use a slot again, and the schedule is right";
  }

  void add(const proof::Result& result, const Shape& shape, bool in_place, std::string_view form) {
    ++proof_.proofs;
    for (const proof::Finding& finding : result.findings)
      proof_.findings.push_back(
          flaw_of(finding, name_of_case(algorithm_, hosts_, shape,
                                        fmt::format("{}{}", in_place ? "in place, " : "", form))));
    proof_.same_sums = proof_.same_sums && result.results.same_sums;
    proof_.left_fold = proof_.left_fold && result.results.left_fold;
    proof_.rank_ordered_sum = proof_.rank_ordered_sum && result.results.rank_ordered_sum;
  }

  const Algorithm& algorithm_;
  const Hosts& hosts_;
  proof::Budget* const budget_;
  AlgorithmProof proof_;
};

ProvenStreams streams_between(Collective collective, int ranks, int first_root, int last_root) {
  const int scale = ranks <= 5 ? ranks : 2;
  return {.block = stream_shape(collective, ranks, ranks <= 5 ? ranks + 1 : 2, last_root),
          .large = stream_shape(collective, ranks, 6 * scale + 1, first_root),
          .small = stream_shape(collective, ranks, 3 * scale, last_root),
          .block_length = Elements{static_cast<std::uint64_t>(scale)}};
}

}  // namespace

std::string name_of_case(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                         std::string_view form) {
  std::string count = fmt::format("count {}", shape.count.value());
  if (has_counts(algorithm.collective)) {
    count = "counts";
    for (const Elements each : shape.counts) count += fmt::format(" {}", each.value());
  }
  return fmt::format(
      "{} by {} on {} ranks{}{}, {}, {}", name_of(algorithm.collective), algorithm.name,
      hosts.ranks(), hosts.single() ? "" : fmt::format(" of {} hosts", hosts.count()),
      has_root(algorithm.collective) ? fmt::format(", root {}", shape.root) : "", count, form);
}

bool may_be_in_place(const Algorithm& algorithm, Protocol protocol) {
  return !reads_buffers(protocol) || !overwrites_input(algorithm.collective);
}

std::vector<Protocol> protocols_of(const Algorithm& algorithm, const Hosts& hosts) {
  std::vector<Protocol> protocols(std::begin(all_protocols), std::end(all_protocols));
  std::erase_if(protocols, [&](Protocol protocol) {
    return !runs_in(algorithm, protocol, hosts) || lowered_as(protocol) != protocol;
  });
  return protocols;
}

proof::ProofOptions proof_options(const Algorithm& algorithm, bool in_place, const Hosts* hosts) {
  const bool suits = hosts && algorithm.suits(*hosts);
  return {.in_place = in_place,
          .synchronizes = algorithm.guarantees.synchronizes,
          .bounded_skew = algorithm.guarantees.bounded_skew,
          .claims = claims_of(algorithm.guarantees, suits ? hosts : nullptr)};
}

Shape stream_shape(Collective collective, int ranks, int scale, int root) {
  Shape shape{.count = Elements{static_cast<std::uint64_t>(scale)}, .root = root};
  if (has_counts(collective)) shape.counts = unlike_counts(collective, ranks, scale);
  return shape;
}

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

AlgorithmProof& AlgorithmProof::operator+=(AlgorithmProof&& other) {
  proofs += other.proofs;
  std::ranges::move(other.findings, std::back_inserter(findings));
  same_sums = same_sums && other.same_sums;
  left_fold = left_fold && other.left_fold;
  rank_ordered_sum = rank_ordered_sum && other.rank_ordered_sum;
  return *this;
}

DerivedProof& DerivedProof::operator+=(DerivedProof&& other) {
  proof += std::move(other.proof);
  guarantees.synchronizes = guarantees.synchronizes && other.guarantees.synchronizes;
  guarantees.bounded_skew = guarantees.bounded_skew && other.guarantees.bounded_skew;
  guarantees.ordered = guarantees.ordered && other.guarantees.ordered;
  guarantees.same_sums = guarantees.same_sums && other.guarantees.same_sums;
  guarantees.left_fold = guarantees.left_fold && other.guarantees.left_fold;
  guarantees.rank_ordered_sum = guarantees.rank_ordered_sum && other.guarantees.rank_ordered_sum;
  guarantees.host_ordered_sum = guarantees.host_ordered_sum && other.guarantees.host_ordered_sum;
  return *this;
}

Guarantees everything() {
  return {.synchronizes = true,
          .bounded_skew = true,
          .ordered = true,
          .left_fold = true,
          .rank_ordered_sum = true,
          .host_ordered_sum = true};
}

DerivedProof derive_from_schedules(const Algorithm& algorithm, const Hosts& hosts,
                                   const Shape& shape, proof::Budget* budget) {
  const auto result =
      proof::prove_schedules(algorithm.collective, shape, schedules_of(algorithm, hosts, shape),
                             {.calls = 1,
                              .synchronizes = false,
                              .bounded_skew = false,
                              .claims = {.hosts = &hosts},
                              .budget = budget});
  DerivedProof derived{
      .guarantees = {
          .synchronizes = result.synchronizes,
          .bounded_skew = result.synchronizes,
          .ordered = reduces(algorithm.collective) && result.results.ordered,
          .same_sums = result.results.same_sums,
          .left_fold = reduces(algorithm.collective) && result.results.left_fold,
          .rank_ordered_sum = reduces(algorithm.collective) && result.results.rank_ordered_sum,
          .host_ordered_sum = reduces(algorithm.collective) && result.results.host_ordered_sum}};
  derived.proof.proofs = 1;
  const std::string text = name_of_case(algorithm, hosts, shape, "schedule");
  for (const proof::Finding& finding : result.findings)
    derived.proof.findings.push_back(flaw_of(finding, text));
  return derived;
}

AlgorithmProof prove_algorithm(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                               ProvenBuffers buffers, proof::Budget* budget) {
  Prover prover{algorithm, hosts, budget};
  const auto schedules = schedules_of(algorithm, hosts, shape);
  prover.prove_calls(shape, schedules, true);
  if (buffers == ProvenBuffers::both) prover.prove_calls(shape, schedules, false);
  return prover.take();
}

ProvenStreams ProvenStreams::of(Collective collective, int ranks) {
  return streams_between(collective, ranks, 0, has_root(collective) ? ranks - 1 : 0);
}

ProvenStreams ProvenStreams::of(Collective collective, int ranks, int root) {
  return streams_between(collective, ranks, root, root);
}

ProvenStreams ProvenStreams::of(Collective collective, const Shape& block) {
  ProvenStreams streams{.block = block};
  if (has_counts(collective)) return streams;
  constexpr std::uint64_t large = 7, small = 3;
  streams.large = streams.small = block;
  streams.large.count = block.count * large;
  streams.small.count = block.count * small;
  streams.block_length = block.count;
  return streams;
}

AlgorithmProof prove_streams(const Algorithm& algorithm, const Hosts& hosts,
                             const ProvenStreams& streams, proof::Budget* budget) {
  Prover prover{algorithm, hosts, budget};
  prover.prove_streams(streams);
  return prover.take();
}

}  // namespace capstan
