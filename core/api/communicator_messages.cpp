// Messages between two ranks.

#include <fmt/format.h>

#include "core/api/communicator_prepared.hpp"

namespace capstan {
namespace {

/// Throws InvalidArgument for what no message can be. Its rank and tag are checked later.
void check(const Message& message, int rank) {
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(
        fmt::format("rank {}: {}: {}", rank, message.sends ? "send" : "receive", text));
  };
  if (static_cast<std::size_t>(message.type) >= all_data_types().size())
    refuse(
        fmt::format("the type {} does not exist: pass a DataType", static_cast<int>(message.type)));
  if (message.count.value() > addressable.value() / size_of(message.type).value())
    refuse(fmt::format("{} elements exceed the memory of any process", message.count.value()));
  if (!message.data && message.count > Elements{0})
    refuse(fmt::format("the buffer is null, but is to hold {} elements: pass its memory",
                       message.count.value()));
}

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
  Engine& engine = Impl::of(*this).engine;
  for (const Message& message : messages) check(message, rank());
  const bool receives = messages.size() == 1 && !messages.front().sends;
  const auto operation = std::make_shared<Operation>(
      engine.progress(), describe(messages),
      receives ? std::optional(Operation::Output{messages.front().type, messages.front().data,
                                                 messages.front().count.value()})
               : std::nullopt);
  if (messages.empty()) {
    operation->complete();
    return Work{operation};
  }
  std::vector<Messages::TransferPointer> transfers;
  for (const Message& message : messages) {
    transfers.push_back(transfer_of(message));
    if (on_device(message.data))
      Impl::of(*this).staging->stage(*transfers.back(), call_of(rank(), describe({message})));
  }
  engine.start(transfers, operation);
  return Work{operation};
}

MessageInfo Communicator::wait_for_message(const Work& work) {
  work.wait();
  return work.message().value();
}

std::optional<MessageInfo> Communicator::try_probe(int source, int tag) {
  return Impl::of(*this).engine.probe(source, tag);
}

MessageInfo Communicator::probe(int source, int tag) {
  return Impl::of(*this).engine.wait_for_message(source, tag);
}

}  // namespace capstan
