// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulation/cluster_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// Where a rank is in the stream of its blocks: round t runs phase k of block t-k.
class Position {
 public:
  Position(const RankScripts& scripts, std::uint64_t blocks)
      : scripts_(&scripts),
        blocks_(blocks),
        phases_(std::max(scripts.usual.phase_end.size(), scripts.last.phase_end.size())) {
    enter();
  }

  bool at_end() const { return round_ + 1 >= blocks_ + phases_ && phase_ >= phases_; }
  const ScriptStep& step() const { return script_->steps[at_]; }
  void next() {
    ++at_;
    if (at_ == end_) ++phase_, enter();
  }

 private:
  /// Goes to the first step from this phase of this round on.
  void enter() {
    for (;; ++round_, phase_ = 0) {
      for (; phase_ < phases_; ++phase_) {
        if (phase_ > round_ || round_ - phase_ >= blocks_) continue;
        const bool last = scripts_->differs && round_ - phase_ + 1 == blocks_;
        script_ = last ? &scripts_->last : &scripts_->usual;
        at_ = phase_ == 0 ? 0 : end_of(phase_ - 1);
        end_ = end_of(phase_);
        if (at_ < end_) return;
      }
      if (round_ + 1 >= blocks_ + phases_) return;
    }
  }

  /// A block does nothing in phases that only the other has.
  std::uint32_t end_of(std::size_t phase) const {
    return script_->phase_end[std::min(phase, script_->phase_end.size() - 1)];
  }

  const RankScripts* scripts_;
  std::uint64_t blocks_;
  std::size_t phases_;
  std::uint64_t round_ = 0;
  std::size_t phase_ = 0;
  const Script* script_ = nullptr;
  std::size_t at_ = 0, end_ = 0;
};

std::size_t events_in(const Script& script) {
  return static_cast<std::size_t>(std::ranges::count_if(script.steps, [](const ScriptStep& step) {
    return step.action != Action::work && step.action != Action::drain;
  }));
}

struct Message {
  Rank from;  // as the receiver sees it
  double arrival, latency, queueing, moving;
  double bytes;
  std::uint32_t sent;  // the sender's event
  bool remote;
};

struct Actor {
  Position position;
  double clock = 0;
  double work = 0, drained = 0;  // since the last event
  double slower = 1;
  std::optional<Rank> awaited{};
  std::vector<Message> inbox{};                    // in the order of sending
  std::vector<std::pair<Rank, double>> leaving{};  // when the last message to a peer has left
};

