// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/join.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launcher_kvs.hpp"
#include "core/bootstrap/method.hpp"
#include "core/bootstrap/store/hosted_store.hpp"
#include "core/bootstrap/store/local_store.hpp"
#include "core/bootstrap/store/program_store.hpp"
#include "core/bootstrap/store/store_address.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/unique_id_registry.hpp"
#include "core/platform/net/network.hpp"

namespace capstan {
namespace {

/// The number of times that this rank of this job has joined before. Ranks may be threads of one
/// process, so each rank has its own count.
int next_sequence_number(const Launch& launch) {
  static std::mutex mutex;
  static auto& counts = *new std::map<std::pair<std::string, int>, int>;
  const std::lock_guard lock{mutex};
  return counts[{launch.job, launch.rank}]++;
}

void check(int rank, int size) {
  if (size >= 1 && rank >= 0 && rank < size) return;
  throw InvalidArgument(
      fmt::format("join: rank {} of {}: ranks count from 0 to size - 1, and a job has at least one",
                  rank, size));
}

std::string numeric_host(const SocketAddress& address) {
  return std::get<TcpEndpoint>(address.endpoint()).host;
}

/// The endpoint on which rank 0 listens for ranks that connect to `endpoint`. If the name of the
/// host has several addresses, it is the address of the interface that is set. Ranks of one host
/// need no interface.
TcpEndpoint listening_endpoint(const TcpEndpoint& endpoint, const std::string& interface) {
  const auto addresses = resolve(endpoint);
  if (interface.empty() || addresses.front().is_loopback()) return endpoint;
  const auto chosen = choose_address(interface).address;
  const auto is_named = [&](const HostAddress& own) {
    return own.interface == chosen.interface &&
           std::ranges::find(addresses, own.text(), numeric_host) != addresses.end();
  };
  if (is_named(chosen)) return {chosen.text(), endpoint.port};
  const auto others = host_addresses();  // the setting may fit several addresses
  const auto own = std::ranges::find_if(others, is_named);
  if (own != others.end()) return {own->text(), endpoint.port};
  throw InvalidArgument(fmt::format(
      "rank 0: join: the store is to be at {}, which is not an address of the interface that "
      "CAPSTAN_INTERFACE={} chooses here ({} {}): make CAPSTAN_STORE or MASTER_ADDR name {}, or "
      "set another interface",
      to_string(endpoint), interface, chosen.interface, chosen.text(), chosen.text()));
}

std::unique_ptr<JobStore> host_or_connect(StoreClient::Settings settings, Deadline deadline) {
  if (settings.rank == 0) return std::make_unique<HostedStore>(std::move(settings), deadline);
  return std::make_unique<StoreClient>(std::move(settings), deadline);
}

StoreClient::Settings settings_for(const Launch& launch, SocketEndpoint endpoint,
                                   const Secret& secret, std::string scope) {
  return {.endpoint = std::move(endpoint),
          .secret = secret,
          .scope = std::move(scope),
          .rank = launch.rank,
          .size = launch.size,
          .served_by = "rank 0, which hosts the store,",
          .ranks_come_from_elsewhere = on_several_hosts(launch)};
}

std::unique_ptr<JobStore> join_at(const Launch& launch, int sequence, Deadline deadline,
                                  const Settings& options) {
  const auto& [endpoint, secret, hosted_by_launcher] = *launch.store;
  auto scope = fmt::format("{}-{}", fingerprint(launch.job), sequence);
  auto settings = settings_for(launch, endpoint, secret, std::move(scope));
  settings.any_user = hosted_by_launcher;
  if (hosted_by_launcher) {
    settings.served_by = "the launcher, which hosts the store,";
    return std::make_unique<StoreClient>(std::move(settings), deadline);
  }
  if (launch.rank == 0)
    settings.endpoint = listening_endpoint(std::get<TcpEndpoint>(endpoint), options.interface);
  return host_or_connect(std::move(settings), deadline);
}

/// The endpoint of a store that rank 0 opens at an address of its choice.
TcpEndpoint own_endpoint(const Launch& launch, const Settings& options) {
  const bool one_host = launch.local_size == launch.size;
  if (one_host && options.interface.empty()) return {"127.0.0.1", 0};
  return {choose_address(options.interface).address.text(), 0};
}

/// The result of `call`, which asks the launcher. Errors name the rank.
template <class Call>
auto ask_launcher(const Launch& launch, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw BootstrapError(fmt::format("rank {}: join: {}", launch.rank, error.what()));
  }
}

/// Rank 0 opens a store and puts its address and secret, or the reason why there is no store, into
/// the launcher's key-value store.
std::unique_ptr<JobStore> host_by_launcher(const Launch& launch, LauncherKvs& kvs,
                                           const std::string& key, Deadline deadline,
                                           const Settings& options) {
  StoreAddress address;
  address.secret = random_text();
  std::unique_ptr<HostedStore> store;
  std::exception_ptr obstacle;
  try {
    store = std::make_unique<HostedStore>(
        settings_for(launch, own_endpoint(launch, options), Secret::from_text(address.secret), key),
        deadline);
    address.endpoint = std::get<TcpEndpoint>(store->endpoint());
  } catch (const Error& error) {
    obstacle = std::current_exception();
    address.refusal = error.what();
  }
  ask_launcher(launch, [&] { kvs.put(key, to_text(address), deadline); });
  if (!obstacle) return store;
  kvs.leave(deadline);
  std::rethrow_exception(obstacle);
}

std::unique_ptr<JobStore> connect_by_launcher(const Launch& launch, LauncherKvs& kvs,
                                              const std::string& key, Deadline deadline) {
  const StoreAddress address =
      ask_launcher(launch, [&] { return parse_store_address(kvs.get(key, deadline)); });
  if (!address.refusal.empty()) {
    kvs.leave(deadline);
    throw BootstrapError(
        fmt::format("rank {}: join: rank 0 opened no store: {}", launch.rank, address.refusal));
  }
  return std::make_unique<StoreClient>(
      settings_for(launch, address.endpoint, Secret::from_text(address.secret), key), deadline);
}

std::unique_ptr<JobStore> join_by_launcher(Method method, const Launch& launch, int sequence,
                                           Deadline deadline, const Settings& options) {
  const std::string key = fmt::format("capstan.{}", sequence);
  const auto kvs = launcher_kvs(method, launch);
  if (launch.rank == 0) return host_by_launcher(launch, *kvs, key, deadline, options);
  return connect_by_launcher(launch, *kvs, key, deadline);
}

std::unique_ptr<JobStore> join_on_this_host(const Launch& launch, int sequence, Deadline deadline) {
  AbstractEndpoint endpoint{
      fmt::format("capstan-{}-{}-{}", ::geteuid(), fingerprint(launch.job), sequence)};
  // The kernel keeps other users out; this secret keeps jobs apart.
  const auto secret = Secret::from_text(launch.job);
  return host_or_connect(settings_for(launch, std::move(endpoint), secret, "host"), deadline);
}

/// A store behind a unique id. If this rank leaves before all ranks have joined, it stops the
/// server, so that the others get an error at once.
class IdentifiedStore final : public JobStore {
 public:
  IdentifiedStore(const UniqueId& id, StoreClient::Settings settings, Deadline deadline)
      : id_(id), client_(std::move(settings), deadline) {}
  ~IdentifiedStore() override { UniqueIdRegistry::instance().abandon_unless_complete(id_); }
  IdentifiedStore(const IdentifiedStore&) = delete;
  IdentifiedStore& operator=(const IdentifiedStore&) = delete;

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
  UniqueId id_;
  StoreClient client_;
};

}  // namespace

