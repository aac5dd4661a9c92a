// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks.

#include <algorithm>

#include "bindings/c/handles.hpp"
#include "capstan/async/streams.hpp"

using namespace capstan::c;
using capstan::Elements;
using capstan::Message;
using capstan::MessageInfo;

namespace {

Message to_message(const capstan_message& message) {
  return {.sends = message.sends != 0,
          .peer = message.peer,
          .tag = message.tag,
          .type = checked_type(message.type),
          .data = message.data,
          .count = Elements{message.count}};
}

std::vector<Message> to_messages(const capstan_message* messages, size_t count) {
  std::vector<Message> own;
  if (count == 0) return own;
  std::for_each_n(&required(messages, "messages"), count,
                  [&](const capstan_message& message) { own.push_back(to_message(message)); });
  return own;
}

capstan_message send_of(const void* data, size_t count, capstan_type type, int32_t destination,
                        int32_t tag) {
  return {.sends = 1,
          .peer = destination,
          .tag = tag,
          .type = type,
          .data = const_cast<void*>(data),
          .count = count};
}

capstan_message receive_of(void* buffer, size_t count, capstan_type type, int32_t source,
                           int32_t tag) {
  return {.sends = 0, .peer = source, .tag = tag, .type = type, .data = buffer, .count = count};
}

capstan_message_info to_info(const MessageInfo& info) {
  return {.source = info.source, .tag = info.tag, .bytes = info.size.value()};
}

capstan::Work start(capstan_communicator* communicator, const capstan_message* messages,
                    size_t count) {
  auto& own = of(communicator).communicator;
  return own.start_exchange(to_messages(messages, count));
}

}  // namespace

capstan_status capstan_send(capstan_communicator* communicator, const void* data, size_t count,
                            capstan_type type, int32_t destination, int32_t tag) {
  const capstan_message message = send_of(data, count, type, destination, tag);
  return guarded([&] { of(communicator).communicator.transfer(to_message(message)); });
}

capstan_status capstan_receive(capstan_communicator* communicator, void* buffer, size_t count,
                               capstan_type type, int32_t source, int32_t tag,
                               capstan_message_info* info) {
  const capstan_message message = receive_of(buffer, count, type, source, tag);
  return guarded([&] {
    const MessageInfo received = of(communicator).communicator.transfer(to_message(message));
    if (info) *info = to_info(received);
  });
}

capstan_status capstan_start_send(capstan_communicator* communicator, const void* data,
                                  size_t count, capstan_type type, int32_t destination, int32_t tag,
                                  capstan_work** work) {
  const capstan_message message = send_of(data, count, type, destination, tag);
  return give_work(
      work, [&] { return of(communicator).communicator.start_transfer(to_message(message)); });
}

capstan_status capstan_start_receive(capstan_communicator* communicator, void* buffer, size_t count,
                                     capstan_type type, int32_t source, int32_t tag,
                                     capstan_work** work) {
  const capstan_message message = receive_of(buffer, count, type, source, tag);
  return give_work(
      work, [&] { return of(communicator).communicator.start_transfer(to_message(message)); });
}

capstan_status capstan_received(const capstan_work* work, capstan_message_info* info) {
  return guarded([&] {
    capstan_message_info& given = required(info, "info");
    const capstan::Work& own = of(work).work;
    const auto message = own.message();
    if (!message) refuse("{} has received no message: wait for a receive first", own.describe());
    given = to_info(*message);
  });
}

capstan_status capstan_exchange(capstan_communicator* communicator, const capstan_message* messages,
                                size_t count) {
  return guarded([&] { start(communicator, messages, count).wait(); });
}

capstan_status capstan_start_exchange(capstan_communicator* communicator,
                                      const capstan_message* messages, size_t count,
                                      capstan_work** work) {
  return give_work(work, [&] { return start(communicator, messages, count); });
}

capstan_status capstan_exchange_in_stream(capstan_communicator* communicator,
                                          const capstan_message* messages, size_t count,
                                          void* stream) {
  return guarded([&] {
    if (!stream) refuse("stream is null: pass a stream, or call capstan_exchange()");
    auto& own = of(communicator).communicator;
    own.streams().on(stream).exchange(to_messages(messages, count));
  });
}

capstan_status capstan_probe(capstan_communicator* communicator, int32_t source, int32_t tag,
                             capstan_message_info* info) {
  return guarded([&] {
    capstan_message_info& given = required(info, "info");
    given = to_info(of(communicator).communicator.probe(source, tag));
  });
}

capstan_status capstan_try_probe(capstan_communicator* communicator, int32_t source, int32_t tag,
                                 int32_t* found, capstan_message_info* info) {
  return guarded([&] {
    std::int32_t& given = required(found, "found");
    capstan_message_info& message = required(info, "info");
    const auto probed = of(communicator).communicator.try_probe(source, tag);
    given = probed ? 1 : 0;
    if (probed) message = to_info(*probed);
  });
}