class ClusterSimulation {
 public:
  ClusterSimulation(const Cluster& cluster, const RankClasses& classes,
                    const std::vector<RankScripts>& scripts, std::uint64_t blocks,
                    const Disturbance& disturbance)
      : cluster_(cluster),
        fabric_(*cluster.fabric),
        costs_(cluster.costs),
        free_(static_cast<std::size_t>(fabric_.links() + classes.simulated)),
        loads_(free_.size()) {
    run_.classes = classes;
    run_.events.resize(scripts.size());
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      Actor& actor = actors_.emplace_back(Actor{Position{scripts[i], blocks}});
      if (!disturbance.slower.empty()) actor.slower = disturbance.slower[i];
      if (!disturbance.late.empty()) actor.clock = disturbance.late[i];
      actor.clock += costs_.call * actor.slower;
      ready_.emplace(actor.clock, static_cast<int>(i));
      run_.events[i].reserve(events_in(scripts[i].usual) * blocks);
    }
  }

  ClusterRun run() && {
    while (!ready_.empty()) {
      const int next = ready_.top().second;
      ready_.pop();
      advance(next);
    }
    finish();
    return std::move(run_);
  }

 private:
  using Moment = std::pair<double, int>;

  /// Runs a rank until it waits for a message, or has to let another one go first.
  void advance(int self) {
    Actor& actor = actors_[index(self)];
    for (; !actor.position.at_end(); actor.position.next(), ++run_.steps) {
      const ScriptStep& step = actor.position.step();
      switch (step.action) {
        case Action::work:
          actor.clock += step.amount * actor.slower;
          actor.work += step.amount * actor.slower;
          break;
        case Action::drain:
          drain(actor, step.peer);
          break;
        case Action::wait:
          if (!receive(self, actor, step)) return;
          break;
        case Action::read:
        case Action::send:
          if (!ready_.empty() && ready_.top() < Moment{actor.clock, self})
            return ready_.emplace(actor.clock, self);
          step.action == Action::read ? read(self, actor, step) : send(self, actor, step);
          break;
      }
    }
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  bool together(int self, Rank peer) const { return cluster_.hosts.together(Rank{self}, peer); }

  ClusterEvent& record(int self, Actor& actor, const ScriptStep& step) {
    ClusterEvent& event = run_.events[index(self)].emplace_back();
    event.begin = actor.clock;
    event.work = static_cast<float>(std::exchange(actor.work, 0));
    event.moving = static_cast<float>(std::exchange(actor.drained, 0));
    event.bytes = static_cast<float>(step.amount);
    event.peer = step.peer.value();
    event.step = step.step;
    return event;
  }

  static void drain(Actor& actor, Rank peer) {
    const auto found = std::ranges::find(actor.leaving, peer, &std::pair<Rank, double>::first);
    if (found == actor.leaving.end()) return;
    const double late = std::max(found->second - actor.clock, 0.0);
    actor.clock += late;
    actor.drained += late;
    actor.leaving.erase(found);
  }

  bool receive(int self, Actor& actor, const ScriptStep& step) {
    const auto found = std::ranges::find(actor.inbox, step.peer, &Message::from);
    if (found == actor.inbox.end()) {
      actor.awaited = step.peer;
      return false;
    }
    ClusterEvent& event = record(self, actor, step);
    event.is_wait = true;
    event.bytes = static_cast<float>(found->bytes);
    event.sent = found->sent;
    event.latency = static_cast<float>(found->latency);
    event.queueing = static_cast<float>(found->queueing);
    event.blocked = found->arrival > actor.clock;
    if (event.blocked) event.moving = static_cast<float>(found->moving);
    actor.clock = std::max(actor.clock, found->arrival);
    if (found->remote)
      actor.clock += (costs_.receive + found->bytes * costs_.cpu_byte) * actor.slower;
    event.end = actor.clock;
    actor.inbox.erase(found);
    return true;
  }

  void send(int self, Actor& actor, const ScriptStep& step) {
    ClusterEvent& event = record(self, actor, step);
    event.is_send = true;
    const bool near = together(self, step.peer);
    actor.clock += (near ? costs_.signal : costs_.send) * actor.slower;
    event.end = actor.clock;
    const Rank seen = run_.classes.seen(Rank{self}, step.peer);
    Message message{.from = seen,
                    .arrival = actor.clock + costs_.flag,
                    .latency = costs_.flag,
                    .queueing = 0,
                    .moving = 0,
                    .bytes = step.amount,
                    .sent = last_event(self),
                    .remote = !near};
    if (!near) cross(self, actor, step.peer, message);
    deliver(run_.classes.like(step.peer), message);
    ++run_.messages;
  }

  std::uint32_t last_event(int self) const {
    return static_cast<std::uint32_t>(run_.events[index(self)].size() - 1);
  }

  /// Takes a message over the links of its way. Each link is taken from the time when the head of
  /// the message is there and the messages before it are over.
  void cross(int self, Actor& actor, Rank peer, Message& message) {
    way_.clear();
    if (run_.classes.all()) {
      fabric_.route(cluster_.port_of(Rank{self}), cluster_.port_of(peer), way_);
    } else {  // all ports are alike
      way_.push_back(cluster_.port_of(Rank{self}));
      way_.push_back(fabric_.ports() + cluster_.port_of(run_.classes.like(peer)));
    }
    double head = actor.clock, tail = actor.clock, slowest = 0;
    message.latency = 0;
    for (const int link : way_) {
      const LinkClass& kind = fabric_[link];
      const double moving = message.bytes * kind.byte;
      const double start = take(index(link), head, message.bytes, moving);
      tail = std::max(start + moving, tail) + kind.latency;
      head = start + kind.latency;
      message.latency += kind.latency;
      slowest = std::max(slowest, moving);
    }
    leave(actor, peer, free_[index(way_.front())]);
    message.arrival = tail;
    message.moving = slowest;
    const double queued = tail - actor.clock - message.latency - slowest;
    message.queueing = queued > tail * rounding ? queued : 0;
  }

  static constexpr double rounding = 1e-12;  // of sums of times

  /// Takes a link or a memory as soon as it is free. Returns when that was.
  double take(std::size_t link, double from, double bytes, double moving) {
    const double start = std::max(from, free_[link]);
    free_[link] = start + moving;
    loads_[link].bytes += bytes;
    loads_[link].busy += moving;
    return start;
  }

  static void leave(Actor& actor, Rank peer, double time) {
    const auto found = std::ranges::find(actor.leaving, peer, &std::pair<Rank, double>::first);
    if (found != actor.leaving.end())
      found->second = time;
    else
      actor.leaving.emplace_back(peer, time);
  }

  void read(int self, Actor& actor, const ScriptStep& step) {
    ClusterEvent& event = record(self, actor, step);
    const LinkClass& memory = cluster_.memory;
    const double moving = step.amount * memory.byte;
    const int owner = run_.classes.like(step.peer).value();
    const double start = take(index(fabric_.links() + owner), actor.clock, step.amount, moving);
    event.queueing = static_cast<float>(start - actor.clock);
    event.moving += static_cast<float>(moving);
    event.latency = static_cast<float>(memory.latency);
    actor.clock = start + memory.latency + moving;
    event.end = actor.clock;
  }

  void deliver(Rank to, const Message& message) {
    Actor& receiver = actors_[index(to.value())];
    receiver.inbox.push_back(message);
    if (receiver.awaited != message.from) return;
    receiver.awaited.reset();
    ready_.emplace(std::max(receiver.clock, message.arrival), to.value());
  }

  void finish() {
    for (std::size_t i = 0; i < actors_.size(); ++i) {
      Actor& actor = actors_[i];
      if (!actor.position.at_end())
        throw Error(
            fmt::format("simulated rank {} waits for rank {} for ever: its schedule has a "
                        "wait without a signal; prove it with `capstan verify`",
                        i, actor.awaited.value_or(Rank{}).value()));
      for (const auto& [peer, left] : actor.leaving) actor.clock = std::max(actor.clock, left);
      run_.finished.push_back(actor.clock);
      run_.last_work.push_back(actor.work);
      if (actor.clock > run_.time)
        run_.time = actor.clock, run_.slowest = Rank{static_cast<int>(i)};
    }
    for (std::size_t link = 0; link < loads_.size(); ++link)
      if (loads_[link].bytes > 0) {
        run_.loads.push_back(loads_[link]);
        run_.loads.back().link = static_cast<int>(link);
      }
  }

  const Cluster& cluster_;
  const Fabric& fabric_;
  const RankCosts& costs_;
  std::vector<Actor> actors_;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> ready_;
  std::vector<double> free_;  // by link, then by owner of memory: from when on
  std::vector<LinkLoad> loads_;
  std::vector<int> way_;
  ClusterRun run_;
};

}  // namespace

