// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/workers/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/platform/net/host_identity.hpp"
#include "core/profiles/machine_state.hpp"
#include "perf/compare/protocol.hpp"
#include "perf/measure/alone.hpp"
#include "perf/measure/data.hpp"
#include "topology/machine.hpp"

namespace capstan::perf {
namespace {

using worker_protocol::Answer;
using worker_protocol::Order;

const char* variable(const char* name) {
  if (const char* value = std::getenv(name)) return value;
  throw InvalidArgument("this program is started by `capstan perf --against`: see its --help");
}

StoreClient join_coordinator(const Launch& launch) {
  return {{.endpoint = parse_endpoint(variable(worker_protocol::coordinator_variable),
                                      worker_protocol::coordinator_variable),
           .secret = Secret::from_text(variable(worker_protocol::secret_variable)),
           .scope = variable(worker_protocol::worker_variable),
           .rank = launch.rank,
           .size = launch.size},
          Deadline::in(worker_protocol::time_to_join)};
}

/// Equal for processes of one machine that may use the same processors.
std::string machine_of_this_process() {
  return fmt::format("{} {}", boot_id(), to_string(current_binding()));
}

/// Binds this process to its own core, as far as there are enough. Machines count, not hosts:
/// network namespaces that stand for hosts share the cores of one machine.
void bind_to_own_core(Store& store, const Launch& launch) {
  const auto deadline = Deadline::in(worker_protocol::time_to_join);
  if (get_text(store, worker_protocol::binding_key, deadline) != worker_protocol::binds) return;
  const std::string own = machine_of_this_process();
  put_text(store, worker_protocol::machine_key(launch.rank), own);
  int neighbours = 0;
  std::size_t place = 0;
  for (int rank = 0; rank < launch.size; ++rank) {
    if (get_text(store, worker_protocol::machine_key(rank), deadline) != own) continue;
    if (rank == launch.rank) place = static_cast<std::size_t>(neighbours);
    ++neighbours;
  }
  const Machine machine = Machine::discover();
  if (machine.processing_units().size() > 1)
    bind_this_thread(place_ranks(machine, neighbours)[place]);
}

struct CellBuffers {
  std::shared_ptr<float> input, output;
};

CellBuffers buffers_for(const Cell& cell, Library& library, bool own) {
  const BufferLengths lengths = cell.contract(library.size()).lengths(library.rank());
  const Elements most = cell.contract(library.size()).extent();
  const auto at_least_one = [](Elements count) { return std::max<std::size_t>(count.value(), 1); };
  return {library.allocate(at_least_one(lengths.input), 1, own),
          library.allocate(at_least_one(cell.in_place ? most : lengths.output), 0, own)};
}

class Worker {
 public:
  Worker() : launch_(detect_launch(process_environment())), store_(join_coordinator(launch_)) {}

  void run(const Start& start) {
    bool connected = answer(0, [&](Answer&) {
      bind_to_own_core(store_, launch_);
      library_ = start(store_);
    });
    for (std::uint64_t number = 1; connected; ++number) {
      const auto order = await(number);
      connected = order && answer(number, [&](Answer& answer) { obey(number, *order, answer); });
    }
  }

 private:
  /// Empty when the coordinator has closed the connection.
  std::optional<Order> await(std::uint64_t number) {
    try {
      return worker_protocol::decode<Order>(
          store_.get(worker_protocol::order_key(number), Deadline::never()));
    } catch (const BootstrapError&) {
      return std::nullopt;
    }
  }

  /// False when the coordinator has closed the connection.
  template <class Action>
  bool answer(std::uint64_t number, const Action& action) {
    Answer answer;
    try {
      action(answer);
    } catch (const std::exception& error) {
      answer.failed = 1;
      worker_protocol::write(answer, error.what());
    }
    try {
      store_.put(worker_protocol::answer_key(number, launch_.rank),
                 worker_protocol::encode(answer));
      return true;
    } catch (const BootstrapError&) {
      return false;
    }
  }

