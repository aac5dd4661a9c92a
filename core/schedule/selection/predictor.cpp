// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/predictor.hpp"

#include <algorithm>

namespace capstan {

bool simulates(const Hosts& hosts) {
  return hosts.ranks() <= (hosts.single() ? 16 : 32);
}

Bytes shortest_buffer(const Call& call, int ranks) {
  Elements shortest = call.contract(ranks).extent();
  for (const Rank rank : all_ranks(ranks)) {
    const BufferLengths lengths = call.contract(ranks).lengths(rank.value());
    for (const Elements length : {lengths.input, lengths.output})
      if (length > Elements{0}) shortest = std::min(shortest, length);
  }
  return bytes_of(shortest, call.element());
}

Predictor::Predictor(const Algorithm& algorithm, const Hosts& hosts, const Call& call,
                     const LinkModel& model)
    : algorithm_(algorithm),
      hosts_(hosts),
      ranks_(hosts.ranks()),
      call_(call),
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

const ByRank<Program>& Predictor::programs(Protocol protocol) {
  if (const auto made = programs_.find(protocol); made != programs_.end()) return made->second;
  if (schedules_.empty())
    for (const Rank rank : all_ranks(ranks_))
      schedules_.push_back(algorithm_.schedule(Group::world(hosts_, rank), call_.shape));
  const auto schedule_of = [&](Rank rank) -> const Schedule& { return schedules_[rank]; };
  return programs_[protocol] = lower_all(schedule_of, hosts_, protocol);
}

SimulatedCall Predictor::simulated_call() const {
  return {.element = call_.element(),
          .synchronizes = algorithm_.guarantees.synchronizes,
          .in_place = call_.collective == Collective::broadcast,  // nearly always
          .of_rank = of_rank_,
          .of_all = of_all_,
          .shortest = shortest_,
          .peer_mapped = call_.peer_mapped,
          .memory = call_.memory};
}

PredictedTime Predictor::simulated(Protocol protocol) {
  PredictedTime time = simulate(programs(protocol), hosts_, simulated_call(), model_);
  if (!hosts_.single())
    time.waiting += time.total() * model_.phase_contention * (schedules_[Rank{0}].phases() - 1);
  return time;
}

Predictor::Timeline Predictor::timeline(Protocol protocol) {
  Timeline line{programs(lowered_as(protocol)), {}};
  simulate(line.programs, hosts_, simulated_call(), model_, &line.spans);
  return line;
}

std::size_t Predictor::simulated_steps(Protocol protocol) {
  if (!simulates_programs()) return 0;
  std::size_t steps = 0;
  for (const Program& program : programs(lowered_as(protocol))) steps += program.ops.size();
  return steps;
}

// measured: docs/lab-notebook.md#declared-costs-between-hosts
/// What crosses the network. Messages that go at once keep their rank busy one after the other, and
/// the last rank of a pipeline waits until the first block has passed all others.
PredictedTime Predictor::counted_network(const Cost& cost) const {
  const double at_once = std::max(cost.far_messages - cost.far_steps, 0.0);
  const auto element = static_cast<double>(call_.element().value());
  const double whole = static_cast<double>(contract_.typical_count().value()) * element;
  const double of_block =
      std::min(1.0, static_cast<double>(largest_block.value()) / std::max(whole, 1.0));
  const double passed_on = std::max(cost.far_chain - cost.far_sent, 0.0) * of_block;
  return {.latency = cost.far_steps * (model_.o_send + model_.o_recv + model_.latency) +
                     at_once * std::max(model_.o_send, model_.o_recv),
          .bandwidth = (cost.far_sent + passed_on) * element * model_.send_byte};
}

PredictedTime Predictor::counted(Protocol protocol) {
  // Few ranks are counted where a call is not worth the time to simulate them.
  const std::size_t most_steps = simulates(hosts_) ? 1 << 8 : 1 << 15;
  if (!cost_) cost_ = cost_of(algorithm_, hosts_, call_.shape, most_steps);
  const Cost& cost = *cost_;
  const double element = static_cast<double>(call_.element().value());
  const PredictedTime network = hosts_.single() ? PredictedTime{} : counted_network(cost);
  // A staging buffer is written once for all receivers, and each receiver reads it.
  const auto time = [&](double latency, double per_byte) {
    return PredictedTime{.latency = latency + network.latency,
                         .bandwidth = cost.sent * element * per_byte + network.bandwidth,
                         .reduction = cost.reduced * element * per_byte};
  };
  const double steps = hosts_.single() ? cost.steps : 0;
  const double at_once = hosts_.single() ? std::max(cost.messages - cost.steps, 0.0) : 0;
  if (in_packets(protocol))
    return time(steps * model_.packet + at_once * model_.next_source,
                (model_.packet_write + model_.next_packet) / packet_payload_bytes);
  if (protocol == Protocol::staged)
    return time(steps * (model_.flag + 2 * model_.miss) + at_once * model_.signal,
                (model_.staging_write_byte + model_.staging_read_byte) / 2);
  // One more message says that the buffers have been read.
  const bool seen = call_.peer_mapped >= (reaches_outputs(protocol) ? PeerMappedBuffers::all
                                                                    : PeerMappedBuffers::inputs);
  return time((cost.steps + 1) * (model_.flag + 2 * model_.miss) +
                  (ranks_ - 1) * (seen ? model_.load : model_.read_call),
              model_.read_byte * (model_.exceed_cache(of_rank_) ? model_.dram_read_factor : 1));
}

}  // namespace capstan
