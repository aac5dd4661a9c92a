// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/requests.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "bindings/mpi/door.hpp"
#include "bindings/mpi/errors.hpp"
#include "bindings/mpi/kept_arguments.hpp"
#include "bindings/mpi/progress.hpp"
#include "bindings/mpi/run.hpp"

namespace capstan::mpi {
namespace {

/// A persistent call. Its buffers stay the program's until it is freed, as MPI has it.
struct Persistent {
  KeptArguments arguments;
  std::shared_ptr<Channel> channel;  ///< lent, until it is freed
  int tag;

  Persistent(const Arguments& given, std::shared_ptr<Channel> lent, int its_tag)
      : arguments(given, lent->place()), channel(std::move(lent)), tag(its_tag) {}
};

/// A call in the background.
struct Pending {
  Kind kind;
  MPI_Comm comm;
  std::shared_ptr<Channel> channel;
  Transfer transfer;
  Work work{};
  MPI_Request request{};                     ///< a generalized one, unless it is
  std::shared_ptr<Persistent> persistent{};  ///< of this persistent one
  Report::Clock::time_point began = Report::Clock::now();
  int code = MPI_SUCCESS;
};
using PendingPointer = std::shared_ptr<Pending>;

std::mutex pending_mutex;  // of what follows, which lasts as long as the process
auto& all_pending = *new std::vector<PendingPointer>;
auto& all_persistent = *new std::unordered_map<std::uintptr_t, std::shared_ptr<Persistent>>;
auto& freed_operations = *new std::vector<MPI_Op>;
auto& freed_types = *new std::vector<MPI_Datatype>;
std::atomic<int> alive = 0;  // of both

int query(void* state, MPI_Status* status) {
  const Pending& pending = **static_cast<PendingPointer*>(state);
  calls.Status_set_elements(status, MPI_BYTE, 0);
  calls.Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return pending.code;
}

int release(void* state) {
  delete static_cast<PendingPointer*>(state);
  return MPI_SUCCESS;
}

/// A collective cannot be cancelled.
int refuse_to_cancel(void*, int) {
  return MPI_SUCCESS;
}

PendingPointer launch(const std::shared_ptr<Channel>& channel, const Arguments& arguments,
                      const Reduction* reduction) {
  auto pending = std::make_shared<Pending>(Pending{
      arguments.kind, arguments.comm, channel, Transfer{arguments, reduction, channel->place()}});
  pending->work = start(channel->group(), pending->transfer);
  if (!mpi_moves_capstan()) pending->work.ensure_progress();
  return pending;
}

void remember(const PendingPointer& pending) {
  const std::lock_guard lock{pending_mutex};
  all_pending.push_back(pending);
  ++alive;
}

void complete_stand_in(const Persistent& persistent) {
  calls.Send(nullptr, 0, MPI_BYTE, 0, persistent.tag, own_communicator());
}

/// Ends a call whose work has ended: results are unpacked, the request is completed.
void settle(Pending& pending) {
  try {
    pending.work.wait();
    pending.transfer.finish();
  } catch (...) {
    pending.code = report_error(pending.comm, std::current_exception());
  }
  if (pending.persistent)
    complete_stand_in(*pending.persistent);
  else
    calls.Grequest_complete(pending.request);
  if (Door::reports() && pending.code == MPI_SUCCESS)
    Report::served(pending.kind, pending.transfer.bytes(), Report::Clock::now() - pending.began);
}

/// Frees what was kept for calls in the background, once there are none.
void free_kept() {
  std::vector<MPI_Op> operations;
  std::vector<MPI_Datatype> types;
  {
    const std::lock_guard lock{pending_mutex};
    if (alive.load() > 0) return;
    operations.swap(freed_operations);
    types.swap(freed_types);
  }
  for (MPI_Op& op : operations) own_as<int(MPI_Op*)>(Id::Op_free)(&op);
  for (MPI_Datatype& type : types) own_as<int(MPI_Datatype*)>(Id::Type_free)(&type);
}

std::shared_ptr<Persistent> persistent_of(MPI_Request request) {
  const std::lock_guard lock{pending_mutex};
  const auto found = all_persistent.find(number_of(request));
  return found == all_persistent.end() ? nullptr : found->second;
}

/// Starts the call of a persistent request, whose stand-in has been started.
int launch_again(const std::shared_ptr<Persistent>& persistent) {
  const Arguments& a = persistent->arguments.get();
  try {
    const Reduction* const reduction =
        reduces(a.kind) ? reduction_of(a.op, layout_of(a.receive.type)) : nullptr;
    const PendingPointer pending = launch(persistent->channel, a, reduction);
    pending->persistent = persistent;
    remember(pending);
    return MPI_SUCCESS;
  } catch (...) {
    const int code = report_error(a.comm, std::current_exception());
    complete_stand_in(*persistent);
    return code;
  }
}

int start_one(MPI_Request* request) {
  const int code = own_as<int(MPI_Request*)>(Id::Start)(request);
  if (code != MPI_SUCCESS || !has_pending()) return code;
  const auto persistent = persistent_of(*request);
  return persistent ? launch_again(persistent) : code;
}

int start_all(int count, MPI_Request requests[]) {
  int code = own_as<int(int, MPI_Request*)>(Id::Startall)(count, requests);
  if (code != MPI_SUCCESS || !has_pending()) return code;
  for (int i = 0; i < count; ++i)
    if (const auto persistent = persistent_of(requests[i]))
      code = std::max(code, launch_again(persistent));
  return code;
}

int free_request(MPI_Request* request) {
  if (has_pending() && request) {
    const auto persistent = persistent_of(*request);  // ends when the lock is free again
    const std::lock_guard lock{pending_mutex};
    if (all_persistent.erase(number_of(*request)) > 0) --alive;
  }
  const int code = own_as<int(MPI_Request*)>(Id::Request_free)(request);
  free_kept();
  return code;
}

}  // namespace

int start_in_background(const Served& served, const Arguments& arguments, MPI_Request* request) {
  try {
    const PendingPointer pending =
        launch(served.channel->shared_from_this(), arguments, served.reduction);
    require(calls.Grequest_start(&query, &release, &refuse_to_cancel, new PendingPointer{pending},
                                 &pending->request));
    *request = pending->request;
    remember(pending);
    return MPI_SUCCESS;
  } catch (...) {
    return report_error(arguments.comm, std::current_exception());
  }
}

std::optional<int> make_persistent(const Served& served, const Arguments& arguments,
                                   MPI_Request* request) {
  static std::atomic<int> next = 0;
  try {
    auto channel = served.channel->lend();
    if (!channel) return std::nullopt;
    const int tag = next++ % 0x7fff;  // every MPI has tags up to that; the last is never sent
    require(calls.Recv_init(nullptr, 0, MPI_BYTE, 0, tag, own_communicator(), request));
    const std::lock_guard lock{pending_mutex};
    all_persistent[number_of(*request)] =
        std::make_shared<Persistent>(arguments, std::move(channel), tag);
    ++alive;
    return MPI_SUCCESS;
  } catch (...) {
    return report_error(arguments.comm, std::current_exception());
  }
}

bool has_pending() {
  return alive.load(std::memory_order_relaxed) > 0;
}

int advance_pending() {
  thread_local bool inside = false;  // an operation of MPI may come here again
  if (!has_pending() || inside) return 0;
  Work any;
  {
    const std::unique_lock lock{pending_mutex, std::try_to_lock};
    if (!lock) return 0;
    const auto first = std::ranges::find_if(
        all_pending, [](const PendingPointer& each) { return !each->work.has_ended(); });
    if (first == all_pending.end()) return 0;
    any = (*first)->work;
  }
  inside = true;
  const bool ended = any.is_completed();  // which moves all operations on
  inside = false;
  return ended ? 1 : 0;
}

void settle_pending() {
  advance_pending();
  std::vector<PendingPointer> ended;
  {
    const std::lock_guard lock{pending_mutex};
    const auto first = std::ranges::stable_partition(all_pending, [](const PendingPointer& each) {
                         return !each->work.has_ended();
                       }).begin();
    ended.assign(first, all_pending.end());
    all_pending.erase(first, all_pending.end());
  }
  for (const PendingPointer& pending : ended) {
    settle(*pending);
    --alive;
  }
  if (!ended.empty()) free_kept();
}

void finish_pending() {
  for (;;) {
    Work first;
    {
      const std::lock_guard lock{pending_mutex};
      if (all_pending.empty()) break;
      first = all_pending.front()->work;
    }
    wait_for_end(first);
    settle_pending();
  }
  {
    std::unordered_map<std::uintptr_t, std::shared_ptr<Persistent>> last;
    const std::lock_guard lock{pending_mutex};
    alive -= static_cast<int>(all_persistent.size());
    last.swap(all_persistent);
  }
  free_kept();
}

int free_operation(MPI_Op* op) {
  if (!has_pending() || !op || is_predefined(*op)) return own_as<int(MPI_Op*)>(Id::Op_free)(op);
  const std::lock_guard lock{pending_mutex};
  freed_operations.push_back(*op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

int free_type(MPI_Datatype* type) {
  if (!has_pending() || !type || *type == MPI_DATATYPE_NULL || is_predefined_type(*type))
    return own_as<int(MPI_Datatype*)>(Id::Type_free)(type);
  const std::lock_guard lock{pending_mutex};
  freed_types.push_back(*type);
  *type = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

void serve_starts(void** served) {
  const auto put = [&](Id id, auto* function) {
    served[static_cast<int>(id)] = reinterpret_cast<void*>(function);
  };
  put(Id::Start, &start_one);
  put(Id::Startall, &start_all);
  put(Id::Request_free, &free_request);
}

}  // namespace capstan::mpi
