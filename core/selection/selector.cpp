#include "core/selection/selector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>

#include "capstan/by_rank.hpp"
#include "capstan/error.hpp"

namespace capstan {
namespace {

struct Candidate {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  double nanoseconds = std::numeric_limits<double>::infinity();
  bool needs_tuning = false;  ///< chosen only after it was measured to be fast

  /// Whether this candidate is faster by more than the rounding of a sum in another order.
  bool beats(const Candidate& other) const { return nanoseconds < other.nanoseconds * (1 - 1e-9); }
};

/// Whether programs are simulated, as they are for few ranks. For more ranks the costs that
/// algorithms declare are used. Declared costs know nothing of hosts, so between hosts simulation
/// goes up to more ranks.
bool simulates(const Hosts& hosts) {
  return hosts.ranks() <= (hosts.single() ? 16 : 32);
}

/// The shortest buffer of any rank that is not empty.
Bytes shortest_buffer(const Call& call, int ranks) {
  Elements shortest = call.contract(ranks).extent();
  for (const Rank rank : all_ranks(ranks)) {
    const BufferLengths lengths = call.contract(ranks).lengths(rank.value());
    for (const Elements length : {lengths.input, lengths.output})
      if (length > Elements{0}) shortest = std::min(shortest, length);
  }
  return bytes_of(shortest, call.element());
}

/// Whether copies by the kernel may be fast where ranks share cores. Copies from small pages are
/// several times as slow there.
bool kernel_may_be_fast(const Call& call, const Hosts& hosts, const LinkModel& model) {
  const Call kind = typical(call);
  return model.huge_pages && kind.extent(hosts.ranks()) >= model.long_call &&
         shortest_buffer(kind, hosts.ranks()) >= worth_huge_pages;
}

/// Predicts what an algorithm needs in each of its protocols.
class Predictor {
 public:
  Predictor(const Algorithm& algorithm, const Hosts& hosts, const Call& call,
            const LinkModel& model)
      : algorithm_(algorithm),
        hosts_(hosts),
        ranks_(hosts.ranks()),
        call_(typical(call)),
        model_(model),
        contract_(call_.contract(ranks_)) {
    for (const Rank rank : all_ranks(ranks_)) {
      const BufferLengths lengths = contract_.lengths(rank.value());
      const Bytes own = bytes_of(lengths.input + lengths.output, call_.element());
      of_rank_ = std::max(of_rank_, own);
      of_all_ += own;
    }
    shortest_ = shortest_buffer(call_, ranks_);
  }

  double predict(Protocol protocol) {
    return simulates(hosts_) || algorithm_.source ? simulated(protocol) : declared(protocol);
  }

 private:
  double simulated(Protocol protocol) {
    if (schedules_.empty())
      for (const Rank rank : all_ranks(ranks_))
        schedules_.push_back(algorithm_.schedule(Group::world(hosts_, rank), call_.shape));
    const auto schedule_of = [&](Rank rank) -> const Schedule& { return schedules_[rank]; };
    const double crowding =
        hosts_.single() ? 0 : model_.phase_contention * (schedules_[Rank{0}].phases() - 1);
    return (1 + crowding) *
           simulate(lower_all(schedule_of, hosts_, protocol), hosts_,
                    {.element = call_.element(),
                     .synchronizes = algorithm_.guarantees.synchronizes,
                     .in_place = call_.collective == Collective::broadcast,  // nearly always
                     .of_rank = of_rank_,
                     .of_all = of_all_,
                     .shortest = shortest_,
                     .peer_mapped = call_.peer_mapped},
                    model_);
  }

  double declared(Protocol protocol) const {
    const Cost cost = algorithm_.cost(ranks_, contract_.typical_count());
    const double element = static_cast<double>(call_.element().value());
    const double message = model_.o_send + model_.o_recv + model_.latency;  // to another host
    // A staging buffer is written once for all receivers, and each receiver reads it.
    const double moved = (cost.sent + cost.reduced) * element;
    if (in_packets(protocol))
      return cost.steps * (hosts_.single() ? model_.packet : message) +
             moved / packet_payload_bytes * (model_.packet_write + model_.next_packet);
    if (protocol == Protocol::staged)
      return cost.steps * (hosts_.single() ? model_.flag + 2 * model_.miss : message) +
             moved * (model_.staging_write_byte + model_.staging_read_byte) / 2;
    // One more message says that the buffers have been read.
    const bool seen = call_.peer_mapped >= (reaches_outputs(protocol) ? PeerMappedBuffers::all
                                                                      : PeerMappedBuffers::inputs);
    return (cost.steps + 1) * (model_.flag + 2 * model_.miss) +
           (ranks_ - 1) * (seen ? model_.load : model_.read_call) +
           moved * model_.read_byte * (of_rank_ > model_.cache ? model_.dram_read_factor : 1);
  }