  void obey(std::uint64_t number, const Order& order, Answer& answer) {
    switch (order.kind) {
      case Order::Kind::prepare:
        return prepare(order);
      case Order::Kind::check:
        answer.wrong = check();
        return;
      case Order::Kind::time:
        time(order.parts > 0 ? parts_ : call_, order.calls, answer);
        if (!messages_) worker_protocol::write(answer, library_->explanation());
        return;
      case Order::Kind::time_alone:
        answer.seconds = time_alone(number, order);
        return;
      case Order::Kind::list:
        store_.put(worker_protocol::calls_key(number, launch_.rank),
                   worker_protocol::encode(list(order.calls)));
        return;
      case Order::Kind::release:
        call_ = parts_ = nullptr;
        buffers_.clear();
        return;
    }
    throw InvalidArgument("the coordinator gave an unknown order");
  }

  void prepare(const Order& order) {
    messages_.reset();
    if (order.messages != MessagePattern::none) return prepare_messages(order);
    cell_ = compared_cell_of(static_cast<Collective>(order.collective), Bytes{order.bytes},
                             library_->size());
    cell_.in_place |= order.in_place != 0;
    buffers_.clear();
    for (std::uint64_t i = 0; i < std::max<std::uint64_t>(order.started, 1); ++i)
      buffers_.push_back(buffers_for(cell_, *library_, order.allocated != 0));
    call_ = prepare(cell_, input(), output(), order.unsettled == 0);
    if (!call_) throw InvalidArgument("it has no such collective");
    if (order.started > 0) call_ = prepare_started();
    if (order.parts > 0) parts_ = prepare_parts(order.parts - 1);
  }

  /// The last of an odd number of ranks has no peer, and waits.
  void prepare_messages(const Order& order) {
    const std::size_t floats = order.bytes / sizeof(float) + 1;
    const bool own = order.allocated != 0;
    buffers_.assign(1, {library_->allocate(floats, 1, own), library_->allocate(floats, 0, own)});
    const int rank = library_->rank();
    messages_ = MessageRun{.pattern = order.messages,
                           .rank = rank,
                           .peer = message_peer(rank, library_->size()),
                           .bytes = order.bytes,
                           .window = static_cast<int>(order.window),
                           .out = reinterpret_cast<const std::byte*>(input()),
                           .in = reinterpret_cast<std::byte*>(output())};
    call_ = library_->prepare_messages(*messages_);
    if (!call_) throw InvalidArgument("it has no such messages");
    if (messages_->peer < 0) call_ = [] {};
  }

  /// The bounds only move bytes: as many calls in a row.
  Library::Call prepare_started() {
    if (!library_->computes())
      return [call = call_, n = buffers_.size()] {
        for (std::size_t i = 0; i < n; ++i) call();
      };
    std::vector<Library::Buffers> places;
    for (const CellBuffers& each : buffers_)
      places.push_back({each.input.get(), each.output.get()});
    auto call = library_->prepare_started(cell_, places);
    if (!call) throw InvalidArgument("it has no such collective that does not block");
    return call;
  }

  float* input() const { return buffers_.front().input.get(); }
  float* output() const { return buffers_.front().output.get(); }

  Library::Call prepare(const Cell& cell, float* input, float* output, bool settled = true) {
    auto call = library_->prepare(cell, input, output);
    if (call && settled) library_->settle();
    return call;
  }

  /// The second collective works in place on the result of the first.
  Library::Call prepare_parts(std::uint64_t which) {
    if (cell_.collective != Collective::all_reduce ||
        which >= std::size(worker_protocol::parts_of_all_reduce))
      throw InvalidArgument("the coordinator asked for unknown parts");
    const auto& [first, second] = worker_protocol::parts_of_all_reduce[which];
    Cell one = cell_, two = cell_;
    one.collective = first, two.collective = second, two.in_place = true;
    float* result = output();
    if (second == Collective::all_gather) {
      const auto ranks = static_cast<std::uint64_t>(library_->size());
      const std::uint64_t block = cell_.shape.count.value() / ranks;  // the rest is left out
      if (block == 0) throw InvalidArgument("there is not an element for each rank");
      one.shape.count = two.shape.count = Elements{block};
      result += block * static_cast<std::uint64_t>(library_->rank());
    }
    const auto reduce = prepare(one, input(), result);
    const auto spread = prepare(two, input(), output());
    return [=] { reduce(), spread(); };
  }

