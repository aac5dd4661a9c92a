// SPDX-License-Identifier: Apache-2.0

// Transfers that go on as another object, or whose owner gets its buffer back.

#include <algorithm>

#include "core/engine/messages/messages.hpp"

namespace capstan {

/// A transfer that has just begun is the last one wherever it waits.
void Messages::replace(const MessageTransfer& transfer, const TransferPointer& by) {
  const auto change = [&](TransferPointer& known) {
    const bool found = known.get() == &transfer;
    if (found) known = by;
    return found;
  };
  if (!transfer.sends) {
    if (std::any_of(posted_.rbegin(), posted_.rend(), change)) return;
    for (Incoming& incoming : incoming_) change(incoming.transfer);
    return;
  }
  const Rank peer{transfer.peer};
  if (const auto offered = offered_.find(transfer.id); offered != offered_.end())
    if (change(offered->second)) return;
  auto& waiting = outgoing_[peer];
  const auto change_waiting = [&](Outgoing& outgoing) { return change(outgoing.transfer); };
  if (std::any_of(waiting.rbegin(), waiting.rend(), change_waiting)) return;
  static_cast<void>(std::any_of(sending_[peer].rbegin(), sending_[peer].rend(), change));
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
  return !transfer->finished || transfer->has_owner() || is_sending(transfer) ||
         waiting_frame(transfer);
}

void Messages::detach(const TransferPointer& transfer) {
  if (!transfer->finished) return;
  transfer->finished = nullptr;
  if (!transfer->sends) {
    if (std::erase(posted_, transfer) > 0) return static_cast<void>(--pending_);
    if (transfer->special) transfer->special->stage = nullptr;
    transfer->own.assign(transfer->data, transfer->data + transfer->done);
    transfer->own.resize(transfer->size);
    transfer->data = transfer->own.data();
    return;
  }
  if (transfer->has_owner() || is_sending(transfer)) return;
  transfer->own.assign(transfer->data, transfer->data + transfer->size);
  waiting_frame(transfer)->payload = transfer->data = transfer->own.data();
}

}  // namespace capstan
