// SPDX-License-Identifier: Apache-2.0

// Transfers that go on as another object, or whose owner gets its buffer back.

#include <algorithm>

#include "core/engine/messages/messages.hpp"

namespace capstan {

void Messages::replace(const MessageTransfer& transfer, const TransferPointer& by) {
  const auto change = [&](TransferPointer& known) {
    if (known.get() == &transfer) known = by;
  };
  if (!transfer.sends) {
    std::ranges::for_each(posted_, change);
    for (Incoming& incoming : incoming_) change(incoming.transfer);
    return;
  }
  const Rank peer{transfer.peer};
  for (auto& [id, offered] : offered_) change(offered);
  for (Outgoing& outgoing : outgoing_[peer]) change(outgoing.transfer);
  std::ranges::for_each(sending_[peer], change);
}

/// The frame of a send, of which nothing has been sent, that waits for room in the ring; null if
/// there is none.
Messages::Outgoing* Messages::waiting_frame(const TransferPointer& transfer) {
  for (auto& waiting : outgoing_)
    for (Outgoing& outgoing : waiting)
      if (outgoing.transfer == transfer && (outgoing.frame.kind == MessageFrame::Kind::eager ||
                                            outgoing.frame.kind == MessageFrame::Kind::begun))
        return &outgoing;
  return nullptr;
}

bool Messages::can_detach(const TransferPointer& transfer) {
  if (!transfer->sends) return !transfer->finished || !transfer->read;
  return !transfer->finished || transfer->memory || is_sending(transfer) || waiting_frame(transfer);
}

void Messages::detach(const TransferPointer& transfer) {
  if (!transfer->finished) return;
  transfer->finished = nullptr;
  if (!transfer->sends) {
    if (std::erase(posted_, transfer) > 0) return static_cast<void>(--pending_);
    transfer->stage = nullptr;
    transfer->own.assign(transfer->data, transfer->data + transfer->done);
    transfer->own.resize(transfer->size);
    transfer->data = transfer->own.data();
    return;
  }
  if (transfer->memory || is_sending(transfer)) return;
  transfer->own.assign(transfer->data, transfer->data + transfer->size);
  waiting_frame(transfer)->payload = transfer->data = transfer->own.data();
}

}  // namespace capstan
