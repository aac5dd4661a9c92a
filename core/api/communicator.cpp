#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/api/checked_call.hpp"
#include "core/api/communicator_prepared.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/progress.hpp"
#include "core/world/allocate.hpp"
#include "core/world/world.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan {

Communicator Communicator::from_environment(const Settings& settings) {
  return Communicator{
      std::make_unique<Impl>(join_launched_world(detect_launch(process_environment()), settings))};
}

Communicator Communicator::join(const UniqueId& id, int rank, int size, const Settings& settings) {
  return Communicator{std::make_unique<Impl>(join_world(id, rank, size, settings))};
}

std::vector<Communicator> Communicator::local_world(int ranks, const Settings& settings) {
  std::vector<Communicator> world;
  for (auto& member : make_thread_world(ranks, settings))
    world.push_back(Communicator{std::make_unique<Impl>(std::move(member))});
  return world;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const {
  return impl_->engine.rank();
}
int Communicator::size() const {
  return impl_->engine.size();
}

namespace {

/// The task of a call that is complete; all_to_all_v's is completed later.
Task task_of(CheckedCall&& checked) {
  return {.call = std::move(checked.call),
          .input = checked.input,
          .output = checked.output,
          .input_bytes = checked.input_bytes,
          .output_bytes = checked.output_bytes};
}

/// Each rank sums its input times a factor of its own: the product is what it contributes.
void scale_input(Task& task, double factor) {
  const auto scaled = std::make_shared<std::vector<std::byte>>(task.input_bytes.value());
  const std::size_t count = task.input_bytes.value() / task.call.element().value();
  task.pack = [first = task.pack, kernel = kernels::scale_kernel(task.call.type),
               to = scaled->data(), from = task.input, count, factor] {
    if (first) first();
    kernel(to, from, count, factor);
  };
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
  return on_device(request.input) || on_device(request.output);
}

using Lengths = std::shared_ptr<std::vector<Elements>>;

/// Ranks tell each other how much they send: `told` gets the lengths of all pairs.
Task tell_lengths(const Request& request, const Lengths& told) {
  const auto own = std::make_shared<std::vector<Elements>>(request.counts);
  Task task;
  task.call.collective = Collective::all_gather;
  task.call.type = DataType::u64;
  task.call.shape.count = Elements{own->size()};
  task.input = own->data();
  task.output = told->data();
  task.keep = {own, told};
  return task;
}

/// Completes the call with what the others have told.
std::function<void(Task&)> with_lengths(const Request& request, int rank, const Lengths& told) {
  return [told, rank, expected = request.receive_counts](Task& task) {
    const std::size_t p = expected.size();
    for (std::size_t peer = 0; peer < p; ++peer) {
      const Elements sent = (*told)[peer * p + static_cast<std::size_t>(rank)];
      if (sent != expected[peer])
        throw Mismatch(column_mismatch(rank, static_cast<int>(peer), sent, expected[peer]));
    }
    task.call.shape.counts = *told;
  };
}

}  // namespace

Communicator::Prepared Communicator::prepare(const Request& request) const {
  CheckedCall checked = check(request, rank(), size());
  const Operation::Output output{request.type, checked.output,
                                 checked.output_bytes.value() / checked.call.element().value()};
  Prepared prepared{std::nullopt, task_of(std::move(checked)), output};
  impl_->staging->stage(prepared.main, rank());
  if (request.collective == Collective::all_to_all_v) {
    const std::size_t pairs = request.counts.size() * request.counts.size();
    const auto told = std::make_shared<std::vector<Elements>>(pairs);
    prepared.ask.emplace(tell_lengths(request, told));
    prepared.main.complete = with_lengths(request, rank(), told);
  }
  if (request.reducer.scales()) scale_input(prepared.main, request.reducer.factor());
  return prepared;
}

void Communicator::run(Prepared prepared) {
  prepared.pack_at_start();
  if (prepared.ask) impl_->engine.submit(std::move(*prepared.ask));
  impl_->engine.run(std::move(prepared.main));
}

Work Communicator::start(Prepared prepared) {
  Engine& engine = impl_->engine;
  prepared.pack_at_start();
  const auto operation = std::make_shared<Operation>(
      engine.progress(), to_string(prepared.main.call), prepared.output);
  prepared.main.operation = operation;
  if (prepared.ask) engine.submit(std::move(*prepared.ask));
  engine.submit(std::move(prepared.main));
  return Work{operation};
}

void Communicator::run(const Request& request) {
  // With a progress thread others may call at the same time.
  Engine& engine = impl_->engine;
  if (engine.progress()->has_thread() || needs_devices(request)) return run_anew(request);
  const Impl::Known* const known = impl_->known(request);
  if (!known || !known->plan || known->plans_age != engine.plans_age()) return run_anew(request);
  engine.run(*known->plan, known->input, known->output);
}

void Communicator::run_anew(const Request& request) {
  if (request.collective == Collective::all_to_all_v || request.reducer.scales() ||
      needs_devices(request))
    return run(prepare(request));
  Engine& engine = impl_->engine;
  const std::uint64_t age = engine.plans_age();
  const CheckedCall checked = check(request, rank(), size());
  // Callbacks may call meanwhile.
  const Plan* const plan = engine.run(checked.call, checked.input, checked.output);
  if (plan && !engine.progress()->has_thread())
    impl_->remember({request, checked.input, checked.output, plan, age});
}

Work Communicator::start(const Request& request) {
  return start(prepare(request));
}

std::optional<Communicator> Communicator::split(int colour, int key) {
  const std::array<std::int32_t, 2> own{colour, key};
  std::vector<std::int32_t> all(2 * static_cast<std::size_t>(size()));
  all_gather(own, all);
  std::vector<int> members;
  const auto colour_of = [&](int rank) { return all[2 * static_cast<std::size_t>(rank)]; };
  const auto key_of = [&](int rank) { return all[2 * static_cast<std::size_t>(rank) + 1]; };
  for (int peer = 0; peer < size(); ++peer)
    if (colour_of(peer) == colour) members.push_back(peer);
  std::ranges::stable_sort(members, {}, key_of);
  return form(colour < 0 ? std::vector<int>{} : members);
}

std::optional<Communicator> Communicator::subgroup(std::span<const int> ranks) {
  std::vector<int> members(ranks.begin(), ranks.end());
  std::ranges::sort(members);
  const bool repeats = std::ranges::adjacent_find(members) != members.end();
  if (members.empty() || repeats || members.front() < 0 || members.back() >= size())
    throw InvalidArgument(fmt::format("rank {}: subgroup({}): pass each rank once, from 0 to {}",
                                      rank(), fmt::join(ranks, ", "), size() - 1));
  const bool inside = std::ranges::binary_search(members, rank());
  return form(inside ? std::vector<int>(ranks.begin(), ranks.end()) : std::vector<int>{});
}

/// All ranks take part, also those that get nothing.
std::optional<Communicator> Communicator::form(const std::vector<int>& members) {
  auto member = make_group(impl_->member, members);
  if (!member) return std::nullopt;
  return Communicator{std::make_unique<Impl>(std::move(*member), impl_->staging)};
}

std::shared_ptr<std::byte> Communicator::allocate_bytes(std::size_t bytes) {
  return shared::allocate(impl_->engine, Bytes{bytes});
}

int Communicator::world_rank(int rank) const {
  if (rank < 0 || rank >= size())
    throw InvalidArgument(fmt::format("world_rank({}): ranks here are 0 to {}", rank, size() - 1));
  return impl_->engine.world_ranks()[static_cast<std::size_t>(rank)];
}

std::optional<int> Communicator::rank_of(int world_rank) const {
  const auto& ranks = impl_->engine.world_ranks();
  const auto found = std::ranges::find(ranks, world_rank);
  if (found == ranks.end()) return std::nullopt;
  return static_cast<int>(found - ranks.begin());
}

namespace {

/// What a call is like as far as this rank knows: how much the others send each other in an
/// all_to_all_v they tell in the call only, so they are taken to send as much as this one.
CheckedCall known_call(const Request& request, int rank, int size) {
  CheckedCall checked = check(request, rank, size);
  if (request.collective != Collective::all_to_all_v) return checked;
  std::vector<Elements>& lengths = checked.call.shape.counts;
  lengths.clear();
  for (const Elements from_peer : request.receive_counts) {
    lengths.insert(lengths.end(), request.counts.begin(), request.counts.end());
    lengths[lengths.size() - static_cast<std::size_t>(size - rank)] = from_peer;
  }
  return checked;
}

}  // namespace

std::string Communicator::explain(const Request& request) const {
  const CheckedCall checked = known_call(request, rank(), size());
  const Choice choice = impl_->engine.choice(checked.call, checked.input, checked.output);
  return fmt::format("{} ({}), {}: {}", choice.algorithm->name, choice.algorithm->summary,
                     choice.manner(), choice.reason);
}

bool Communicator::is_settled(const Request& request) const {
  const CheckedCall checked = known_call(request, rank(), size());
  return impl_->engine.is_settled(checked.call, checked.input, checked.output);
}

std::string Communicator::algorithm(const Request& request) const {
  const CheckedCall checked = known_call(request, rank(), size());
  return std::string{
      impl_->engine.choice(checked.call, checked.input, checked.output).algorithm->name};
}

}  // namespace capstan