ClusterRun run_on_cluster(const Cluster& cluster, const RankClasses& classes,
                          const std::vector<RankScripts>& scripts, std::uint64_t blocks,
                          const Disturbance& disturbance) {
  return ClusterSimulation{cluster, classes, scripts, blocks, disturbance}.run();
}

CriticalPath critical_path(const ClusterRun& run, const Disturbance& disturbance) {
  CriticalPath path;
  const auto events_of = [&](int rank) -> const std::vector<ClusterEvent>& {
    return run.events[static_cast<std::size_t>(rank)];
  };
  int at = run.slowest.value();
  path.split.work = run.last_work[static_cast<std::size_t>(at)];
  for (std::size_t next = events_of(at).size(); next > 0;) {
    const ClusterEvent& event = events_of(at)[--next];
    if (!event.is_wait || event.blocked) {
      path.split.transfer += event.moving;
      path.split.queueing += event.queueing;
      path.split.latency += event.latency;
    }
    if (!event.blocked) {
      path.split.work += event.work;
      continue;
    }
    const int sender = run.classes.like(Rank{event.peer}).value();
    const ClusterEvent& sent = events_of(sender)[event.sent];
    path.hops.push_back({.from = Rank{event.peer},
                         .to = Rank{at},
                         .bytes = event.bytes,
                         .sent = sent.end,
                         .received = event.end,
                         .queueing = event.queueing,
                         .step = sent.step});
    at = sender;
    next = event.sent + std::size_t{1};
  }
  std::ranges::reverse(path.hops);
  if (!disturbance.late.empty()) path.split.late = disturbance.late[static_cast<std::size_t>(at)];
  path.split.overhead = run.time - path.split.total();
  return path;
}

}  // namespace capstan
