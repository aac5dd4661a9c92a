// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/cost.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include "capstan/by_rank.hpp"

namespace capstan {
namespace {

/// Maxima of all parts.
Cost busier(const Cost& a, const Cost& b) {
  return {.steps = std::max(a.steps, b.steps),
          .far_steps = std::max(a.far_steps, b.far_steps),
          .messages = std::max(a.messages, b.messages),
          .far_messages = std::max(a.far_messages, b.far_messages),
          .sent = std::max(a.sent, b.sent),
          .far_sent = std::max(a.far_sent, b.far_sent),
          .far_chain = std::max(a.far_chain, b.far_chain),
          .reduced = std::max(a.reduced, b.reduced)};
}

/// Messages and data of one rank, in one direction.
struct Traffic {
  double messages = 0, far_messages = 0, elements = 0, far_elements = 0;

  void message(bool far) {
    ++messages;
    far_messages += far;
  }
  void data(double length, bool far) {
    elements += length;
    far_elements += far ? length : 0;
  }
};

/// The lengths of the longest chains of messages that end at a rank.
struct Chains {
  double steps = 0, far_steps = 0, far_elements = 0;

  void follow(const Chains& sent, bool far) {
    steps = std::max(steps, sent.steps + 1);
    far_steps = std::max(far_steps, sent.far_steps + far);
    far_elements = std::max(far_elements, sent.far_elements);
  }
};

struct RankWork {
  Traffic out{}, in{};
  Chains chains{};
  double reduced = 0;

  Cost cost() const {
    const double plain = std::max(in.elements - reduced, 0.0);  // lands where it belongs
    return {.steps = chains.steps,
            .far_steps = chains.far_steps,
            .messages = std::max(out.messages, in.messages),
            .far_messages = std::max(out.far_messages, in.far_messages),
            .sent = std::max(out.elements, plain),
            .far_sent = std::max(out.far_elements, in.far_elements),
            .far_chain = chains.far_elements,
            .reduced = reduced};
  }
};

double length_of(const Step& step) {
  return static_cast<double>(step.destination.length.value());
}

double reduced_by(const Step& step) {
  return step.verb == Verb::reduce ? length_of(step) * step.source_count : 0;
}

/// Runs the schedules of all ranks, each until it waits for a signal that was not sent yet.
class AllRanks {
 public:
  AllRanks(const Hosts& hosts, const ByRank<Schedule>& schedules)
      : hosts_(hosts), schedules_(schedules), work_(hosts.ranks()), next_(hosts.ranks()) {}

  Cost count() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const Rank rank : all_ranks(hosts_.ranks())) moved |= run(rank);
    }
    Cost most;
    for (const RankWork& each : work_) most = busier(most, each.cost());
    return most;
  }

 private:
  struct Mailbox {
    std::vector<Chains> sent;
    std::size_t taken = 0;
  };

  bool run(Rank rank) {
    const auto steps = schedules_[rank].steps();
    const std::size_t before = next_[rank];
    while (next_[rank] < steps.size() && take(rank, steps[next_[rank]])) ++next_[rank];
    return next_[rank] != before;
  }

  bool take(Rank rank, const Step& step) {
    RankWork& work = work_[rank];
    work.reduced += reduced_by(step);
    if (step.verb == Verb::copy || step.verb == Verb::reduce) return true;
    const bool far = !hosts_.together(rank, step.peer);
    if (step.verb == Verb::wait) return wait(rank, step.peer, far);
    if (step.verb == Verb::put) {
      work.out.data(length_of(step), far);
      work_[step.peer].in.data(length_of(step), far);
      work.chains.far_elements += far ? length_of(step) : 0;
    } else {
      work.out.message(far);
      work_[step.peer].in.message(far);
      mailbox(rank, step.peer).sent.push_back(work.chains);
    }
    return true;
  }

  bool wait(Rank rank, Rank peer, bool far) {
    Mailbox& from_peer = mailbox(peer, rank);
    if (from_peer.taken == from_peer.sent.size()) return false;
    work_[rank].chains.follow(from_peer.sent[from_peer.taken++], far);
    return true;
  }

  Mailbox& mailbox(Rank from, Rank to) {
    return mailboxes_[static_cast<std::uint64_t>(from.value()) << 32 |
                      static_cast<std::uint32_t>(to.value())];
  }

  const Hosts& hosts_;
  const ByRank<Schedule>& schedules_;
  ByRank<RankWork> work_;
  ByRank<std::size_t> next_;
  std::unordered_map<std::uint64_t, Mailbox> mailboxes_;
};

/// Counts one schedule as if the peers did the same at the same time: what a rank waits for left
/// its peer when the rank itself sent as many signals to the peer on its other side.
class InStep {
 public:
  InStep(const Hosts& hosts, const Schedule& schedule, Symmetry symmetry)
      : hosts_(hosts), schedule_(schedule), symmetry_(symmetry) {}

