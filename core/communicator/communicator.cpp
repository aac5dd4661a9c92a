// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "core/bootstrap/launchers/launch.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/communicator_prepared.hpp"
#include "core/communicator/retired.hpp"
#include "core/communicator/variables.hpp"
#include "core/engine/executor/accumulating.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/process_exit.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/world/allocate.hpp"
#include "core/engine/world/world.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan {

/// The first rank speaks for all, whose variables are mostly the same.
Communicator Communicator::begun(Communicator world) {
  Dispose::destroy_dropped();
  if (world.rank() == 0) warn_of_unknown_variables();
  return world;
}

Communicator Communicator::from_environment(const Settings& settings) {
  return begun(Communicator{
      std::make_unique<Impl>(join_launched_world(detect_launch(process_environment()), settings))});
}

Communicator Communicator::join(const UniqueId& id, int rank, int size, const Settings& settings) {
  return begun(Communicator{std::make_unique<Impl>(join_world(id, rank, size, settings))});
}

Communicator Communicator::join(std::shared_ptr<Store> store, int rank, int size,
                                const Settings& settings, const std::string& prefix) {
  return begun(Communicator{
      std::make_unique<Impl>(join_world(std::move(store), rank, size, prefix, settings))});
}

Communicator Communicator::join_growing(const MeetingPlace& place, const Settings& settings,
                                        int rank) {
  return begun(Communicator{std::make_unique<Impl>(join_growing_world(place, rank, settings))});
}

std::vector<Communicator> Communicator::local_world(int ranks, const Settings& settings) {
  std::vector<Communicator> world;
  for (auto& member : make_thread_world(ranks, settings))
    world.push_back(begun(Communicator{std::make_unique<Impl>(std::move(member))}));
  return world;
}

void Communicator::Impl::refuse_moved_from() {
  throw InvalidArgument(
      "this communicator has been moved from and is empty: use the one that it was moved to");
}

/// Keeps what the function of an operation drops: it may be the object of its own call. It goes
/// when this thread, amid no call any more, makes or drops its next one, or another thread does
/// after this one has ended. Until then it is there for its peers, too.
std::atomic<Communicator::Impl*>& Communicator::Dispose::dropped() {
  static constinit std::atomic<Impl*> last = nullptr;
  return last;
}

void Communicator::Dispose::drop(Impl* impl, int thread) noexcept {
  impl->dropped_by = thread;
  impl->next_kept = dropped().load();
  while (!dropped().compare_exchange_weak(impl->next_kept, impl)) {
  }
}

void Communicator::Dispose::destroy_dropped() noexcept {
  if (!dropped().load(std::memory_order_relaxed) || CallingBack::depth() > 0) return;
  for (Impl* next = dropped().exchange(nullptr); next;) {
    Impl* const impl = std::exchange(next, next->next_kept);
    const bool may_be_in_use = impl->dropped_by != ::gettid() &&
                               ::syscall(SYS_tgkill, ::getpid(), impl->dropped_by, 0) == 0;
    may_be_in_use ? drop(impl, impl->dropped_by) : Dispose{}(impl);
  }
}

