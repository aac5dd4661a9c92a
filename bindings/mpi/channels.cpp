// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/channels.hpp"

#include <algorithm>

#include "bindings/mpi/door.hpp"
#include "bindings/mpi/joining.hpp"
#include "bindings/mpi/progress.hpp"

namespace capstan::mpi {
namespace {

/// The world, and the communicator of MPI that it stands for. From Channels::open to close.
Communicator* joined_world = nullptr;

using Held = std::shared_ptr<Channel>;

/// The communicator that this thread has looked up last, where it is found without a call.
struct Found {
  std::uint64_t generation;
  MPI_Comm comm;
  Channel* channel;
};
__attribute__((tls_model("initial-exec"))) thread_local constinit Found last_found{
    ~std::uint64_t{0}, MPI_Comm{}, nullptr};

}  // namespace

std::atomic<std::uint64_t> Channels::generation_ = 0;

Channel::Channel(MPI_Comm comm) : comm_(comm), refusal_(examine()) {}

Channel::Channel(MPI_Comm comm, Communicator world)
    : comm_(comm), place_{world.rank(), world.size()}, formed_(true), group_(std::move(world)) {}

std::optional<Reason> Channel::examine() {
  int between = 0;
  require(calls.Comm_test_inter(comm_, &between));
  if (between) return Reason::between_groups;
  require(calls.Comm_rank(comm_, &place_.rank));
  require(calls.Comm_size(comm_, &place_.size));
  if (place_.size == 1) return Reason::one_rank;
  if (!joined_world) return Reason::no_group;
  MPI_Group own{}, world{};
  require(calls.Comm_group(comm_, &own));
  require(calls.Comm_group(MPI_COMM_WORLD, &world));
  std::vector<int> ranks(static_cast<std::size_t>(place_.size));
  for (int rank = 0; rank < place_.size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  members_.resize(ranks.size());
  const int code =
      calls.Group_translate_ranks(own, place_.size, ranks.data(), world, members_.data());
  calls.Group_free(&own);
  calls.Group_free(&world);
  require(code);
  for (const int member : members_)
    if (member == MPI_UNDEFINED) return Reason::several_worlds;
  return std::nullopt;
}

/// The tag tells groups of the same ranks apart that several threads form at the same time.
bool Channel::form() {
  const std::lock_guard lock{forming_};
  if (formed_ || refusal_) return formed_;
  static std::atomic<int> next_tag = 0;
  int tag = place_.rank == 0 ? next_tag++ & 0xffffff : 0;
  require(
      own_as<int(void*, int, MPI_Datatype, int, MPI_Comm)>(Id::Bcast)(&tag, 1, MPI_INT, 0, comm_));
  const bool all = agreed(comm_, [&] {
    group_ = run_beside_mpi([&] { return joined_world->create_group(members_, tag); });
  });
  if (all) {
    formed_.store(true, std::memory_order_release);
    Report::formed();
  } else {
    group_.reset();
    refusal_ = Reason::no_group;
  }
  return all;
}

/// A 1 for each group that no persistent call of this rank holds.
std::vector<std::uint8_t> Channel::available() const {
  std::vector<std::uint8_t> free;
  const std::lock_guard lock{lending_};
  for (const Held& each : for_persistent_) free.push_back(each.use_count() == 1 ? 1 : 0);
  std::atomic_thread_fence(std::memory_order_acquire);
  return free;
}

Held Channel::lend() {
  const std::vector<std::uint8_t> here = available();
  std::vector<std::uint8_t> everywhere(here.size());
  if (!here.empty()) wait_beside_mpi(group_->start_all_reduce(here, everywhere, ReduceOp::bit_and));
  const auto first = std::ranges::find(everywhere, std::uint8_t{1});
  const std::lock_guard lock{lending_};
  if (first != everywhere.end())
    return for_persistent_[static_cast<std::size_t>(first - everywhere.begin())];
  const Held made{new Channel{comm_}, [](Channel* channel) {
                    Door::retire(*channel);
                    delete channel;
                  }};
  if (!made->form()) return nullptr;
  return for_persistent_.emplace_back(made);
}

void Channel::end_lending() {
  std::vector<Held> ended;
  const std::lock_guard lock{lending_};
  ended.swap(for_persistent_);
}

std::unique_ptr<Channels> Channels::open(const Options& options) {
  std::unique_ptr<Channels> channels{new Channels};
  require(calls.Comm_create_keyval([](MPI_Comm, int, void*, void*, void*,
                                      int* copies) -> int { return *copies = 0, MPI_SUCCESS; },
                                   &Channels::forget, &channels->keyval_, channels.get()));
  if (options.off) return channels;
  std::optional<Communicator> world = join_world();
  if (!world) return channels;
  channels->world_ = std::make_shared<Channel>(MPI_COMM_WORLD, std::move(*world));
  joined_world = &channels->world_->group();
  return channels;
}

Channel* Channels::find(MPI_Comm comm) {
  const std::uint64_t now = generation();
  if (last_found.generation == now && last_found.comm == comm) return last_found.channel;
  if (comm == MPI_COMM_WORLD && world_) {
    last_found = {now, comm, world_.get()};
    return world_.get();
  }
  Held* known = nullptr;
  int found = 0;
  if (calls.Comm_get_attr(comm, keyval_, static_cast<void*>(&known), &found) != MPI_SUCCESS)
    return nullptr;
  if (!found) {
    const std::lock_guard lock{mutex_};
    drop_retired();
    known = new Held{std::make_shared<Channel>(comm)};
    require(calls.Comm_set_attr(comm, keyval_, known));
  }
  last_found = {now, comm, known->get()};
  return known->get();
}

/// MPI calls this when a communicator is freed.
int Channels::forget(MPI_Comm, int, void* attribute, void* self) {
  generation_.fetch_add(1, std::memory_order_acq_rel);
  const std::unique_ptr<Held> held{static_cast<Held*>(attribute)};
  auto& channels = *static_cast<Channels*>(self);
  (*held)->end_lending();
  if ((*held)->is_formed() && joined_world) channels.retire(**held);
  return MPI_SUCCESS;
}

/// A group ends when all of its ranks have come so far: until then they may need this one.
void Channels::retire(Channel& channel) {
  const std::lock_guard lock{mutex_};
  drop_retired();
  std::optional<Communicator> group = channel.take_group();
  if (!group) return;
  try {
    Work barrier = group->start(Request{});
    retired_.push_back({std::move(*group), std::move(barrier)});
  } catch (const Error&) {  // it has failed, and nobody needs it
  }
}

void Channels::drop_retired() {
  std::erase_if(retired_, [](const Retired& each) { return each.barrier.is_completed(); });
}

bool Channels::has_failed() const {
  return world_ && world_->group().async_error();
}

void Channels::close() {
  if (!world_) return;
  const std::lock_guard lock{mutex_};
  generation_.fetch_add(1, std::memory_order_acq_rel);
  joined_world = nullptr;
  try {
    constexpr std::chrono::seconds limit{10};
    std::vector<Work> barriers;
    for (const Retired& each : retired_) barriers.push_back(each.barrier);
    Work::wait_all(barriers, Deadline::in(limit));
    static_cast<void>(world_->group().start(Request{}).wait_for(limit));
  } catch (const Error&) {  // of a peer that has gone: MPI says so
  }
  retired_.clear();
  world_->end_lending();
  world_->take_group();
}

}  // namespace capstan::mpi
