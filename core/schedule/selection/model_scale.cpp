// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/model_scale.hpp"

#include <algorithm>
#include <cmath>

namespace capstan {
namespace {

using M = LinkModel;
using Constant = double M::*;

constexpr Constant calls[] = {&M::call};
constexpr Constant flags[] = {&M::signal, &M::flag, &M::miss};
constexpr Constant packets[] = {&M::packet_write, &M::packet, &M::next_packet, &M::next_source,
                                &M::polled_packet};
constexpr Constant computing[] = {&M::local_byte, &M::reduce_byte, &M::read_piece_byte};
constexpr Constant local_memory[] = {&M::dram_local_factor};
constexpr Constant staging_writes[] = {&M::staging_write_byte};
constexpr Constant staging_reads[] = {&M::staging_read_byte, &M::next_staging_byte};
constexpr Constant first_staging[] = {&M::first_staging_byte};
constexpr Constant kernel_calls[] = {&M::read_call, &M::read_piece, &M::write_call};
constexpr Constant copies_at_once[] = {&M::copy_contention};
constexpr Constant loads[] = {&M::load};
constexpr Constant reads[] = {&M::read_byte};
constexpr Constant fresh_reads[] = {&M::read_fresh_byte};
constexpr Constant writes[] = {&M::write_byte};
constexpr Constant cache[] = {&M::cache_share};
constexpr Constant memory[] = {&M::dram_read_factor, &M::dram_write_factor, &M::dram_load_factor};
constexpr Constant messages[] = {&M::o_send, &M::o_recv};
constexpr Constant latency[] = {&M::latency};
constexpr Constant wire[] = {&M::send_byte, &M::first_send_byte};

}  // namespace

const std::array<ModelFactor, model_factor_count>& model_factors() {
  static constexpr std::array<ModelFactor, model_factor_count> all{{
      {"calls", calls},
      {"flags", flags},
      {"packets", packets},
      {"computing", computing},
      {"local-memory", local_memory},
      {"staging-writes", staging_writes},
      {"staging-reads", staging_reads},
      {"first-staging", first_staging},
      {"kernel-calls", kernel_calls},
      {"copies-at-once", copies_at_once},
      {"loads", loads},
      {"reads", reads},
      {"fresh-reads", fresh_reads},
      {"writes", writes},
      {"cache", cache},
      {"memory", memory},
      {"messages", messages},
      {"latency", latency},
      {"wire", wire},
  }};
  return all;
}

LinkModel ModelScale::applied(LinkModel model) const {
  for (std::size_t i = 0; i < model_factor_count; ++i)
    for (const Constant constant : model_factors()[i].constants) model.*constant *= factors[i];
  return model;
}

void ModelScales::add(int ranks, bool on_one_host, const ModelScale& scale) {
  entries_.push_back({ranks, on_one_host, scale});
}

const ModelScales::Entry* ModelScales::nearest(int ranks, bool on_one_host) const {
  const Entry* best = nullptr;
  const auto distance = [&](const Entry& entry) {
    return std::abs(std::log2(static_cast<double>(entry.ranks) / ranks));
  };
  for (const Entry& entry : entries_)
    if (entry.on_one_host == on_one_host && (!best || distance(entry) < distance(*best)))
      best = &entry;
  return best;
}

ModelScale ModelScales::at(const Hosts& hosts) const {
  const Entry* found = nearest(hosts.ranks(), hosts.single());
  if (!found) found = nearest(hosts.ranks(), true);
  return found ? found->scale : ModelScale{};
}

}  // namespace capstan
