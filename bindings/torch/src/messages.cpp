// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks, and barriers.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "errors.hpp"
#include "group.hpp"
#include "signals.hpp"

namespace capstan::pytorch {

using c10d::OpType;

namespace {

/// Tags of monitoredBarrier, above those of the program.
constexpr int arrival_tag = (1 << 30) - 1, verdict_tag = 1 << 30;

/// A rank that is gone needs none.
void send_verdict(Communicator& comm, bool all_have_come) {
  const std::array<std::uint8_t, 1> verdict{static_cast<std::uint8_t>(all_have_come)};
  for (int rank = 1; rank < comm.size(); ++rank) try {
      comm.send(verdict, rank, verdict_tag);
    } catch (const PeerLost&) {
    }
}

void check_tag(int tag) {
  if (tag < 0 || tag >= arrival_tag)
    refuse(fmt::format("tag {} is out of range: tags are 0 to {}", tag, arrival_tag - 1));
}

}  // namespace

WorkPtr Group::message(OpType type, const char* title, bool sends, TensorList& tensors, int peer,
                       int tag) {
  check_tag(tag);
  const HandlePtr work = handle(type, title, c10d::kUnsetTimeout);
  const at::Tensor& tensor = only(tensors, sends ? "send" : "recv");
  const Memory memory =
      memory_to_move(sends ? work->tensors().input(tensor) : work->tensors().output(tensor));
  Message message;
  message.sends = sends;
  message.peer = peer;
  message.tag = tag;
  message.type = memory.type;
  message.foreign = memory.foreign;
  message.data = memory.data;
  message.count = memory.count;
  if (work == batch_)
    batch_messages_.push_back(message);
  else
    translating([&] { work->add(communicator()->start_exchange({message})); });
  if (!sends) work->give(tensors);
  return launched(work);
}

WorkPtr Group::send(TensorList& tensors, int destination, int tag) {
  return message(OpType::SEND, "capstan:send", true, tensors, destination, tag);
}

WorkPtr Group::recv(TensorList& tensors, int source, int tag) {
  if (source < 0) refuse(fmt::format("recv: there is no rank {}", source));
  return message(OpType::RECV, "capstan:recv", false, tensors, source, tag);
}

WorkPtr Group::recvAnysource(TensorList& tensors, int tag) {
  return message(OpType::RECVANYSOURCE, "capstan:recv_any_source", false, tensors, any_source, tag);
}

/// Waits on the host, so that device_ids, which programs pass to whatever backend, change nothing.
WorkPtr Group::barrier(const c10d::BarrierOptions& options) {
  const HandlePtr work = handle(OpType::BARRIER, "capstan:barrier", options.timeout);
  start(*work, Request{});
  return launched(work);
}

void Group::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  ++sequence_;
  const auto limit = limit_of(options.timeout, timeout_);
  translating([&] { rank_ == 0 ? wait_for_ranks(limit, wait_for_all) : report_to_first(limit); });
}

namespace {

/// A receive whose memory is the caller's, also where Ctrl-C ends the wait.
bool arrives_before(const capstan::Work& receive, Deadline deadline) {
  try {
    return ends_before(receive, deadline);
  } catch (const py::error_already_set&) {
    receive.withdraw();
    throw;
  }
}

}  // namespace

void Group::wait_for_ranks(std::chrono::milliseconds limit, bool wait_for_all) {
  const auto deadline = Deadline::in(limit);
  const auto comm = communicator();
  std::vector<int> missing;
  std::array<std::uint8_t, 1> ready{};
  try {
    for (int rank = 1; rank < size_ && (wait_for_all || missing.empty()); ++rank) {
      const capstan::Work arrival = comm->start_receive(ready, rank, arrival_tag);
      if (arrives_before(arrival, deadline)) continue;
      arrival.withdraw();
      missing.push_back(rank);
    }
  } catch (const PeerLost&) {
    send_verdict(*comm, false);
    throw;
  }
  send_verdict(*comm, missing.empty());
  if (!missing.empty())
    throw TimedOut(fmt::format("monitored_barrier: rank{} {} {} not entered it within {}",
                               missing.size() > 1 ? "s" : "", fmt::join(missing, ", "),
                               missing.size() > 1 ? "have" : "has", deadline.budget()));
}

void Group::report_to_first(std::chrono::milliseconds limit) {
  const auto deadline = Deadline::in(limit);
  const auto comm = communicator();
  std::array<std::uint8_t, 1> verdict{1};
  comm->send(verdict, 0, arrival_tag);
  const capstan::Work answer = comm->start_receive(verdict, 0, verdict_tag);
  if (!arrives_before(answer, deadline)) {
    answer.withdraw();
    throw TimedOut(
        fmt::format("monitored_barrier: rank 0 has not entered it within {}, or waits for "
                    "another rank",
                    deadline.budget()));
  }
  if (verdict.front() == 0)
    throw TimedOut("monitored_barrier: a rank has not entered it in time; rank 0 names it");
}

}  // namespace capstan::pytorch
