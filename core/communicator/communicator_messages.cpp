// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "core/communicator/communicator_prepared.hpp"
#include "core/communicator/packing.hpp"
#include "core/communicator/tensor_call.hpp"

namespace capstan {
namespace {

/// Throws InvalidArgument for what no message can be. Its rank and tag are checked later.
void check(const Message& message, int rank) {
  const std::string_view call = message.sends ? "send" : "receive";
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(fmt::format("rank {}: {}: {}", rank, call, text));
  };
  if (message.tensor) require_reachable(rank, call, *message.tensor);
  if (message.allocate && (message.sends || message.data || message.count > Elements{0}))
    refuse("a message that gets its memory when it is received has none before");
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

/// A number that tells shapes apart; never 0, which stands for none.
std::uint32_t digest_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t digest = shape.size() + 1;
  for (const std::int64_t length : shape)
    digest = extend(digest, static_cast<std::uint64_t>(length) + 1);
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(digest >> 32));
}

/// Has a transfer use packed memory for a tensor that has strides.
void pack(Messages::MessageTransfer& transfer, const TensorView& tensor, DeviceStaging& staging,
          int rank) {
  const TensorSide side{tensor};
  const Packing packing = packing_for(staging, rank, transfer.sends ? "send" : "receive", tensor);
  transfer.data = packing.data();
  transfer.memory = packing.memory();
  const auto copy = [packing](const auto& body) { packing.copy(body); };
  if (transfer.sends)
    copy([&](const CopyRun& copy_run) { side.pack(packing.data(), copy_run); });
  else
    transfer.unpack = [copy, side, packing](Bytes) {
      copy([&](const CopyRun& copy_run) { side.unpack(packing.data(), copy_run); });
    };
}

/// Has a transfer use host memory for a buffer on a device, where hardware does not move that
/// itself. `staged` counts the transfers that do; may be null.
void stage(Messages::MessageTransfer& transfer, const std::string& call, const Engine& engine,
           DeviceStaging& staging, const std::shared_ptr<std::atomic<std::size_t>>& staged) {
  if (engine.may_stay_on_device(transfer))
    staging.stage_if_needed(transfer, call);
  else
    staging.stage(transfer, call);
  if (!staged) return;
  if (!transfer.stage) {
    ++*staged;
    return;
  }
  transfer.stage = [stage = std::move(transfer.stage), staged](Messages::MessageTransfer& later) {
    ++*staged;
    stage(later);
  };
}

/// Has a receive get its memory, and its operation its result, when it is matched.
void allocate_later(Messages::MessageTransfer& transfer, const Message& message,
                    const std::shared_ptr<Operation>& operation) {
  if (message.any_type) transfer.type.reset();
  transfer.allocate = [allocate = message.allocate, type = message.type,
                       weak = std::weak_ptr<Operation>(operation)](std::optional<DataType> sent,
                                                                   std::uint64_t size) {
    const DataType known = sent.value_or(type);
    const std::size_t count = size / size_of(known).value();
    void* const memory = allocate(known, count);
    if (const auto owner = weak.lock()) owner->set_output(Operation::Output{known, memory, count});
    return static_cast<std::byte*>(memory);
  };
}

/// The handle of messages, which keeps their memory.
class MessagesOperation final : public Operation {
 public:
  MessagesOperation(std::shared_ptr<Driver> driver, std::string text, std::optional<Output> output,
                    const std::vector<Message>& messages)
      : Operation(std::move(driver), std::move(text), output) {
    for (const Message& message : messages)
      if (message.memory) memory_.push_back(message.memory);
  }

 private:
  std::vector<std::shared_ptr<void>> memory_;
};

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
  return start_exchange(messages, nullptr);
}

Work Communicator::start_exchange(const std::vector<Message>& messages, const StagedCount& staged) {
  Engine& engine = Impl::of(*this).engine;
  for (const Message& message : messages) check(message, rank());
  const bool receives = messages.size() == 1 && !messages.front().sends;
  const auto operation = std::make_shared<MessagesOperation>(
      engine.progress(), describe(messages),
      receives ? std::optional(Operation::Output{messages.front().type, messages.front().data,
                                                 messages.front().count.value()})
               : std::nullopt,
      messages);
  if (messages.empty()) {
    operation->complete();
    return Work{operation};
  }
  DeviceStaging& staging = *Impl::of(*this).staging;
  std::vector<Messages::TransferPointer> transfers;
  for (const Message& message : messages) {
    transfers.push_back(transfer_of(message));
    Messages::MessageTransfer& transfer = *transfers.back();
    if (message.tensor) transfer.shape = digest_of(message.tensor->shape);
    if (message.allocate) allocate_later(transfer, message, operation);
    if (message.tensor && !message.tensor->is_dense()) {
      pack(transfer, *message.tensor, staging, rank());
      if (staged && message.count > Elements{0}) ++*staged;
    } else if (on_device(message.data))
      stage(transfer, call_of(rank(), describe({message})), engine, staging, staged);
  }
  engine.start(transfers, operation);
  return Work{operation};
}

bool Communicator::may_stay_on_device(const Message& message) const {
  return !message.tensor && !message.allocate &&
         Impl::of(*this).engine.may_stay_on_device(*transfer_of(message));
}

Tensor Communicator::receive_tensor(int source, int tag) {
  Tensor tensor;
  Message message{false, source, tag};
  message.any_type = true;
  message.allocate = [&](DataType type, std::size_t count) -> void* {
    tensor = Tensor(type, {static_cast<std::int64_t>(count)});
    return tensor.data();
  };
  start_exchange({message}).wait();
  return tensor;
}

MessageInfo Communicator::wait_for_message(const Work& work) {
  work.wait();
  return work.message().value();
}

std::optional<MessageInfo> Communicator::try_probe(int source, int tag) {
  return Impl::of(*this).engine.probe(source, tag);
}

MessageInfo Communicator::probe(int source, int tag, const std::function<void()>& between) {
  return Impl::of(*this).engine.wait_for_message(source, tag, between);
}

}  // namespace capstan
