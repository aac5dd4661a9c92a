// Messages between two ranks.

#include <fmt/format.h>

#include "core/api/communicator_prepared.hpp"

namespace capstan {
namespace {

Messages::TransferPointer transfer_of(const Message& message) {
  auto transfer = std::make_shared<Messages::MessageTransfer>();
  transfer->sends = message.sends;
  transfer->peer = message.peer;
  transfer->tag = message.tag;
  transfer->type = message.type;
  transfer->data = static_cast<std::byte*>(message.data);
  transfer->size = bytes_of(message.count, size_of(message.type)).value();
  return transfer;
}

std::string describe(const std::vector<Message>& messages) {
  if (messages.size() != 1) return fmt::format("exchange of {} messages", messages.size());
  const Message& m = messages.front();
  const auto number = [](int value, int any) {
    return value == any ? std::string{"any"} : fmt::to_string(value);
  };
  return fmt::format("{}({} x {}, {} {}, tag {})", m.sends ? "send" : "receive", m.count.value(),
                     name_of(m.type), m.sends ? "to" : "from", number(m.peer, any_source),
                     number(m.tag, any_tag));
}

}  // namespace

Work Communicator::start_exchange(const std::vector<Message>& messages) {
  Engine& engine = impl_->engine;
  const bool receives = messages.size() == 1 && !messages.front().sends;
  const auto operation = std::make_shared<Operation>(
      engine.progress(), describe(messages),
      receives ? Operation::Output{messages.front().type, messages.front().data,
                                   messages.front().count.value()}
               : Operation::Output{});
  if (messages.empty()) {
    operation->complete();
    return Work{operation};
  }
  std::vector<Messages::TransferPointer> transfers;
  for (const Message& message : messages) {
    transfers.push_back(transfer_of(message));
    if (on_device(message.data))
      impl_->staging->stage(*transfers.back(), call_of(rank(), describe({message})));
  }
  engine.start(transfers, operation);
  return Work{operation};
}

MessageInfo Communicator::wait_for_message(const Work& work) {
  work.wait();
  return work.message().value();
}

std::optional<MessageInfo> Communicator::try_probe(int source, int tag) {
  return impl_->engine.probe(source, tag);
}

MessageInfo Communicator::probe(int source, int tag) {
  return impl_->engine.wait_for_message(source, tag);
}

}  // namespace capstan