  std::uint64_t check() {
    if (!library_->computes()) return call_(), 0;
    if (messages_) return check_messages();
    const Contract contract = cell_.contract(library_->size());
    const TestData data{cell_.type, cell_.op, contract, library_->size()};
    const Request request =
        request_of(cell_, library_->rank(), library_->size(), reinterpret_cast<std::byte*>(input()),
                   reinterpret_cast<std::byte*>(output()));
    data.spoil(output(), cell_.in_place ? contract.extent() : request.output_count);
    data.fill(const_cast<void*>(request.input), library_->rank());
    call_();
    return data.count_wrong(request.output, library_->rank());
  }

  std::uint64_t check_messages() {
    const MessageRun& run = *messages_;
    auto* const out = const_cast<std::byte*>(run.out);
    for (std::size_t at = 0; at < run.bytes; ++at) out[at] = message_byte(run.rank, at);
    std::fill_n(run.in, run.bytes, std::byte{0});
    call_();
    const bool receives = run.pattern != MessagePattern::bandwidth || !run.begins();
    std::uint64_t wrong = 0;
    for (std::size_t at = 0; at < run.bytes && run.peer >= 0 && receives; ++at)
      wrong += run.in[at] != message_byte(run.peer, at);
    return wrong;
  }

  /// Seconds of all calls, after a warm-up that refills caches and wakes connections. Ranks wait
  /// for their cores, too, where libraries hand over to each other: only what they wait in the
  /// calls counts.
  void time(const Library::Call& call, std::uint64_t calls, Answer& answer) {
    using Clock = std::chrono::steady_clock;
    for (std::uint64_t i = 0; i < 1 + calls / 8; ++i) call();
    const MachineReading before = read_machine();
    library_->barrier();
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) call();
    answer.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const MachineStretch stretch{before, read_machine()};
    answer.waited = MachineState::of(std::span{&stretch, 1}).waited;
  }

  /// Seconds of a call that is alone. Rank 0 says when the first one begins.
  double time_alone(std::uint64_t number, const Order& order) {
    using Clock = AloneCalls::Clock;
    constexpr std::chrono::milliseconds soon{2};
    for (std::uint64_t i = 0; i < 1 + order.calls / 8; ++i) call_();
    library_->barrier();
    const std::string key = worker_protocol::begin_key(number);
    if (launch_.rank == 0)
      store_.put(key, worker_protocol::encode((Clock::now() + soon).time_since_epoch().count()));
    const auto begin = worker_protocol::decode<Clock::rep>(
        store_.get(key, Deadline::in(worker_protocol::time_to_join)));
    const AloneCalls alone{
        Clock::time_point{Clock::duration{begin}},
        static_cast<double>(order.call_nanoseconds) / 1e9,
        {std::chrono::nanoseconds{order.skew_nanoseconds}, launch_.rank, launch_.size}};
    return alone.time(order.calls, call_);
  }

  /// Nothing is warmed up: the first calls are those of a program.
  worker_protocol::CallTimes list(std::uint64_t calls) {
    using Clock = std::chrono::steady_clock;
    library_->barrier();
    std::vector<double> seconds(std::max<std::uint64_t>(calls, 1));
    for (double& each : seconds) {
      const auto start = Clock::now();
      call_();
      each = std::chrono::duration<double>(Clock::now() - start).count();
    }
    worker_protocol::CallTimes times;
    std::copy_n(seconds.begin(), std::min(seconds.size(), times.first.size()), times.first.begin());
    times.total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    const Statistics statistics{std::move(seconds)};
    times.p50 = statistics.median(), times.p99 = statistics.quantile(0.99);
    times.p999 = statistics.quantile(0.999), times.largest = statistics.quantile(1);
    return times;
  }

  const Launch launch_;
  StoreClient store_;
  std::unique_ptr<Library> library_;
  Cell cell_;
  std::optional<MessageRun> messages_;  // in the place of the cell
  std::vector<CellBuffers> buffers_;
  Library::Call call_, parts_;
};

}  // namespace

std::shared_ptr<float> Library::allocate(std::size_t count, float value, bool) {
  const auto memory = std::make_shared<std::vector<float>>(count, value);
  return {memory, memory->data()};
}

int run_worker(const Start& start) {
  try {
    Worker{}.run(start);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace capstan::perf
