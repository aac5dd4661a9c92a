// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/meeting.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "capstan/error.hpp"
#include "core/bootstrap/join.hpp"
#include "core/bootstrap/store/scope_table.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "core/bootstrap/unique_id_registry.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t longest_name = 200, shortest_of_meeting = 16;
constexpr std::string_view growth_key = "growth";
constexpr auto between_attempts = 50ms;

std::string seat_key(int rank) {
  return fmt::format("seat/{}", rank);
}

SocketEndpoint endpoint_of(const std::string& name) {
  const auto at = name.rfind('@');
  if (at != name.npos) return parse_endpoint(name.substr(at + 1), "the name of the meeting place");
  return AbstractEndpoint{fmt::format("capstan-{}-grow-{}", ::geteuid(), fingerprint(name))};
}

/// Jobs of one secret and several names stay apart.
Secret secret_of(const MeetingPlace& place, const std::string& common) {
  const std::string& text = place.secret.empty() ? common : place.secret;
  if (text.size() < shortest_of_meeting)
    throw InvalidArgument(
        fmt::format("meeting place \"{}\": the secret has {} characters: give all ranks, the new "
                    "ones, too, the same one of {} or more (Settings::secret, CAPSTAN_SECRET)",
                    place.name, text.size(), shortest_of_meeting));
  return Secret::from_text(text).child("grow", std::as_bytes(std::span{place.name}));
}

StoreClient::Settings client_settings(const MeetingPoint& meeting, int rank, int size,
                                      std::function<void()> look = {}) {
  return {.endpoint = meeting.endpoint,
          .secret = meeting.secret,
          .scope = meeting.scope,
          .rank = rank,
          .size = size,
          .served_by = "the member that hosts the store",
          .look = std::move(look)};
}

/// A store of one meeting. No two of this user can be at one endpoint.
class MeetingStore final : public JobStore {
 public:
  MeetingStore(const MeetingPoint& meeting, int rank, int size, Deadline deadline)
      : server_({.endpoint = meeting.endpoint, .secret = meeting.secret, .any_scope = false}),
        client_(opened(meeting, rank, size), deadline) {}

  void put(std::string_view key, std::span<const std::byte> value) override {
    client_.put(key, value);
  }
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override {
    return client_.get(key, deadline);
  }
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override {
    return client_.try_get(key);
  }
  const Secret& secret() const override { return client_.secret(); }

 private:
  StoreClient::Settings opened(const MeetingPoint& meeting, int rank, int size) {
    server_.open_scope(meeting.scope);
    auto settings = client_settings(meeting, rank, size);
    settings.endpoint = server_.endpoint();
    return settings;
  }

  StoreServer server_;
  StoreClient client_;
};

Growth await_growth(StoreClient& visitor, Deadline deadline) {
  const auto value = visitor.get(growth_key, deadline);
  Growth growth;
  if (value.size() != sizeof growth)
    throw BootstrapError("ranks run different versions of Capstan: use one for all");
  std::memcpy(&growth, value.data(), sizeof growth);
  return growth;
}

/// Null where another process has, or had, the place: what that one has put into the store counts.
/// The time of the meeting begins anew, however long this rank has waited for it; it ends when the
/// store that the visitor sees does.
std::unique_ptr<JobStore> sit_down(const MeetingPoint& meeting, int rank, int size,
                                   StoreClient& visitor, Deadline deadline) {
  std::unique_ptr<JobStore> store;
  try {
    const auto look = [&] { static_cast<void>(visitor.try_get(growth_key)); };
    store = std::make_unique<StoreClient>(client_settings(meeting, rank, size, look),
                                          Deadline::in(deadline.limit()));
  } catch (const RankTaken&) {
    return nullptr;
  }
  if (is_taken(*store, rank)) return nullptr;
  store->put(seat_key(rank), {});
  return store;
}

MeetingSeat take_seat_now(const MeetingPoint& meeting, int rank, Deadline deadline) {
  StoreClient visitor{client_settings(meeting, -1, 0), deadline};
  const Growth growth = await_growth(visitor, deadline);
  if (rank >= 0 && (rank < growth.before || rank >= growth.after))
    throw InvalidArgument(
        fmt::format("a communicator of {} ranks grows to {}: there is no new rank {}",
                    growth.before, growth.after, rank));
  const int first = rank >= 0 ? rank : growth.before, end = rank >= 0 ? rank + 1 : growth.after;
  for (int seat = first; seat < end; ++seat) {
    if (is_taken(visitor, seat)) continue;
    if (auto store = sit_down(meeting, seat, growth.after, visitor, deadline))
      return {std::move(store), seat, growth};
  }
  throw BootstrapError(fmt::format("all places are taken: a communicator of {} ranks grows to {}{}",
                                   growth.before, growth.after,
                                   rank >= 0 ? fmt::format(", and rank {} is there", rank) : ""));
}

}  // namespace

MeetingPoint meeting_at(const MeetingPlace& place, const std::string& secret) {
  if (place.id) {
    const auto [endpoint, own_secret] = unseal(*place.id);
    return {endpoint, own_secret, UniqueIdRegistry::scope, place.id};
  }
  if (place.name.empty() || place.name.size() > longest_name)
    throw InvalidArgument(
        fmt::format("a meeting place with a name of {} bytes: pass an id (create_unique_id), or a "
                    "name of 1 to {} bytes and a secret",
                    place.name.size(), longest_name));
  return {endpoint_of(place.name), secret_of(place, secret), "grow"};
}

bool is_here(const SocketEndpoint& endpoint) {
  if (!std::holds_alternative<TcpEndpoint>(endpoint)) return true;
  try {
    listen_on(TcpEndpoint{std::get<TcpEndpoint>(endpoint).host, 0});
    return true;
  } catch (const SystemError&) {
    return false;
  }
}

std::unique_ptr<JobStore> host_meeting(const MeetingPoint& meeting, int rank, int size,
                                       Deadline deadline) {
  return std::make_unique<MeetingStore>(meeting, rank, size, deadline);
}

std::unique_ptr<JobStore> attend_meeting(const MeetingPoint& meeting, int rank, int size,
                                         Deadline deadline, std::function<void()> look) {
  if (meeting.id) return join(*meeting.id, rank, size, deadline, std::move(look));
  return std::make_unique<StoreClient>(client_settings(meeting, rank, size, std::move(look)),
                                       deadline);
}

void announce_growth(Store& store, const Growth& growth) {
  store.put(growth_key, std::as_bytes(std::span{&growth, 1}));
}

MeetingSeat take_seat(const MeetingPoint& meeting, int rank, Deadline deadline) {
  while (true) try {
      return take_seat_now(meeting, rank, deadline);
    } catch (const BootstrapError& error) {
      const bool is_final = meeting.id || error.code() == ErrorCode::wrong_secret;
      if (is_final || deadline.expired()) throw;
      std::this_thread::sleep_for(between_attempts);
    }
}

bool is_taken(Store& store, int rank) {
  return store.try_get(seat_key(rank)).has_value();
}

std::vector<int> departures(Store& store) {
  const auto bytes = store.try_get(Scope::departures_key).value_or(std::vector<std::byte>{});
  std::vector<int> ranks(bytes.size() / sizeof(int));
  if (!ranks.empty()) std::memcpy(ranks.data(), bytes.data(), ranks.size() * sizeof(int));
  return ranks;
}

}  // namespace capstan
