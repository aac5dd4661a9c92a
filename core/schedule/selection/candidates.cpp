// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/schedule/selection/selector.hpp"

namespace capstan {
namespace {

/// Whether copies by the kernel may be fast where ranks share cores. Copies from small pages are
/// several times as slow there.
bool kernel_may_be_fast(const Call& call, const Hosts& hosts, const LinkModel& model) {
  const Call kind = typical(call);
  return model.huge_pages && kind.extent(hosts.ranks()) >= model.long_call &&
         shortest_buffer(kind, hosts.ranks()) >= worth_huge_pages;
}

/// Whether the protocol has to be measured to be chosen: copies by the kernel, and stores past the
/// cache, which gain much between some cores and lose between others.
bool needs_tuning(Protocol protocol, const Call& call, const LinkModel& model) {
  return protocol == Protocol::streamed ||
         (reads_buffers(protocol) && call.peer_mapped == PeerMappedBuffers::none &&
          model.shares_cores);
}

/// From this length on stores past the cache are worth a trial.
// measured: docs/lab-notebook.md#places-in-slots
constexpr Bytes worth_streaming{1 << 10};

/// Whether calls of every length can add the sums of hosts. Where the hosts stay as they are, this
/// gives elements the same bits as much as adding in the order of ranks does, and costs nothing.
bool adds_sums_of_hosts(const Call& call, const Hosts& hosts) {
  return std::ranges::any_of(algorithms(call.collective), [&](const Algorithm& each) {
    return each.guarantees.host_ordered_sum && each.suits(hosts) && hosts.ranks() <= each.max_ranks;
  });
}

}  // namespace

std::string why(Obstacle obstacle, const Algorithm& algorithm) {
  switch (obstacle) {
    case Obstacle::none:
      break;
    case Obstacle::ranks:
      return fmt::format("made for up to {} ranks", algorithm.max_ranks);
    case Obstacle::hosts:
      return algorithm.requirement == Requires::uniform_hosts
                 ? "made for several hosts of equally many ranks, two or more"
                 : "made for several hosts, some with several ranks";
    case Obstacle::order:
      return "the operation is not commutative, and this changes the order of ranks";
    case Obstacle::bits:
      return "reproducible sums are asked for, and this adds in another order";
    case Obstacle::one_reduction:
      return "sends more than others, for sums that are to be reproducible";
    case Obstacle::protocol:
      return "does not run in this protocol here";
    case Obstacle::peers:
      return "ranks cannot read each other's memory (capstan doctor says why)";
    case Obstacle::kernels:
      return "kernels of devices read no buffers of peers";
    case Obstacle::stores:
      return "kernels of devices write in one way";
    case Obstacle::short_call:
      return "too short to be written past the cache";
    case Obstacle::shared_cores:
      return "copies by the kernel are slow where ranks share cores";
    case Obstacle::packet_length:
      return "its packets are longer than a slot";
    case Obstacle::same:
      return "the same as in packets of its own";
  }
  return "";
}

SumOrder needed_order(const Call& call, const Hosts& hosts, bool commutative,
                      Reproducible promise) {
  if (promise > Reproducible::run && rounds(call)) {
    if (promise == Reproducible::shape && commutative && adds_sums_of_hosts(call, hosts))
      return SumOrder::hosts;
    return keeps_partial_sums(call) ? SumOrder::left_fold : SumOrder::one_reduction;
  }
  return commutative ? SumOrder::any : SumOrder::ranks;
}

SumOrder needed_order(const Call& call, const Hosts& hosts, Reproducible promise) {
  return needed_order(call, hosts, !call.user || call.user->commutative,
                      call.promise.value_or(promise));
}

Obstacle obstacle(const Algorithm& algorithm, SumOrder order) {
  const Guarantees& promised = algorithm.guarantees;
  switch (order) {
    case SumOrder::any:
      return Obstacle::none;
    case SumOrder::ranks:
      return promised.ordered ? Obstacle::none : Obstacle::order;
    case SumOrder::left_fold:
      return promised.left_fold || promised.rank_ordered_sum ? Obstacle::none : Obstacle::bits;
    case SumOrder::hosts:
      return promised.host_ordered_sum ? Obstacle::none : Obstacle::bits;
    case SumOrder::one_reduction:
      break;
  }
  return promised.rank_ordered_sum ? Obstacle::none : Obstacle::bits;
}

Obstacle obstacle_to_rule(const Algorithm& algorithm, const Hosts& hosts, SumOrder order) {
  if (hosts.ranks() > algorithm.max_ranks) return Obstacle::ranks;
  if (order == SumOrder::hosts && !algorithm.suits(hosts)) return Obstacle::bits;
  return obstacle(algorithm, order);
}

Obstacle obstacle(const Algorithm& algorithm, const Hosts& hosts, SumOrder order) {
  if (hosts.ranks() > algorithm.max_ranks) return Obstacle::ranks;
  if (!algorithm.suits(hosts)) return Obstacle::hosts;
  const bool keeps_bits = order != SumOrder::any && order != SumOrder::ranks;
  if (algorithm.for_one_reduction && !keeps_bits) return Obstacle::one_reduction;
  return obstacle(algorithm, order);
}

Obstacle obstacle(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                  const Call& call, const LinkModel& model, bool wanted) {
  if (!runs_in(algorithm, protocol, hosts)) return Obstacle::protocol;
  if (reads_buffers(protocol) && !model.reads_peers)
    return model.devices ? Obstacle::kernels : Obstacle::peers;
  if (protocol == Protocol::streamed) {
    if (model.devices) return Obstacle::stores;
    if (!wanted && call.extent(hosts.ranks()) < worth_streaming) return Obstacle::short_call;
    return Obstacle::none;
  }
  const bool tuned = !wanted && needs_tuning(protocol, call, model);
  if (tuned && !kernel_may_be_fast(call, hosts, model)) return Obstacle::shared_cores;
  if (in_packets(protocol) && !fits_packets(algorithm, protocol, hosts, call))
    return Obstacle::packet_length;
  return Obstacle::none;
}

std::vector<Candidate> candidates_of(const Algorithm& algorithm, const Hosts& hosts,
                                     const Call& call, const LinkModel& model,
                                     std::optional<Protocol> wanted) {
  // Schedules that were added may exist for the call's own root and counts only.
  Predictor predictor{algorithm, hosts, algorithm.source ? call : typical(call), model};
  std::vector<Candidate> candidates;
  for (const Protocol protocol : all_protocols) {
    if (wanted && protocol != *wanted) continue;
    if (obstacle(algorithm, protocol, hosts, call, model, wanted.has_value()) != Obstacle::none)
      continue;
    const PredictedTime time = predictor.predict(protocol);
    const double nanoseconds = time.total();
    // The same time also results where steps are counted, which do not tell what is shared.
    const bool shares_nothing = protocol == Protocol::shared_inline_packets &&
                                !candidates.empty() && candidates.back().nanoseconds == nanoseconds;
    const bool tuned = !wanted && needs_tuning(protocol, call, model);
    if (!shares_nothing) candidates.push_back({&algorithm, protocol, nanoseconds, time, tuned});
  }
  return candidates;
}

bool is_reproducible(const Algorithm& algorithm, const Call& call) {
  return !reduces(call.collective) || !rounds(call) ||
         adds_in_rank_order(algorithm.guarantees, call);
}

bool stays_reproducible(const Call& call, int ranks) {
  constexpr int most_of_all_reduce = 16, most_of_reduce = 4;
  if (!reduces(call.collective) || !rounds(call)) return true;
  return (call.collective == Collective::all_reduce && ranks <= most_of_all_reduce) ||
         (call.collective == Collective::reduce && ranks <= most_of_reduce);
}

bool agree(const Algorithm& a, const Algorithm& b, const Call& call) {
  return &a == &b || (is_reproducible(a, call) && is_reproducible(b, call));
}

Candidate best_of(const std::vector<Candidate>& candidates) {
  Candidate best;
  for (const Candidate& candidate : candidates)
    if (candidate.beats(best)) best = candidate;
  return best;
}

std::vector<Candidate> untuned(std::vector<Candidate> candidates) {
  std::erase_if(candidates, &Candidate::needs_tuning);
  return candidates;
}

std::vector<const Algorithm*> able(const Call& call, const Hosts& hosts, SumOrder order) {
  std::vector<const Algorithm*> all;
  for (const Algorithm& algorithm : algorithms(call.collective))
    if (obstacle(algorithm, hosts, order) == Obstacle::none) all.push_back(&algorithm);
  return all;
}

std::vector<Candidate> candidates_of(const std::vector<const Algorithm*>& algorithms,
                                     const Hosts& hosts, const Call& call, const LinkModel& model) {
  std::vector<Candidate> all;
  for (const Algorithm* algorithm : algorithms) {
    const auto protocols = candidates_of(*algorithm, hosts, call, model);
    all.insert(all.end(), protocols.begin(), protocols.end());
  }
  return all;
}

std::vector<Candidate> candidates_for(const Call& call, const Hosts& hosts, SumOrder order,
                                      const LinkModel& model) {
  return candidates_of(able(call, hosts, order), hosts, call, model);
}

}  // namespace capstan
