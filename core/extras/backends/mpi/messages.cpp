// SPDX-License-Identifier: Apache-2.0

// Messages over MPI: see capstan/backends/mpi.hpp.

#include <thread>

#include "core/extras/backends/mpi/backend.hpp"

namespace capstan {

Work MpiBackend::start(const Message& message, Finish finish) {
  const std::string text = describe(message);
  require_tag(message.tag);
  auto made = operation(text);
  const MpiHandle type = made->bytes(bytes_of(message.count, size_of(message.type)).value());
  const MpiAdapter& mpi = mpi_.adapter();
  driver_->alone([&] {
    made->add([&](MpiHandle* request) {
      const auto call =
          message.sends ? +[](const MpiAdapter& a, const Message& m, MpiHandle t, MpiHandle c,
                              MpiHandle* r) { return a.send(m.data, t, m.peer, m.tag, c, r); }
                        : +[](const MpiAdapter& a, const Message& m, MpiHandle t, MpiHandle c,
                              MpiHandle* r) { return a.receive(m.data, t, m.peer, m.tag, c, r); };
      return call(mpi, message, type, communicator_, request);
    });
  });
  return driver_->start(text, {}, std::move(made), std::move(finish));
}

MessageInfo MpiBackend::run(const Message& message) {
  const Work work = start(message, {});
  work.wait();
  return work.message().value();
}

std::optional<MessageInfo> MpiBackend::probe(int source, int tag) {
  require_tag(tag);
  bool found = false;
  MpiStatus status{};
  const int code = mpi_.locked(
      [&] { return mpi_.adapter().probe(source, tag, communicator_, &found, &status); });
  mpi_.require(code, call_text("probe"));
  if (!found) return {};
  return MessageInfo{status.source, status.tag, Bytes{status.bytes}};
}

Tensor MpiBackend::receive(DataType type, int source, int tag) {
  require_tag(tag);
  const std::string text = fmt::format("receive({}, from {}, tag {})", name_of(type), source, tag);
  const Deadline deadline = Deadline::in(config_.timeout);
  bool found = false;
  MpiHandle message = 0;
  MpiStatus status{};
  for (;;) {
    const int code = mpi_.locked([&] {
      return mpi_.adapter().matched_probe(source, tag, communicator_, &found, &message, &status);
    });
    mpi_.require(code, call_text(text));
    if (found) break;
    if (deadline.expired())
      throw TimedOut(
          fmt::format("{}: no such message within {}", call_text(text), deadline.budget()));
    std::this_thread::yield();
  }
  // Bytes of a message that is no whole number of elements are received all the same.
  const std::uint64_t size = size_of(type).value();
  Tensor received{type, {static_cast<std::int64_t>((status.bytes + size - 1) / size)}};
  auto made = operation(text);
  const MpiHandle bytes = made->bytes(status.bytes);
  made->add([&](MpiHandle* request) {
    return mpi_.adapter().receive_matched(received.data(), bytes, &message, request);
  });
  driver_->start(text, {}, std::move(made), {}).wait();
  if (status.bytes % size != 0)
    throw Mismatch(fmt::format("{}: {} bytes are no whole number of {}", call_text(text),
                               status.bytes, name_of(type)));
  return received;
}

}  // namespace capstan
