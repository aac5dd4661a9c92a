// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/local_ranks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "topology/machine.hpp"

namespace capstan::launcher {
namespace {

constexpr int most_at_once = 65536;  // bytes of output

}  // namespace

LocalRanks::~LocalRanks() {
  send_signal(SIGKILL);
  for (Process& process : processes_) {
    if (!process.running) continue;
    guard_.forget(process.child.pid);
    ::waitpid(process.child.pid, nullptr, 0);
  }
}

void LocalRanks::start() {
  const Machine machine = Machine::discover();
  const auto places = place_ranks(machine, options_.count);
  for (int i = 0; i < options_.count; ++i) {
    const int rank = options_.first + i;
    const CpuSet& cpus = places[static_cast<std::size_t>(i)];
    processes_.push_back(
        {rank, start_child({.command = options_.command,
                            .environment = environment_of(rank, cpus, machine.processing_units()),
                            .cpus = options_.bind ? cpus : CpuSet{},
                            .input = rank == 0 ? options_.input : -1,
                            .announce = guard_.announce()})});
  }
}

std::vector<std::pair<std::string, std::string>> LocalRanks::environment_of(
    int rank, const CpuSet& cpus, const CpuSet& all) const {
  auto variables = options_.environment;
  variables.insert(variables.end(), {{"CAPSTAN_RANK", std::to_string(rank)},
                                     {"CAPSTAN_SIZE", std::to_string(options_.size)},
                                     {"CAPSTAN_LOCAL_RANK", std::to_string(rank - options_.first)},
                                     {"CAPSTAN_LOCAL_SIZE", std::to_string(options_.count)}});
  if (options_.bind)  // read by core/engine/world/binding_note.hpp
    variables.emplace_back("CAPSTAN_BINDING", to_string(cpus) + " of " + to_string(all));
  return variables;
}

void LocalRanks::watch(std::vector<pollfd>& entries) const {
  const bool reads = listener_.takes_output();
  const auto watched = [&](const FileDescriptor& fd) {
    entries.push_back({reads && fd.valid() ? fd.get() : -1, POLLIN, 0});
  };
  for (const Process& process : processes_) {
    watched(process.child.output);
    watched(process.child.errors);
    entries.push_back({process.running ? process.child.pidfd.get() : -1, POLLIN, 0});
  }
}

void LocalRanks::handle(std::span<const pollfd> entries) {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (entries[3 * i].revents) forward(processes_[i], Stream::output);
    if (entries[3 * i + 1].revents) forward(processes_[i], Stream::errors);
    const bool watched = entries[3 * i + 2].fd >= 0;
    if (entries[3 * i + 2].revents || !watched) reap(processes_[i]);
  }
  if (std::ranges::any_of(processes_, &Process::running)) return;
  for (Process& process : processes_)
    for (const Stream stream : {Stream::output, Stream::errors}) drain(process, stream);
}

/// Forwards what the rank has left in the pipe. Processes of the rank outside of its group may keep
/// the pipe open and write for ever: there are no more reads than a full pipe needs.
void LocalRanks::drain(Process& process, Stream stream) {
  FileDescriptor& from = stream == Stream::output ? process.child.output : process.child.errors;
  const int reads = from.valid() ? 1 + ::fcntl(from.get(), F_GETPIPE_SZ) / most_at_once : 0;
  for (int i = 0; i < reads && from.valid(); ++i) {
    pollfd readable{from.get(), POLLIN, 0};
    if (::poll(&readable, 1, 0) <= 0) break;
    forward(process, stream);
  }
  if (!from.valid()) return;
  from.reset();
  listener_.on_output(process.rank, stream, {});
}

Deadline LocalRanks::due() const {
  Deadline due = Deadline::never();
  for (const Process& process : processes_)
    if (process.running) due = due.clamp(next_look_at(process.child));
  return due;
}

void LocalRanks::forward(Process& process, Stream stream) {
  FileDescriptor& from = stream == Stream::output ? process.child.output : process.child.errors;
  const auto buffer = std::make_unique_for_overwrite<char[]>(most_at_once);  // stacks may be small
  const ssize_t got = ::read(from.get(), buffer.get(), most_at_once);
  if (got > 0)
    return listener_.on_output(process.rank, stream, {buffer.get(), static_cast<std::size_t>(got)});
  if (got < 0 && errno == EINTR) return;
  from.reset();
  listener_.on_output(process.rank, stream, {});
}

void LocalRanks::reap(Process& process) {
  if (!process.running || !has_ended(process.child)) return;
  // Processes that the rank has started keep its pipes open, so they are killed with it. Before the
  // rank is reaped, no other group can have its number.
  ::kill(-process.child.pid, SIGKILL);
  int status = 1 << 8;  // another thread of this process may have waited for it
  guard_.forget(process.child.pid);
  ::waitpid(process.child.pid, &status, 0);
  process.running = false;
  listener_.on_end(process.rank, process.child.pid, status, "");
}

void LocalRanks::send_signal(int signal) {
  for (const Process& process : processes_)
    if (process.running) ::kill(-process.child.pid, signal), ::kill(process.child.pid, signal);
}

bool LocalRanks::finished() const {
  return std::ranges::none_of(processes_, [](const Process& process) {
    return process.running || process.child.output.valid() || process.child.errors.valid();
  });
}

}  // namespace capstan::launcher