std::unique_ptr<JobStore> join(const Launch& launch, Deadline deadline, const Settings& settings) {
  check(launch.rank, launch.size);
  const int sequence = next_sequence_number(launch);
  const Method method = choose_method(launch, settings.bootstrap).method;
  switch (method) {
    case Method::alone:
      return std::make_unique<LocalStore>();
    case Method::launchers_store:
    case Method::set_address:
      return join_at(launch, sequence, deadline, settings);
    case Method::pmix:
    case Method::pmi:
      return join_by_launcher(method, launch, sequence, deadline, settings);
    case Method::this_host:
      return join_on_this_host(launch, sequence, deadline);
  }
  return nullptr;
}

std::unique_ptr<JobStore> join(const UniqueId& id, int rank, int size, Deadline deadline,
                               std::function<void()> look) {
  check(rank, size);
  const auto [endpoint, secret] = unseal(id);
  return std::make_unique<IdentifiedStore>(id,
                                           StoreClient::Settings{.endpoint = endpoint,
                                                                 .secret = secret,
                                                                 .scope = UniqueIdRegistry::scope,
                                                                 .rank = rank,
                                                                 .size = size,
                                                                 .look = std::move(look)},
                                           deadline);
}

std::unique_ptr<JobStore> join(std::shared_ptr<Store> store, int rank, int size,
                               const std::string& prefix, const Settings& settings) {
  check(rank, size);
  return std::make_unique<ProgramStore>(
      std::move(store),
      ProgramStore::Options{.prefix = prefix, .rank = rank, .secret = settings.secret});
}

}  // namespace capstan
