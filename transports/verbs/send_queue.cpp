// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/send_queue.hpp"

#include <cstring>
#include <utility>

namespace capstan::verbs {

SendQueue::SendQueue(const Device& device, ibv_cq* completions, ibv_srq* receives, Shape shape)
    : shape_(shape) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions;
  wanted.recv_cq = completions;
  wanted.srq = receives;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = shape_.depth;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_inline_data = shape_.inline_data ? most_short : 0;
  queue_pair_.reset(library().create_qp(device.domain.get(), &wanted));
  if (!queue_pair_ && shape_.inline_data) {  // this device may lack inline data
    shape_.inline_data = false;
    wanted.cap.max_inline_data = 0;
    queue_pair_.reset(library().create_qp(device.domain.get(), &wanted));
  }
  made(queue_pair_.get(), "ibv_create_qp", "the device may be out of queue pairs: rdma resource");
  if (shape_.inline_data) return;
  slots_ = DeviceArray<std::byte>{device.domain.get(), shape_.depth * most_short, 0};
}

ibv_send_wr& SendQueue::add(const Target& target, const void* data, std::uint32_t length,
                            std::uint32_t key) {
  if (pending_ == most_at_once) submit();
  ++begun_;
  places_[pending_] = {
      .addr = reinterpret_cast<std::uint64_t>(data), .length = length, .lkey = key};
  ibv_send_wr& request = requests_[pending_];
  request = {};
  request.wr_id =
      static_cast<std::uint64_t>(shape_.peer.value()) << count_bits | (begun_ & count_mask);
  request.sg_list = &places_[pending_];
  request.num_sge = length > 0 ? 1 : 0;
  request.opcode = target.opcode;
  request.wr.rdma.remote_addr = target.address;
  request.wr.rdma.rkey = target.key;
  // At most a quarter of the queue goes without a report, so that room becomes free in time.
  if (target.reported || begun_ - last_reported_ >= shape_.depth / 4) {
    request.send_flags |= IBV_SEND_SIGNALED;
    last_reported_ = begun_;
  }
  if (pending_ > 0) requests_[pending_ - 1].next = &request;
  ++pending_;
  return request;
}

void SendQueue::add_short(const Target& target, const void* data, std::uint32_t length) {
  if (shape_.inline_data) {
    add(target, data, length, 0).send_flags |= IBV_SEND_INLINE;
  } else {
    std::byte* slot = &slots_[begun_ % shape_.depth * most_short];
    if (length > 0) std::memcpy(slot, data, length);
    add(target, slot, length, slots_.key());
  }
}

void SendQueue::add_long(const Target& target, const void* data, std::uint32_t length,
                         std::uint32_t key, std::shared_ptr<const MemoryKeys> registration) {
  add(target, data, length, key);
  last_long_ = begun_;
  if (registration) held_.push_back({begun_, std::move(registration)});
}

void SendQueue::add_read(const Target& source, void* to, std::uint32_t length, std::uint32_t key,
                         std::shared_ptr<const MemoryKeys> registration,
                         std::shared_ptr<RemoteRead> read) {
  add(source, to, length, key);
  held_.push_back({begun_, std::move(registration), std::move(read), length});
  ++reads_in_flight_;
}

int SendQueue::submit() {
  if (std::exchange(pending_, 0) == 0 || error_ != 0) return error_;
  ibv_send_wr* refused = nullptr;
  return error_ = ::ibv_post_send(queue_pair_.get(), requests_.data(), &refused);
}

void SendQueue::complete(std::uint64_t wr_id) {
  if (!queue_pair_) return;
  completed_ += (wr_id - completed_) & count_mask;
  for (; !held_.empty() && held_.front().until <= completed_; held_.pop_front()) {
    const Held& done = held_.front();
    if (!done.read) continue;
    --reads_in_flight_;
    done.read->left -= done.length;
  }
}

void SendQueue::abandon() {
  queue_pair_.reset();
  pending_ = 0;
  completed_ = begun_;
  for (const Held& held : held_)
    if (held.read) held.read->failed = true;
  held_.clear();
  reads_in_flight_ = 0;
}

}  // namespace capstan::verbs
