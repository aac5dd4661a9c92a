// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/pmi_client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan::pmi {
namespace {

constexpr const char* remedy =
    "set CAPSTAN_STORE and CAPSTAN_SECRET for all ranks to do without PMI";

bool is_temporary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Client::Client(FileDescriptor socket, Start start, Deadline deadline) : socket_(std::move(socket)) {
  begin(start, deadline);
}

Client::Client(FileDescriptor socket, int id, Deadline deadline) : socket_(std::move(socket)) {
  ask({"initack", {{"pmiid", std::to_string(id)}}}, "initack", deadline);
  const int size = setting("size", deadline), rank = setting("rank", deadline);
  if (size < 1 || rank < 0 || rank >= size) fail(fmt::format("it says rank {} of {}", rank, size));
  place_ = {rank, size};
  setting("debug", deadline);
  begin(Start::new_conversation, deadline);
}

void Client::begin(Start start, Deadline deadline) {
  if (start == Start::new_conversation)
    ask({"init", {{"pmi_version", "1"}, {"pmi_subversion", "1"}}}, "response_to_init", deadline);
  const auto longest = ask({"get_maxes"}, "maxes", deadline).number("vallen_max");
  if (!longest || *longest < 1) fail("it does not say how long a value may be");
  longest_value_ = static_cast<std::size_t>(*longest);
  const Line named = ask({"get_my_kvsname"}, "my_kvsname", deadline);
  const std::string* const name = named.find("kvsname");
  if (!name || name->empty()) fail("it does not say where the job's values are");
  name_ = *name;
}

void Client::fail(const std::string& what) {
  failure_ = fmt::format("the launcher's PMI, asked for {}: {}; {}", asked_, what, remedy);
  throw BootstrapError(failure_);
}

void Client::fail_with(int error) {
  if (error != EPIPE && error != ECONNRESET) fail(std::strerror(error));
  fail(
      "it has closed the connection, as it does when MPI or an earlier program of this rank takes "
      "leave");
}

void Client::wait_for_launcher(short events, Deadline deadline) {
  if (wait_for(socket_, events, deadline)) return;
  failure_ =
      fmt::format("the launcher's PMI did not answer {} within {}", asked_, deadline.budget());
  throw TimedOut(failure_);
}

/// Sends a whole line with one call, because srun expects a whole line from each read.
void Client::send_line(std::string_view line, Deadline deadline) {
  while (!line.empty()) {
    const auto sent = ::send(socket_.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      line.remove_prefix(static_cast<std::size_t>(sent));
    } else if (is_temporary(errno)) {
      wait_for_launcher(POLLOUT, deadline);
    } else {
      fail_with(errno);
    }
  }
}

/// Reads up to the end of the line, and no further.
std::string Client::receive_line(Deadline deadline) {
  std::array<char, longest_line> buffer;
  while (begun_.size() < longest_line) {
    wait_for_launcher(POLLIN, deadline);
    const auto there = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_PEEK);
    if (there < 0 && is_temporary(errno)) continue;
    if (there <= 0) fail_with(there == 0 ? ECONNRESET : errno);
    const std::string_view come{buffer.data(), static_cast<std::size_t>(there)};
    const auto end = come.find('\n');
    begun_ += come.substr(0, end);
    const auto taken = end == come.npos ? come.size() : end + 1;
    if (::recv(socket_.get(), buffer.data(), taken, MSG_DONTWAIT) != static_cast<ssize_t>(taken))
      fail("somebody else reads its answers: start up while no other thread is in MPI");
    if (end != come.npos) return std::exchange(begun_, {});
  }
  fail("its answer has no end");
}

Line Client::receive(std::string_view expected, Deadline deadline) {
  const std::string line = receive_line(deadline);
  const Line answer = [&] {
    try {
      return parse_message(line);
    } catch (const BootstrapError& error) {
      fail(error.what());
    }
  }();
  if (answer.command != expected)
    fail(fmt::format("it answers {} instead of {}", answer.command, expected));
  return answer;
}

int Client::setting(std::string_view name, Deadline deadline) {
  const auto value = receive("set", deadline).number(name);
  if (!value) fail(fmt::format("it does not say the {}", name));
  return *value;
}

Line Client::ask(const Line& request, std::string_view expected, Deadline deadline) {
  if (!failure_.empty()) throw BootstrapError(failure_);
  asked_ = request.command;
  send_line(to_line(request), deadline);
  Line answer = receive(expected, deadline);
  if (answer.find("rc") && answer.number("rc") != 0) {
    const std::string* const why = answer.find("msg");
    throw BootstrapError(fmt::format("the launcher's PMI refuses {}: rc={}{}{}; {}", asked_,
                                     *answer.find("rc"), why ? ", " : "", why ? *why : "", remedy));
  }
  return answer;
}

void Client::put(const std::string& key, const std::string& value, Deadline deadline) {
  if (value.size() > longest_value_) {
    throw BootstrapError(
        fmt::format("the launcher's PMI keeps values of {} bytes, {} are needed; {}",
                    longest_value_, value.size(), remedy));
  }
  ask({"put", {{"kvsname", name_}, {"key", key}, {"value", value}}}, "put_result", deadline);
}

std::string Client::get(const std::string& key, Deadline deadline) {
  const Line answer = ask({"get", {{"kvsname", name_}, {"key", key}}}, "get_result", deadline);
  const std::string* const value = answer.find("value");
  if (!value) fail("its answer has no value");
  return *value;
}

void Client::barrier(Deadline deadline) {
  try {
    ask({"barrier_in"}, "barrier_out", deadline);
  } catch (const TimedOut&) {
    failure_ = fmt::format(
        "not all ranks of the job have come to the launcher's PMI within {}: see whether one never "
        "started, crashed or hangs, or does not create this communicator",
        deadline.budget());
    throw TimedOut(failure_);
  }
}

void Client::take_leave(Deadline deadline) {
  asked_ = "finalize";
  send_line(to_line({asked_}), deadline);
  // The answer to an earlier call that gave up may come first.
  while (parse_message(receive_line(deadline)).command != "finalize_ack") {
  }
}

}  // namespace capstan::pmi
