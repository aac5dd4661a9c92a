// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/receive_queue.hpp"

#include <algorithm>
#include <array>

namespace capstan::verbs {

ReceiveQueue::ReceiveQueue(const Device& device, int depth)
    : slots_(device.domain.get(),
             static_cast<std::size_t>(std::clamp(depth, 1, device.limits.max_srq_wr)),
             IBV_ACCESS_LOCAL_WRITE) {
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = static_cast<std::uint32_t>(slots_.size());
  wanted.attr.max_sge = 1;
  queue_.reset(made(library().create_srq(device.domain.get(), &wanted), "ibv_create_srq"));
  for (std::uint64_t slot = 0; slot < slots_.size(); ++slot) free_.push_back(slot);
  replenish();
}

std::span<const std::byte> ReceiveQueue::take(const ibv_wc& completion) {
  const std::uint64_t slot = completion.wr_id & ~receive_mark;
  free_.push_back(slot);
  const std::size_t length = std::min<std::size_t>(completion.byte_len, sizeof(ControlMessage));
  return std::as_bytes(std::span{&slots_.at(slot), 1}).first(length);
}

void ReceiveQueue::replenish() {
  constexpr std::size_t at_once = 32;
  std::array<ibv_recv_wr, at_once> requests;
  std::array<ibv_sge, at_once> places;
  while (!free_.empty()) {
    const std::size_t count = std::min(at_once, free_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t slot = free_[free_.size() - 1 - i];
      places[i] = {.addr = reinterpret_cast<std::uint64_t>(&slots_[slot]),
                   .length = sizeof(ControlMessage),
                   .lkey = slots_.key()};
      requests[i] = {.wr_id = receive_mark | slot,
                     .next = i + 1 < count ? &requests[i + 1] : nullptr,
                     .sg_list = &places[i],
                     .num_sge = 1};
    }
    ibv_recv_wr* refused = nullptr;
    require_success(::ibv_post_srq_recv(queue_.get(), requests.data(), &refused),
                    "ibv_post_srq_recv");
    free_.resize(free_.size() - count);
  }
}

}  // namespace capstan::verbs