  /// The cost of `rank`, which does what the schedule's own rank does.
  Cost count(Rank rank) const {
    RankWork work;
    Chains last;  // of the signal before, for a peer that gets none
    std::unordered_map<int, std::vector<Chains>> sent;
    struct Heard {
      std::size_t messages = 0;
      Chains after{};  ///< the last one
    };
    std::unordered_map<int, Heard> heard;
    for (const Step& step : schedule_.steps()) {
      work.reduced += reduced_by(step);
      if (step.verb == Verb::copy || step.verb == Verb::reduce) continue;
      const bool far = !hosts_.together(rank, moved(step.peer, rank));
      if (step.verb == Verb::put) {
        work.out.data(length_of(step), far);
        work.chains.far_elements += far ? length_of(step) : 0;
      } else if (step.verb == Verb::signal) {
        work.out.message(far);
        sent[step.peer.value()].push_back(work.chains);
        last = work.chains;
      } else {
        work.in.message(far);
        const auto& like_ours = sent[mirrored(step.peer)];
        Heard& from_peer = heard[step.peer.value()];
        // A peer that sends again without an answer does so when its own next message has arrived.
        const Chains& otherwise = from_peer.messages > 0 ? from_peer.after : last;
        const std::size_t k = from_peer.messages++;
        work.chains.follow(k < like_ours.size() ? like_ours[k] : Chains{otherwise}, far);
        from_peer.after = work.chains;
      }
    }
    return work.cost();
  }

 private:
  int mirrored(Rank peer) const {
    if (symmetry_ != Symmetry::rotation) return peer.value();
    const int ranks = hosts_.ranks();
    return ((2 * schedule_.self().value() - peer.value()) % ranks + ranks) % ranks;
  }
  Rank moved(Rank peer, Rank rank) const {
    const int self = schedule_.self().value(), ranks = hosts_.ranks();
    if (symmetry_ == Symmetry::exclusive_or) return Rank{peer.value() ^ self ^ rank.value()};
    return Rank{(peer.value() + rank.value() - self + ranks) % ranks};
  }

  const Hosts& hosts_;
  const Schedule& schedule_;
  const Symmetry symmetry_;
};

/// With blocks that are equally long.
Shape in_equal_parts(const Algorithm& algorithm, Shape shape, int ranks) {
  const Contract contract{algorithm.collective, shape, ranks};
  const auto p = static_cast<std::uint64_t>(ranks);
  if (!shape.counts.empty())
    std::ranges::fill(shape.counts, contract.typical_count());
  else if (!contract.input_blocks(0) && !contract.output_blocks(0))
    shape.count = Elements{(shape.count.value() + p - 1) / p * p};
  return shape;
}

bool all_do_the_same(const Algorithm& algorithm, int ranks) {
  return algorithm.symmetry == Symmetry::rotation ||
         (algorithm.symmetry == Symmetry::exclusive_or &&
          std::has_single_bit(static_cast<unsigned>(ranks)));
}

/// About the number of steps that could be counted in the time that it takes to build and count the
/// schedules of all ranks, each as long as `one`.
std::size_t work_for_all(const Algorithm& algorithm, int ranks, const Schedule& one) {
  const auto p = static_cast<std::size_t>(ranks);
  const bool looks_at_all_hosts = algorithm.requirement != Requires::anywhere;
  return p * (one.steps().size() + (looks_at_all_hosts ? p / 16 : 0));
}

}  // namespace

Cost cost_of(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
             std::size_t most_steps) {
  const auto schedule_of = [&](int rank, const Shape& of) {
    return algorithm.schedule(Group::world(hosts, Rank{rank}), of);
  };
  Cost most;
  const int ranks = hosts.ranks();
  if (all_do_the_same(algorithm, ranks)) {
    const Schedule first = schedule_of(0, in_equal_parts(algorithm, shape, ranks));
    const InStep same{hosts, first, algorithm.symmetry};
    for (const Rank rank : hosts.single() ? std::vector{Rank{0}} : hosts.on(0))
      most = busier(most, same.count(rank));
    return most;
  }
  std::vector<Schedule> schedules{schedule_of(ranks - 1, shape)};
  const bool few = work_for_all(algorithm, ranks, schedules.front()) > most_steps;
  for (int rank = 0; rank < (few ? 1 : ranks - 1); ++rank)
    schedules.insert(schedules.end() - 1, schedule_of(rank, shape));
  if (!few) return AllRanks{hosts, ByRank<Schedule>{std::move(schedules)}}.count();
  for (const Schedule& each : schedules)
    most = busier(most, InStep{hosts, each, Symmetry::none}.count(each.self()));
  return most;
}

}  // namespace capstan
