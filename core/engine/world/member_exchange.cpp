// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/member_exchange.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "core/engine/run/engine.hpp"
#include "core/engine/run/messages_operation.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {

MemberExchange::MemberExchange(Engine& engine, const std::vector<Rank>& members, int tag)
    : engine_(engine), members_(members), tag_(Messages::first_group_tag + tag) {}

Messages::MessageTransfer MemberExchange::message(bool sends, Rank peer, Buffer& data) const {
  Messages::MessageTransfer transfer;
  transfer.sends = sends;
  transfer.peer = peer.value();
  transfer.tag = tag_;
  transfer.type = DataType::u8;
  transfer.data = data.data();
  transfer.size = data.size();
  transfer.forms_group = true;
  return transfer;
}

void MemberExchange::exchange(std::vector<Messages::MessageTransfer> transfers) {
  if (transfers.empty()) return;
  const auto operation =
      std::make_shared<MessagesOperation>(engine_.progress(), std::nullopt, transfers.size());
  std::ranges::move(transfers, operation->transfers().begin());
  engine_.start(*operation);
  engine_.progress()->drive([&] { return operation->ended(); }, Deadline::never());
  if (operation->error()) std::rethrow_exception(operation->error());
}

void MemberExchange::gather_and_tell(const Agreement& agreement, Buffer own, Buffer& result) {
  ByRank<Buffer> answers(ranks(), own);
  std::vector<Messages::MessageTransfer> gathered, told;
  for (int i = 1; i < ranks(); ++i) {
    const Rank member = members_[static_cast<std::size_t>(i)];
    gathered.push_back(message(false, member, answers[Rank{i}]));
    told.push_back(message(true, member, result));
  }
  exchange(std::move(gathered));
  combine(agreement, answers, result.data());
  exchange(std::move(told));
}

void MemberExchange::run(const Agreement& agreement, const void* answer, void* result) {
  const auto* const bytes = static_cast<const std::byte*>(answer);
  Buffer own(bytes, bytes + agreement.answer_bytes().value());
  Buffer agreed(agreement.result_bytes(ranks()).value());
  const Rank first = members_.front();
  if (first == Rank{engine_.rank()}) {
    gather_and_tell(agreement, std::move(own), agreed);
  } else {
    exchange({message(true, first, own)});
    exchange({message(false, first, agreed)});
  }
  std::ranges::copy(agreed, static_cast<std::byte*>(result));
}

}  // namespace capstan