/// A forked child destroys nothing: threads that are not there would be waited for, and libraries
/// that do not work in children called. Nor does exit() where other threads may be in a call.
/// The object stays reachable, so that no tool takes it for lost.
void Communicator::Dispose::operator()(Impl* impl) const noexcept {
  if (Accumulating::applies()) return drop(impl, ::gettid());
  destroy_dropped();
  static std::atomic<Impl*> kept = nullptr;
  const bool inherited = !impl->process.is_this();
  const bool used = !inherited && process_exits() && impl->engine.progress()->is_used_by_others();
  if (!inherited && !used)
    return impl->streams.made() ? retire([impl] { delete impl; }) : delete impl;
  impl->next_kept = kept.exchange(impl);
  try {
    if (used) impl->engine.leave_at_exit();
  } catch (const Error&) {  // peers see the end of the process
  }
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(impl.release()) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const {
  return Impl::of(*this).engine.rank();
}
int Communicator::size() const {
  return Impl::of(*this).engine.size();
}

namespace {

/// The task of a checked call. The call of an all_to_all_v is completed when its turn comes.
Task task_of(CheckedCall&& checked) {
  return {.call = std::move(checked.call),
          .input = checked.input,
          .output = checked.output,
          .input_bytes = checked.input_bytes,
          .output_bytes = checked.output_bytes};
}

/// Multiplies the input by this rank's factor before it is reduced.
void scale_input(Task& task, double factor) {
  const auto scaled = std::make_shared<std::vector<std::byte>>(task.input_bytes.value());
  const std::size_t count = task.input_bytes.value() / task.call->element().value();
  task.transfers.add(TransferStep::scale,
                     [kernel = kernels::scale_kernel(task.call->type), to = scaled->data(),
                      from = task.input, count, factor] { kernel(to, from, count, factor); });
  replace_buffers(task, true, false, [&](AddressRange) { return scaled->data(); });
  task.keep.push_back(scaled);
}

std::string column_mismatch(int rank, int peer, Elements sent, Elements expected) {
  return fmt::format(
      "all_to_all_v: rank {} sends {} elements to rank {}, which expects {}: what a rank sends and "
      "what the other receives must agree",
      peer, sent.value(), rank, expected.value());
}

bool needs_devices(const Request& request) {
  return devices_possible.load(std::memory_order_relaxed) &&
         (on_device(request.input) ||
          (request.output != request.input && on_device(request.output)));
}

using Lengths = Answers<std::vector<Elements>>;

/// Agreement on the elements that each rank sends to each other in an all_to_all_v.
Task agree_on_lengths(const std::vector<Elements>& counts,
                      const std::shared_ptr<Lengths>& lengths) {
  lengths->own = counts;
  lengths->result.resize(counts.size() * counts.size());
  const Agreement agreement{.combine = Combine::all,
                            .type = DataType::u64,
                            .count = counts.size(),
                            .purpose = Purpose::lengths};
  return task_of(agreement.call(), lengths);
}

/// Completes the call with the lengths of all pairs of ranks.
void complete_with(const Lengths& lengths, const std::vector<Elements>& expected, int rank,
                   Task& task) {
  const std::size_t p = expected.size();
  for (std::size_t peer = 0; peer < p; ++peer) {
    const Elements sent = lengths.result[peer * p + static_cast<std::size_t>(rank)];
    if (sent != expected[peer])
      throw Mismatch(column_mismatch(rank, static_cast<int>(peer), sent, expected[peer]));
  }
  task.call->shape.counts = lengths.result;
}

}  // namespace

namespace {

/// The memory of the result; none where a rank gets none.
std::optional<Operation::Output> output_of(const Request& request, const Call& call, void* output,
                                           Bytes bytes, int rank) {
  using enum Collective;
  const Collective called = request.collective;
  const bool root_only = called == reduce || called == gather || called == gather_v;
  if (called == barrier || (root_only && rank != request.root)) return std::nullopt;
  return Operation::Output{request.type, output, bytes.value() / call.element().value()};
}
std::optional<Operation::Output> output_of(const Request& request, const CheckedCall& checked,
                                           int rank) {
  return output_of(request, checked.call, checked.output, checked.output_bytes, rank);
}

/// Whether such a request is one call, from which nothing is made but its plan.
bool is_one_call(const Request& request) {
  return request.collective != Collective::all_to_all_v && !request.reducer.scales() &&
         !request.stream;
}

/// A collective in flight. Few operations are asked for their text, which takes long to make.
class CallOperation final : public Operation {
 public:
  CallOperation(std::shared_ptr<Driver> driver, const Call& call, std::optional<Output> output)
      : Operation(std::move(driver), {}, output), call_(call) {}

 private:
  std::string make_text() const override { return to_string(call_); }
  const Call call_;
};

}  // namespace

Communicator::Prepared Communicator::prepare(const Request& request) const {
  CheckedCall checked = check(request, rank(), size());
  const auto output = output_of(request, checked, rank());
  Prepared prepared{std::nullopt, task_of(std::move(checked)), output};
  Impl::of(*this).staging->stage(prepared.main, rank());
  if (request.collective == Collective::all_to_all_v) {
    const auto lengths = std::make_shared<Lengths>();
    prepared.agreement.emplace(agree_on_lengths(request.counts, lengths));
    prepared.main.complete_call = [lengths, rank = rank(),
                                   expected = request.receive_counts](Task& task) {
      complete_with(*lengths, expected, rank, task);
    };
  }
  if (request.reducer.scales()) scale_input(prepared.main, request.reducer.factor());
  return prepared;
}

void Communicator::run_queued(Prepared prepared) {
  prepared.read_devices();
  if (prepared.agreement) Impl::of(*this).engine.enqueue(std::move(*prepared.agreement));
  Impl::of(*this).engine.run_queued(std::move(prepared.main));
}

Work Communicator::start_queued(Prepared prepared, const Request* request) {
  Engine& engine = Impl::of(*this).engine;
  prepared.read_devices();
  const auto operation =
      std::make_shared<CallOperation>(engine.progress(), *prepared.main.call, prepared.output);
  prepared.main.operation = operation;
  if (prepared.agreement) engine.enqueue(std::move(*prepared.agreement));
  engine.enqueue(std::move(prepared.main), request);
  return Work{operation};
}

namespace {

/// Runs a request that is not remembered. False: it consists of more than one call, and has to be
/// queued.
bool run_new(Engine& engine, Progress::Lock& lock, const Request& request,
             const Engine::GoesOn* goes_on) {
  if (!is_one_call(request)) return false;
  const CheckedCall checked = check(request, engine.rank(), engine.size());
  return engine.run(lock, checked.call, checked.input, checked.output, &request, goes_on);
}

}  // namespace

void Communicator::run(const Request& request) {
  Engine& engine = Impl::of(*this).engine;
  if (needs_devices(request) || !engine.run(request, &run_new)) run_checked(request);
}

std::optional<Work> Communicator::run_briefly(const Request& request) {
  Engine& engine = Impl::of(*this).engine;
  if (request.stream) {
    run_checked(request);  // its stream waits, and nobody else
    return std::nullopt;
  }
  if (needs_devices(request)) return start(request);
  std::shared_ptr<Operation> operation;
  const auto make = [&](Task& task) {
    const CheckedCall checked = check(request, rank(), size());
    task.input_bytes = checked.input_bytes;
    task.output_bytes = checked.output_bytes;
    task.operation = operation = std::make_shared<CallOperation>(
        engine.progress(), checked.call, output_of(request, checked, rank()));
  };
  const Engine::GoesOn goes_on = std::ref(make);
  if (!engine.run(request, &run_new, &goes_on)) return start(request);
  return operation ? std::optional(Work{operation}) : std::nullopt;
}

/// In its turn, behind the calls that are under way, or in that of its stream.
void Communicator::run_checked(const Request& request) {
  if (request.stream) return streams().on(request.stream).run(without_stream(request));
  run_queued(prepare(request));
}

Work Communicator::start(const Request& request) {
  if (request.stream) return streams().on(request.stream).start(without_stream(request));
  if (needs_devices(request) || !is_one_call(request)) return start_queued(prepare(request));
  Engine& engine = Impl::of(*this).engine;
  std::shared_ptr<Operation> operation;
  const auto make = [&](const Plan& plan, void* output) {
    return operation = std::make_shared<CallOperation>(
               engine.progress(), plan.call,
               output_of(request, plan.call, output, plan.output_bytes, rank()));
  };
  if (!engine.start(request, std::ref(make))) return start_queued(prepare(request), &request);
  return Work{std::move(operation)};
}

const Settings& Communicator::settings() const {
  return Impl::of(*this).engine.settings();
}

void Communicator::abort(const std::string& reason) {
  Impl& impl = Impl::of(*this);
  impl.engine.abort(reason);
  if (StreamCollectives* const streams = impl.streams.made()) streams->abort(reason);
}

std::exception_ptr Communicator::async_error() const {
  Impl& impl = Impl::of(*this);
  if (const auto failure = impl.engine.failure()) return failure->exception();
  StreamCollectives* const streams = impl.streams.made();
  return streams ? streams->async_error() : nullptr;
}

std::shared_ptr<std::byte> Communicator::allocate_bytes(std::size_t bytes) {
  Engine& engine = Impl::of(*this).engine;
  engine.progress()->require_own_process();
  return shared::allocate(engine, Bytes{bytes});
}

int Communicator::world_rank(int rank) const {
  if (rank < 0 || rank >= size())
    throw InvalidArgument(fmt::format("world_rank({}): ranks here are 0 to {}", rank, size() - 1));
  return Impl::of(*this).engine.world_ranks()[Rank{rank}];
}

std::optional<int> Communicator::rank_of(int world_rank) const {
  const auto& ranks = Impl::of(*this).engine.world_ranks();
  const auto found = std::ranges::find(ranks, world_rank);
  if (found == ranks.end()) return std::nullopt;
  return static_cast<int>(found - ranks.begin());
}

}  // namespace capstan
