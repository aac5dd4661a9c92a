// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulation/script.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace capstan {
namespace {

class Scriptwriter {
 public:
  Scriptwriter(const Program& program, const Schedule& schedule, const Cluster& cluster,
               Bytes element, bool in_place)
      : program_(program),
        schedule_(schedule),
        hosts_(cluster.hosts),
        costs_(cluster.costs),
        element_(element),
        in_place_(in_place) {
    script_.steps.reserve(program.ops.size());
  }

  Script write() && {
    for (const Op& op : program_.ops) {
      end_phases(op.phase);
      step_ = op.step;
      if (program_.packets) await_packets(op.step + std::size_t{1});
      write(op);
    }
    if (program_.packets) await_packets(schedule_.steps().size());
    end_phases(program_.phases);
    return std::move(script_);
  }

 private:
  void end_phases(int until) {
    while (static_cast<int>(script_.phase_end.size()) < until) {
      script_.phase_end.push_back(static_cast<std::uint32_t>(script_.steps.size()));
      can_extend_ = false;
    }
  }

  /// Packets are awaited where the schedule waits: their programs wait where packets are read.
  void await_packets(std::size_t until) {
    for (; awaited_ < until; ++awaited_) {
      const Step& step = schedule_.steps()[awaited_];
      if (step.verb == Verb::wait) add(Action::wait, step.peer, 0);
    }
  }

  void write(const Op& op) {
    switch (op.code) {
      case OpCode::gather:
        return gather(op);
      case OpCode::push:
        pushed_to(op.peer) += bytes_of(op);
        return work(bytes_of(op) * costs_.cpu_byte);
      case OpCode::flush:
        return add(Action::drain, op.peer, 0);
      case OpCode::signal:
      case OpCode::notify:
        return add(Action::send, op.peer, std::exchange(pushed_to(op.peer), 0));
      case OpCode::wait:
        if (!program_.packets) add(Action::wait, op.peer, 0);
        return;
    }
  }

  double bytes_of(const Op& op) const {
    return program_.packets ? static_cast<double>(packets_for(op.length, element_) * packet_bytes)
                            : static_cast<double>(capstan::bytes_of(op.length, element_).value());
  }

  void gather(const Op& op) {
    const auto sources = program_.sources(op), destinations = program_.destinations(op);
    const double bytes = bytes_of(op);
    if (in_place_ && op.source_count == 1 && sources.front().place == Place::input &&
        destinations.front().place == Place::output)
      return;
    double operands = 0;
    for (const Operand& source : sources) is_near(source) ? read(source, bytes) : void(++operands);
    for (const Operand& destination : destinations)
      destination.place == Place::peer_output ? read(destination, bytes) : void(++operands);
    const double combined = op.source_count > 1 ? op.source_count : 0;
    work(bytes * (operands * costs_.copy_byte + combined * costs_.reduce_byte));
  }

  /// Whether the operand is memory of another rank on the same host.
  bool is_near(const Operand& source) const {
    return source.place >= Place::staging && source.owner != program_.self &&
           hosts_.together(source.owner, program_.self);
  }

  void read(const Operand& operand, double bytes) { add(Action::read, operand.owner, bytes); }

  void work(double time) {
    if (time <= 0) return;
    if (can_extend_)
      script_.steps.back().amount += time;
    else
      add(Action::work, Rank{}, time);
    can_extend_ = true;
  }

  void add(Action action, Rank peer, double amount) {
    script_.steps.push_back({action, static_cast<std::uint32_t>(step_), peer, amount});
    can_extend_ = false;
  }

  /// The bytes for a peer since the last message to it.
  double& pushed_to(Rank peer) { return pushed_[peer]; }

  const Program& program_;
  const Schedule& schedule_;
  const Hosts& hosts_;
  const RankCosts& costs_;
  const Bytes element_;
  const bool in_place_;
  Script script_;
  std::map<Rank, double> pushed_;
  std::size_t step_ = 0, awaited_ = 0;
  bool can_extend_ = false;  // the last step is work of this phase
};

}  // namespace

Script script_of(const Program& program, const Schedule& schedule, const Cluster& cluster,
                 Bytes element, bool in_place) {
  return Scriptwriter{program, schedule, cluster, element, in_place}.write();
}

double busy_time(const Script& script, const Cluster& cluster, Rank self) {
  const RankCosts& costs = cluster.costs;
  double busy = 0, crossing = 0;
  for (const ScriptStep& step : script.steps) {
    const bool near = step.action == Action::work || cluster.hosts.together(self, step.peer);
    if (step.action == Action::work) busy += step.amount;
    if (step.action == Action::read)
      busy += cluster.memory.latency + step.amount * cluster.memory.byte;
    if (step.action == Action::send) busy += near ? costs.signal : costs.send;
    if (step.action == Action::send && !near) crossing += step.amount;
    if (step.action == Action::wait && !near) busy += costs.receive;
  }
  return std::max(busy, crossing * cluster.fabric->classes()[Fabric::port_class].byte);
}

}  // namespace capstan
