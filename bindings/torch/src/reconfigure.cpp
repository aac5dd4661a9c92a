// SPDX-License-Identifier: Apache-2.0

// A group whose members change: the fault-tolerance calls of PyTorch 2.14 and later.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "../../released_gil.hpp"
#include "errors.hpp"
#include "group.hpp"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

namespace capstan::pytorch {

namespace {

using Handles = std::vector<c10d::ReconfigureHandle>;

constexpr const char* no_changes =
    "this process group keeps its members: make it with enable_reconfigure=True";
/// A process has so many handles at a time, each with a server. A handle serves one attempt.
constexpr std::size_t most_handles = 4;

/// In the order of ranks. A set has that of the ranks which its members had before.
Handles in_order(const c10d::ReconfigureOptions& options) {
  if (const auto* const list = std::get_if<Handles>(&options.handles)) return *list;
  const auto& set = std::get<std::unordered_set<c10d::ReconfigureHandle>>(options.handles);
  Handles handles(set.begin(), set.end());
  std::ranges::sort(handles);
  return handles;
}

int rank_in(const Handles& handles, const Handles& own) {
  const auto place = std::ranges::find_first_of(handles, own);
  if (place == handles.end())
    refuse(
        fmt::format("reconfigure: none of the {} handles is this process's: all members pass "
                    "what get_reconfigure_handle() has returned since their last reconfigure()",
                    handles.size()));
  if (std::ranges::find_first_of(std::next(place), handles.end(), own.begin(), own.end()) !=
      handles.end())
    refuse("reconfigure: a member is there twice");
  return static_cast<int>(place - handles.begin());
}

/// Where the members meet: at the id of the first, which ends its handle.
UniqueId meeting_of(const c10d::ReconfigureHandle& handle) {
  constexpr std::string_view name = "capstan:";
  if (!handle.starts_with(name))
    refuse(fmt::format("reconfigure: '{:.40}' is no handle of the backend capstan", handle));
  return unique_id_from_string(std::string_view{handle}.substr(handle.rfind(':') + 1));
}

/// FNV-1a.
std::uint64_t digest_of(std::int64_t uuid, const Handles& handles) {
  std::uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&](std::string_view text) {
    for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  add(fmt::format("{}", uuid));
  for (const auto& handle : handles) add("\n"), add(handle);
  return digest;
}

void require_the_same_on_all(Communicator& members, std::uint64_t digest) {
  std::array<std::uint64_t, 2> largest{digest, ~digest};
  members.all_reduce(std::span{largest}, ReduceOp::max);
  if (largest[0] != ~largest[1])
    fail("reconfigure: the members have passed different uuids, or handles in different orders");
}

}  // namespace

c10d::ReconfigureHandle Group::get_reconfigure_handle() const {
  if (!reconfigures_) refuse(no_changes);
  return translating([&] {
    const std::lock_guard lock(mutex_);
    meetings_.push_back(create_unique_id(""));
    if (meetings_.size() > most_handles) {
      discard(meetings_.front());
      meetings_.pop_front();
    }
    return handle_at(meetings_.back());
  });
}

c10d::ReconfigureHandle Group::handle_at(const UniqueId& meeting) const {
  return fmt::format("capstan:{:07}:{}:{}", rank_, uuid_, to_string(meeting));
}

/// The handles of this process that may still be used.
std::vector<c10d::ReconfigureHandle> Group::own_handles() const {
  const std::lock_guard lock(mutex_);
  Handles own;
  for (const UniqueId& meeting : meetings_) own.push_back(handle_at(meeting));
  return own;
}

WorkPtr Group::reconfigure(const c10d::ReconfigureOptions& options) {
  return without_gil([&] {
    const std::lock_guard one_by_one(reconfiguring_);
    if (batch_) refuse("reconfigure: a batch of operations is open: end it first");
    const Handles handles = in_order(options);
    if (!reconfigures_) refuse(no_changes);
    const int rank = rank_in(handles, own_handles());
    const UniqueId meeting = meeting_of(handles.front());
    Settings settings = settings_of(longest_);
    if (options.timeout) settings.join_timeout = limit_of(*options.timeout, longest_);
    TORCH_CHECK(uuids_.insert(options.uuid).second, "reconfigure: the uuid ", options.uuid,
                " was already used for this group: pass a new one to all members");
    shutdown();
    translating([&] { meet(meeting, rank, handles, options.uuid, settings); });
    return launched(handle(c10d::OpType::UNKNOWN, "capstan:reconfigure", kNoTimeout));
  });
}

/// Members that have exchanged their handles meet without PyTorch's store, which may be gone with
/// the rank that had it.
void Group::meet(const UniqueId& meeting, int rank, const std::vector<std::string>& handles,
                 std::int64_t uuid, const Settings& settings) {
  if (rank == 0) {
    const std::lock_guard lock(mutex_);
    std::erase(meetings_, meeting);  // it ends by itself
  }
  const int size = static_cast<int>(handles.size());
  const auto members = owned(Communicator::join(meeting, rank, size, settings));
  require_the_same_on_all(*members, digest_of(uuid, handles));
  const std::lock_guard lock(mutex_);
  communicator_ = members;
  rank_ = rank;
  size_ = size;
  uuid_ = uuid;
  discard_meetings();
  sequence_ = 0;
}

}  // namespace capstan::pytorch

#endif
