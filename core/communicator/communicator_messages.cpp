// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "core/communicator/communicator_prepared.hpp"
#include "core/communicator/packing.hpp"
#include "core/communicator/tensor_call.hpp"
#include "core/engine/run/messages_operation.hpp"

namespace capstan {
namespace {

/// Throws InvalidArgument for what no message can be. Its rank and tag are checked later.
void check(const Message& message, int rank) {
  const std::string_view call = message.sends ? "send" : "receive";
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(fmt::format("rank {}: {}: {}", rank, call, text));
  };
  if (message.tensor) require_reachable(rank, call, *message.tensor);
  if (message.tensor && !message.sends) require_writable(rank, call, *message.tensor);
  if (message.allocate && (message.sends || message.data || message.count > Elements{0}))
    refuse("a message that gets its memory when it is received has none before");
  if (static_cast<std::size_t>(message.type) >= all_data_types().size())
    refuse(
        fmt::format("the type {} does not exist: pass a DataType", static_cast<int>(message.type)));
  if (message.foreign.code != 0 && message.type != DataType::u8)
    refuse(fmt::format("elements of a foreign type travel as u8, not {}", name_of(message.type)));
  if (message.count.value() > addressable.value() / size_of(message.type).value())
    refuse(fmt::format("{} elements exceed the memory of any process", message.count.value()));
  if (!message.data && message.count > Elements{0})
    refuse(fmt::format("the buffer is null, but is to hold {} elements: pass its memory",
                       message.count.value()));
}

void fill_in(Messages::MessageTransfer& transfer, const Message& message) {
  transfer.sends = message.sends;
  transfer.peer = message.peer;
  transfer.tag = message.tag;
  transfer.type = message.type;
  transfer.foreign = message.foreign;
  transfer.data = static_cast<std::byte*>(message.data);
  transfer.size = bytes_of(message.count, size_of(message.type)).value();
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
  transfer.make_special().owner = packing.memory();
  const auto copy = [packing](const auto& body) { packing.copy(body); };
  if (transfer.sends)
    copy([&](const CopyRun& copy_run) { side.pack(packing.data(), copy_run); });
  else
    transfer.special->unpack = [copy, side, packing](Bytes) {
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
  if (!transfer.is_on_device()) {
    ++*staged;
    return;
  }
  auto& how = transfer.special->stage;
  how = [stage = std::move(how), staged](Messages::MessageTransfer& later) {
    ++*staged;
    stage(later);
  };
}

/// Has a receive get its memory, and its operation its result, when it is matched.
void allocate_later(Messages::MessageTransfer& transfer, const Message& message,
                    Operation& operation) {
  if (message.any_type) transfer.type.reset();
  transfer.make_special().allocate = [allocate = message.allocate, type = message.type, &operation](
                                         std::optional<DataType> sent, std::uint64_t size) {
    const DataType known = sent.value_or(type);
    const std::size_t count = size / size_of(known).value();
    void* const memory = allocate(known, count);
    operation.set_output(Operation::Output{known, memory, count});
    return static_cast<std::byte*>(memory);
  };
}

/// The facts that name a message.
struct Header {
  bool sends = false;
  DataType type{};
  ForeignType foreign{};
  int peer = 0, tag = 0;
  Elements count{};
};

Header header_of(const Message& message) {
  return {message.sends, message.type, message.foreign, message.peer, message.tag, message.count};
}

std::string describe(const Header& m) {
  const auto number = [](int value, int any) {
    return value == any ? std::string{"any"} : fmt::to_string(value);
  };
  return fmt::format("{}({} x {}, {} {}, tag {})", m.sends ? "send" : "receive", m.count.value(),
                     to_string(m.type, m.foreign), m.sends ? "to" : "from",
                     number(m.peer, any_source), number(m.tag, any_tag));
}

std::optional<Operation::Output> output_of(std::span<const Message> messages) {
  if (messages.size() != 1 || messages.front().sends) return std::nullopt;
  const Message& message = messages.front();
  return Operation::Output{message.type, message.data, message.count.value()};
}

/// The messages of a call, with what is needed to name them and to keep their memory.
class CalledMessages final : public MessagesOperation {
 public:
  CalledMessages(std::shared_ptr<Driver> driver, std::span<const Message> messages)
      : MessagesOperation(std::move(driver), output_of(messages), messages.size()),
        count_(messages.size()) {
    if (count_ == 1) first_ = header_of(messages.front());
    for (const Message& message : messages)
      if (message.memory) memory_.push_back(message.memory);
  }

 private:
  std::string make_text() const override {
    return count_ == 1 ? describe(first_) : fmt::format("exchange of {} messages", count_);
  }

  const std::size_t count_;
  Header first_{};
  std::vector<std::shared_ptr<void>> memory_;
};

/// A message that has ended before its call returns: most short sends do.
class EndedMessage final : public Operation {
 public:
  EndedMessage(std::shared_ptr<Driver> driver, const Message& message, Engine::MessageEnd&& end)
      : Operation(std::move(driver), {}, output_of({&message, 1})), header_(header_of(message)) {
    static_cast<void>(settle(std::move(end.error), end.info));  // nobody has a handle yet
  }

 private:
  std::string make_text() const override { return describe(header_); }

  const Header header_;
};

/// Whether a message lies in the memory of the host, in one piece of a known length.
bool is_plain(const Message& message) {
  return !message.allocate && (!message.tensor || message.tensor->is_dense()) &&
         !on_device(message.data);
}

/// The transfer of a plain message.
Messages::MessageTransfer plain_transfer(const Message& message, int rank) {
  check(message, rank);
  Messages::MessageTransfer transfer;
  fill_in(transfer, message);
  if (message.tensor) transfer.shape = digest_of(message.tensor->shape);
  return transfer;
}

/// A function that makes the operation by which a plain message continues.
auto operation_of(Engine& engine, const Message& message) {
  return [&engine, &message] {
    return std::make_shared<CalledMessages>(engine.progress(), std::span{&message, 1});
  };
}

}  // namespace

Work Communicator::start_exchange(const std::vector<Message>& messages) {
  return start_exchange(messages, nullptr);
}
Work Communicator::start_transfer(const Message& message) {
  if (!is_plain(message)) return start_exchange({&message, 1}, nullptr);
  Engine& engine = Impl::of(*this).engine;
  Messages::MessageTransfer transfer = plain_transfer(message, rank());
  Engine::MessageEnd end;
  std::shared_ptr<Operation> operation =
      engine.start(transfer, operation_of(engine, message), end, Engine::Until::started);
  if (!operation)
    operation = std::make_shared<EndedMessage>(engine.progress(), message, std::move(end));
  return Work{std::move(operation)};
}

Work Communicator::start_exchange(std::span<const Message> messages, const StagedCount& staged) {
  Engine& engine = Impl::of(*this).engine;
  for (const Message& message : messages) check(message, rank());
  const auto operation = std::make_shared<CalledMessages>(engine.progress(), messages);
  if (messages.empty()) {
    operation->complete();
    return Work{operation};
  }
  DeviceStaging& staging = *Impl::of(*this).staging;
  const auto transfers = operation->transfers();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    Messages::MessageTransfer& transfer = transfers[i];
    fill_in(transfer, message);
    if (message.tensor) transfer.shape = digest_of(message.tensor->shape);
    if (message.allocate) allocate_later(transfer, message, *operation);
    if (message.tensor && !message.tensor->is_dense()) {
      pack(transfer, *message.tensor, staging, rank());
      if (staged && message.count > Elements{0}) ++*staged;
    } else if (on_device(message.data))
      stage(transfer, call_of(rank(), describe(header_of(message))), engine, staging, staged);
  }
  engine.start(*operation);
  return Work{operation};
}

MessageInfo Communicator::transfer(const Message& message) {
  if (!is_plain(message)) return wait_for_message(start_transfer(message));
  Engine& engine = Impl::of(*this).engine;
  Messages::MessageTransfer transfer = plain_transfer(message, rank());
  return engine.run(transfer, operation_of(engine, message));
}

bool Communicator::may_stay_on_device(const Message& message) const {
  if (message.tensor || message.allocate) return false;
  Messages::MessageTransfer transfer;
  fill_in(transfer, message);
  return Impl::of(*this).engine.may_stay_on_device(transfer);
}

Tensor Communicator::receive_tensor(int source, int tag) {
  Tensor tensor;
  Message message{false, source, tag};
  message.any_type = true;
  message.allocate = [&](DataType type, std::size_t count) -> void* {
    tensor = Tensor(type, {static_cast<std::int64_t>(count)});
    return tensor.data();
  };
  transfer(message);
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