  const Algorithm& algorithm_;
  const Hosts& hosts_;
  const int ranks_;
  const Call call_;
  const LinkModel& model_;
  const Contract contract_;
  Bytes of_rank_{}, of_all_{}, shortest_{};
  ByRank<Schedule> schedules_;
};

/// The candidates of one algorithm: in all protocols in which it runs, or in `wanted` only.
std::vector<Candidate> candidates_of(const Algorithm& algorithm, const Hosts& hosts,
                                     const Call& call, const LinkModel& model,
                                     std::optional<Protocol> wanted = {}) {
  Predictor predictor{algorithm, hosts, call, model};
  std::vector<Candidate> candidates;
  for (const Protocol protocol : all_protocols) {
    if ((wanted && protocol != *wanted) || !runs_in(algorithm, protocol, hosts)) continue;
    if (reads_buffers(protocol) && !model.reads_peers) continue;
    const bool by_kernel = reads_buffers(protocol) && call.peer_mapped == PeerMappedBuffers::none;
    const bool needs_tuning = !wanted && by_kernel && model.shares_cores;
    if (needs_tuning && !kernel_may_be_fast(call, hosts, model)) continue;
    if (in_packets(protocol) && !fits_packets(algorithm, protocol, hosts, call)) continue;
    const double nanoseconds = predictor.predict(protocol);
    // The same time also results where declared costs are used, which do not know what is shared.
    const bool shares_nothing = protocol == Protocol::shared_inline_packets &&
                                !candidates.empty() && candidates.back().nanoseconds == nanoseconds;
    if (!shares_nothing) candidates.push_back({&algorithm, protocol, nanoseconds, needs_tuning});
  }
  return candidates;
}

/// Whether the order in which elements are combined may change the result's last bits. Minimum,
/// maximum and logical operations do not depend on the order: see kernels/cpu/reduce.hpp.
bool rounds(const Call& call) {
  const bool adds_or_multiplies =
      call.op == ReduceOp::sum || call.op == ReduceOp::average || call.op == ReduceOp::product;
  return call.user || (!is_integer(call.type) && adds_or_multiplies);
}

/// Whether the result of an algorithm is bitwise reproducible, whichever rank computes which part.
bool is_reproducible(const Algorithm& algorithm, const Call& call) {
  return !reduces(call.collective) || !rounds(call) || algorithm.guarantees.rank_ordered_sum;
}

/// The candidate with the least predicted time, or the first of several. Without candidates, one
/// without an algorithm that every other one beats.
Candidate best_of(const std::vector<Candidate>& candidates) {
  Candidate best;
  for (const Candidate& candidate : candidates)
    if (candidate.beats(best)) best = candidate;
  return best;
}

/// The candidates that may be chosen without having been measured.
std::vector<Candidate> untuned(std::vector<Candidate> candidates) {
  std::erase_if(candidates, &Candidate::needs_tuning);
  return candidates;
}

/// The candidate with the least predicted time, or the best reproducible one if it is predicted to
/// take about as long. Many candidates are reproducible, so that tuning can find the fastest of
/// them. The user's setting for tuning makes no difference here, as results must not depend on it.
Candidate preferred(std::vector<Candidate> candidates, const Call& call, const Hosts& hosts,
                    const LinkModel& model) {
  const Candidate best = best_of(candidates);
  const double about_as_long = in_packets(best.protocol) ? 2 : 1.5;  // ratio of predicted times
  if (!best.algorithm || !may_be_tuned(call, hosts, model) ||
      is_reproducible(*best.algorithm, call))
    return best;
  std::erase_if(candidates,
                [&](const Candidate& c) { return !is_reproducible(*c.algorithm, call); });
  const Candidate other = best_of(candidates);
  return other.nanoseconds <= about_as_long * best.nanoseconds ? other : best;
}

bool suits(const Algorithm& algorithm, const Hosts& hosts, bool commutative) {
  return hosts.ranks() <= algorithm.max_ranks && algorithm.suits(hosts) &&
         (commutative || algorithm.guarantees.ordered);
}

/// The algorithms among which predictions compare fairly. Declared costs do so over several hosts
/// only among the algorithms that are made for these, if there are any.
std::vector<const Algorithm*> comparable(const Call& call, const Hosts& hosts, bool commutative) {
  std::vector<const Algorithm*> all, hierarchical;
  for (const Algorithm& algorithm : algorithms(call.collective)) {
    if (!suits(algorithm, hosts, commutative)) continue;
    all.push_back(&algorithm);
    if (algorithm.requirement != Requires::anywhere) hierarchical.push_back(&algorithm);
  }
  return simulates(hosts) || hierarchical.empty() ? all : hierarchical;
}

std::vector<Candidate> candidates_for(const Call& call, const Hosts& hosts, bool commutative,
                                      const LinkModel& model) {
  std::vector<Candidate> all;
  for (const Algorithm* algorithm : comparable(call, hosts, commutative)) {
    const auto protocols = candidates_of(*algorithm, hosts, call, model);
    all.insert(all.end(), protocols.begin(), protocols.end());
  }
  return all;
}

Choice chosen(const Candidate& candidate) {
  return {candidate.algorithm, candidate.protocol,
          fmt::format("least predicted time, {:.2f} us", candidate.nanoseconds / 1000),
          candidate.nanoseconds};
}

/// The best candidate, and a few others in the order of their predicted times. The best of each
/// protocol is taken first: the model knows least about how protocols compare on a machine.
/// Candidates of one protocol that are predicted alike are taken last, and not at all between two
/// ranks, where they do the same.
std::vector<Candidate> worth_measuring(const Candidate& best, const std::vector<Candidate>& others,
                                       int ranks) {
  constexpr std::size_t most = 6, most_protocols = 4;
  constexpr double near = 4, within_reach = 16;  // ratios of predicted times
  std::vector<Candidate> chosen{best};
  const auto take = [&](double times, std::size_t until, const auto& resembles) {
    for (const Candidate& other : others)
      if (chosen.size() < until && other.nanoseconds <= times * best.nanoseconds &&
          std::ranges::none_of(chosen, [&](const Candidate& c) { return resembles(c, other); }))
        chosen.push_back(other);
  };
  using C = const Candidate&;
  take(within_reach, most_protocols, [](C a, C b) { return a.protocol == b.protocol; });
  take(near, most, [](C a, C b) { return a.protocol == b.protocol && !a.beats(b) && !b.beats(a); });
  if (ranks > 2)
    take(near, most,
         [](C a, C b) { return a.protocol == b.protocol && a.algorithm == b.algorithm; });
  std::ranges::stable_sort(std::span{chosen}.subspan(1), {}, &Candidate::nanoseconds);
  return chosen;
}

/// Whether two algorithms give the same result, bit by bit. A protocol never changes a result.
bool agree(const Algorithm& a, const Algorithm& b, const Call& call) {
  return &a == &b || (is_reproducible(a, call) && is_reproducible(b, call));
}

}  // namespace

Call typical(Call call) {
  const std::uint64_t count = call.shape.count.value();
  const int shift = std::max(0, static_cast<int>(std::bit_width(count)) - 3);
  call.shape.count = Elements{(count + (std::uint64_t{1} << shift) - 1) >> shift << shift};
  call.shape.root = 0;
  call.about = nullptr;
  return call;
}

bool may_be_tuned(const Call& call, const Hosts& hosts, const LinkModel& model) {
  if (!hosts.single() || has_counts(call.collective) || call.user) return false;
  return !model.shares_cores || typical(call).extent(hosts.ranks()) >= model.long_call;
}

Choice choose(const Call& call, const Hosts& hosts, const AlgorithmRules& rules, bool commutative,
              const LinkModel& model) {
  const int ranks = hosts.ranks();
  const AlgorithmRules::Rule* rule = rules.find(call.collective, call.extent(ranks));
  if (rule && (commutative || rule->algorithm->guarantees.ordered)) {
    Candidate candidate =
        best_of(untuned(candidates_of(*rule->algorithm, hosts, call, model, rule->protocol)));
    if (!candidate.algorithm)
      candidate = best_of(untuned(candidates_of(*rule->algorithm, hosts, call, model)));
    return {rule->algorithm, candidate.protocol,
            fmt::format("asked for by a rule, predicted {:.2f} us", candidate.nanoseconds / 1000),
            candidate.nanoseconds};
  }
  const auto candidates = untuned(candidates_for(call, hosts, commutative, model));
  const Candidate winner = preferred(candidates, call, hosts, model);
  if (!winner.algorithm)
    throw InvalidArgument(
        fmt::format("no {} algorithm runs on {} ranks{}", name_of(call.collective), ranks,
                    commutative ? "" : " with an operation that is not commutative"));
  Choice choice = chosen(winner);
  if (const Candidate fastest = best_of(candidates); fastest.beats(winner))
    choice.reason = fmt::format(
        "predicted {:.2f} us; it is chosen because its result is bitwise reproducible, which that "
        "of "
        "{} with {:.2f} us is not",
        winner.nanoseconds / 1000, fastest.algorithm->name, fastest.nanoseconds / 1000);
  return choice;
}

std::vector<Choice> tuning_candidates(const Call& call, const Hosts& hosts, const LinkModel& model,
                                      Bytes block) {
  std::vector<Candidate> others = candidates_for(call, hosts, true, model);
  const Candidate chosen_untuned = preferred(untuned(others), call, hosts, model);
  std::erase_if(others, [&](const Candidate& other) {
    return !agree(*other.algorithm, *chosen_untuned.algorithm, call);
  });
  const Candidate best = best_of(others);
  std::erase_if(others, [&](const Candidate& other) {
    return other.algorithm == best.algorithm && other.protocol == best.protocol;
  });
  std::ranges::stable_sort(others, {}, &Candidate::nanoseconds);
  std::vector<Choice> candidates;
  for (const Candidate& candidate : worth_measuring(best, others, hosts.ranks()))
    candidates.push_back(chosen(candidate));
  const auto staged = std::ranges::find(candidates, Protocol::staged, &Choice::protocol);
  if (staged != candidates.end() && call.extent(hosts.ranks()) >= block &&
      is_reproducible(*staged->algorithm, call)) {
    candidates.push_back(*staged);
    candidates.back().times_shorter = shorter_blocks;
  }
  return candidates;
}

}  // namespace capstan
