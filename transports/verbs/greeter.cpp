// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/greeter.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::verbs {
namespace {

constexpr std::size_t sends = 32;

/// The queue key: the device drops datagrams with another one. It keeps stray datagrams away, not
/// attackers, as every datagram holds it. Its topmost bit is reserved.
std::uint32_t key_of(const JobKey::TransportId& id) {
  std::uint32_t key = 0;
  std::memcpy(&key, id.data(), sizeof(key));
  return key & 0x7fff'ffff;
}

}  // namespace

Greeting Greeting::sealed(const Secret& key) const {
  Greeting result = *this;
  result.tag = {};
  result.tag = key.tag(std::as_bytes(std::span{&result, 1}));
  return result;
}

Greeter::Greeter(const Device& device, int ranks, const JobKey::TransportId& id)
    : device_(&device),
      id_(id),
      slots_(device.domain.get(),
             std::clamp<std::size_t>(static_cast<std::size_t>(ranks) * 2, 32, 1024) + sends,
             IBV_ACCESS_LOCAL_WRITE),
      receives_(slots_.size() - sends),
      completions_(made(library().create_cq(device.context.get(), static_cast<int>(slots_.size()),
                                            nullptr, nullptr, 0),
                        "ibv_create_cq")),
      handles_(ranks) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions_.get();
  wanted.recv_cq = completions_.get();
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap = {.max_send_wr = sends,
                .max_recv_wr = static_cast<std::uint32_t>(receives_),
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  queue_pair_.reset(made(library().create_qp(device.domain.get(), &wanted), "ibv_create_qp"));
  make_ready();
  for (std::size_t slot = 0; slot < receives_; ++slot) offer(slot);
  for (std::size_t slot = receives_; slot < slots_.size(); ++slot) free_.push_back(slot);
}

void Greeter::make_ready() {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = device_->port_number;
  state.qkey = key_of(id_);
  require_success(library().modify_qp(queue_pair_.get(), &state,
                                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                  "ibv_modify_qp to INIT");
  state.qp_state = IBV_QPS_RTR;
  require_success(library().modify_qp(queue_pair_.get(), &state, IBV_QP_STATE),
                  "ibv_modify_qp to RTR");
  state.qp_state = IBV_QPS_RTS;
  require_success(library().modify_qp(queue_pair_.get(), &state, IBV_QP_STATE | IBV_QP_SQ_PSN),
                  "ibv_modify_qp to RTS");
}

void Greeter::offer(std::size_t slot) {
  ibv_sge place{.addr = reinterpret_cast<std::uint64_t>(&slots_[slot]),
                .length = sizeof(Slot),
                .lkey = slots_.key()};
  ibv_recv_wr request{.wr_id = slot, .next = nullptr, .sg_list = &place, .num_sge = 1};
  ibv_recv_wr* refused = nullptr;
  require_success(::ibv_post_recv(queue_pair_.get(), &request, &refused), "ibv_post_recv");
}

void Greeter::greet(Rank rank, const VerbsAddress& peer, const Greeting& greeting) {
  if (!handles_[rank]) {
    ibv_ah_attr route = device_->route_to(peer);
    ibv_ah* handle = library().create_ah(device_->domain.get(), &route);
    if (!handle && errno == ETIMEDOUT) return;  // the kernel's address resolution lost a packet
    handles_[rank].reset(made(handle, "ibv_create_ah"));
  }
  if (free_.empty()) return;
  const std::size_t slot = free_.back();
  free_.pop_back();
  slots_[slot].greeting = greeting;
  ibv_sge place{.addr = reinterpret_cast<std::uint64_t>(&slots_[slot].greeting),
                .length = sizeof(Greeting),
                .lkey = slots_.key()};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &place;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud = {
      .ah = handles_[rank].get(), .remote_qpn = peer.greeter, .remote_qkey = key_of(peer.id)};
  ibv_send_wr* refused = nullptr;
  require_success(::ibv_post_send(queue_pair_.get(), &request, &refused), "ibv_post_send");
}

std::optional<Greeting> Greeter::receive() {
  ibv_wc completion;
  while (::ibv_poll_cq(completions_.get(), 1, &completion) > 0) {
    const auto slot = static_cast<std::size_t>(completion.wr_id);
    if (slot >= receives_) {
      free_.push_back(slot);
      continue;
    }
    const Greeting greeting = slots_[slot].greeting;
    offer(slot);
    if (completion.status == IBV_WC_SUCCESS && completion.byte_len == sizeof(Slot) &&
        greeting.format == Greeting::current_format) {
      return greeting;
    }
  }
  return std::nullopt;
}

}  // namespace capstan::verbs
