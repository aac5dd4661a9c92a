// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/coordinator.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "capstan/error.hpp"

namespace capstan::perf {

using worker_protocol::Answer;
using worker_protocol::CallTimes;
using worker_protocol::Order;

namespace {

constexpr std::chrono::seconds to_join = worker_protocol::time_to_join + std::chrono::seconds{10};
constexpr std::chrono::seconds to_answer{300}, to_end{5};
/// Interval at which the processes of a silent worker are checked.
constexpr std::chrono::milliseconds check_interval{250};

void forward_output(launcher::Child& child, std::vector<launcher::LineForwarder>& to) {
  FileDescriptor* const streams[] = {&child.output, &child.errors};
  for (std::size_t i = 0; i < 2; ++i) {
    pollfd ready{streams[i]->get(), POLLIN, 0};
    while (::poll(&ready, 1, 0) > 0) {
      char text[4096];
      const ssize_t got = ::read(streams[i]->get(), text, sizeof text);
      if (got > 0) {
        to[i].take({text, static_cast<std::size_t>(got)});
        continue;
      }
      to[i].finish();
      streams[i]->reset();
      break;
    }
  }
}

bool ends_within(launcher::Child& child, std::vector<launcher::LineForwarder>& output,
                 const Deadline& deadline) {
  pollfd entry{child.pidfd.get(), POLLIN, 0};
  while (!has_ended(child) && !deadline.expired()) {
    ::poll(&entry, 1, 10);
    forward_output(child, output);
  }
  return has_ended(child);
}

/// Asks the launcher to end before it is killed, since it then ends its ranks on other hosts, too.
void end(launcher::Child& child, std::vector<launcher::LineForwarder>& output) {
  if (child.pid <= 0) return;
  if (!ends_within(child, output, Deadline::in(to_end))) {
    ::kill(child.pid, SIGTERM);
    ends_within(child, output, Deadline::in(to_end));
  }
  ::kill(-child.pid, SIGKILL);
  ::waitpid(child.pid, nullptr, 0);
  child.pid = -1;
}

}  // namespace

Coordinator::Coordinator(std::vector<WorkerSpec> workers, int ranks, const std::string& address,
                         bool bind)
    : ranks_(ranks),
      bind_(bind),
      secret_(random_text()),
      server_({.endpoint = TcpEndpoint{address, 0}, .secret = Secret::from_text(secret_)}),
      errors_(STDERR_FILENO) {
  for (WorkerSpec& spec : workers) {
    const std::string scope = fmt::format("worker-{}", workers_.size());
    workers_.push_back({.spec = std::move(spec), .scope = scope});
  }
  // One after the other: two mpirun that start at once may trip over each other's temporary files.
  for (Worker& worker : workers_) {
    start(worker);
    join(worker, Deadline::in(to_join));
  }
}

Coordinator::~Coordinator() {
  server_.stop();  // then the ranks end
  for (Worker& worker : workers_) end(worker.child, worker.output);
  errors_.write_rest();
}

void Coordinator::start(Worker& worker) {
  auto environment = worker.spec.environment;
  environment.insert(environment.end(),
                     {{worker_protocol::coordinator_variable, to_string(server_.endpoint())},
                      {worker_protocol::secret_variable, secret_},
                      {worker_protocol::worker_variable, worker.scope}});
  for (int stream = 0; stream < 2; ++stream)
    worker.output.emplace_back(fmt::format("[{}] ", worker.spec.name), errors_);
  try {
    worker.store =
        std::make_unique<StoreClient>(StoreClient::Settings{.endpoint = server_.endpoint(),
                                                            .secret = Secret::from_text(secret_),
                                                            .scope = worker.scope},
                                      Deadline::in(to_answer));
    put_text(*worker.store, worker_protocol::binding_key,
             bind_ ? worker_protocol::binds : worker_protocol::binds_not);
    worker.child = launcher::start_child(
        {.command = worker.spec.command(), .environment = environment, .cpus = {}});
  } catch (const Error& error) {
    worker.disqualified = error.what();
  }
}

void Coordinator::join(Worker& worker, const Deadline& deadline) {
  for (int rank = 0; rank < ranks_ && !worker.disqualified; ++rank) {
    const auto answer = await(worker, rank, deadline);
    if (answer && answer->failed)
      disqualify(worker, fmt::format("its rank {} did not join: {}", rank, answer->text));
  }
}

Answer Coordinator::order(std::size_t index, const Order& order) {
  Worker& worker = workers_[index];
  Answer result;
  if (!worker.disqualified) {
    ++worker.orders;
    worker.store->put(worker_protocol::order_key(worker.orders), worker_protocol::encode(order));
  }
  const auto deadline = Deadline::in(to_answer);
  for (int rank = 0; rank < ranks_ && !worker.disqualified; ++rank) {
    const auto answer = await(worker, rank, deadline);
    if (!answer) break;
    result.seconds = std::max(result.seconds, answer->seconds);
    result.waited = std::max(result.waited, answer->waited);
    result.wrong += answer->wrong;
    if (answer->failed || rank == 0) std::ranges::copy(answer->text, result.text);
    result.failed |= answer->failed;
  }
  if (worker.disqualified) {
    result.failed = 1;
    worker_protocol::write(result, *worker.disqualified);
  }
  return result;
}

std::optional<CallTimes> Coordinator::list(std::size_t index, std::uint64_t calls) {
  Worker& worker = workers_[index];
  if (order(index, {.kind = Order::Kind::list, .calls = calls}).failed) return std::nullopt;
  CallTimes greatest;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::string key = worker_protocol::calls_key(worker.orders, rank);
    const auto of_rank =
        worker_protocol::decode<CallTimes>(worker.store->get(key, Deadline::in(to_answer)));
    for (std::size_t i = 0; i < greatest.first.size(); ++i)
      greatest.first[i] = std::max(greatest.first[i], of_rank.first[i]);
    for (double CallTimes::* each : {&CallTimes::total, &CallTimes::p50, &CallTimes::p99,
                                     &CallTimes::p999, &CallTimes::largest})
      greatest.*each = std::max(greatest.*each, of_rank.*each);
  }
  return greatest;
}

/// Waits for a rank's answer to the last order and forwards its output meanwhile. A worker that
/// does not answer in time is disqualified.
std::optional<Answer> Coordinator::await(Worker& worker, int rank, const Deadline& deadline) {
  const std::string key = worker_protocol::answer_key(worker.orders, rank);
  while (true) {
    const bool over = has_ended(worker.child), late = deadline.expired();
    forward_output(worker.child, worker.output);
    try {
      return worker_protocol::decode<Answer>(
          worker.store->get(key, Deadline::in(check_interval).clamp(deadline)));
    } catch (const TimedOut&) {
      if (!over && !late) continue;
      disqualify(worker, over ? fmt::format("it ended before its rank {} had answered", rank)
                              : fmt::format("its rank {} did not answer within {}", rank,
                                            deadline.budget()));
    } catch (const BootstrapError& error) {
      disqualify(worker, error.what());
    }
    return std::nullopt;
  }
}

/// Ranks that wait for an order end by themselves, because their scope of the store is closed.
void Coordinator::disqualify(Worker& worker, const std::string& reason) {
  worker.disqualified = reason;
  server_.close_scope(worker.scope);
  end(worker.child, worker.output);
}

}  // namespace capstan::perf
