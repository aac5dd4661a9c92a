#include "core/runtime/bootstrap/rendezvous.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "core/ir/error.hpp"
#include "core/runtime/bootstrap/hosted_store.hpp"
#include "core/runtime/bootstrap/local_store.hpp"
#include "core/runtime/bootstrap/store_client.hpp"
#include "core/runtime/bootstrap/unique_id_registry.hpp"

namespace capstan {
namespace {

/// How often this rank of this job has joined before. Ranks may be threads of one process, hence
/// the count for each.
int next_sequence_number(const Launch& launch) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, int> counts;
  const std::lock_guard lock{mutex};
  return counts[{launch.job, launch.rank}]++;
}

void check(int rank, int size) {
  if (size >= 1 && rank >= 0 && rank < size) return;
  throw InvalidArgument(
      fmt::format("join: rank {} of {}: ranks count from 0 to size - 1, and a job has at least one",
                  rank, size));
}

/// Some systems give a host's own name a loopback address, which no other host can reach.
void check_reachable(const Launch& launch, const TcpEndpoint& endpoint) {
  const bool several_hosts = launch.local_size >= 0 && launch.local_size < launch.size;
  if (!several_hosts || !resolve(endpoint).front().is_loopback()) return;
  throw InvalidArgument(fmt::format(
      "rank {}: join: the store's address {} is a loopback address on this host, but {} of {} "
      "ranks are on other hosts: name an address that they can reach (CAPSTAN_STORE or "
      "MASTER_ADDR)",
      launch.rank, to_string(endpoint), launch.size - launch.local_size, launch.size));
}

std::unique_ptr<Store> host_or_connect(StoreClient::Settings settings, Deadline deadline) {
  if (settings.rank == 0) return std::make_unique<HostedStore>(std::move(settings), deadline);
  return std::make_unique<StoreClient>(std::move(settings), deadline);
}

StoreClient::Settings settings_for(const Launch& launch, Endpoint endpoint, const Secret& secret,
                                   std::string scope) {
  return {.endpoint = std::move(endpoint),
          .secret = secret,
          .scope = std::move(scope),
          .rank = launch.rank,
          .size = launch.size};
}

std::unique_ptr<Store> join_at(const Launch& launch, int sequence, Deadline deadline) {
  const auto& [endpoint, secret, hosted_by_launcher] = *launch.store;
  auto scope = fmt::format("{}-{}", fingerprint(launch.job), sequence);
  auto settings = settings_for(launch, endpoint, secret, std::move(scope));
  if (hosted_by_launcher) return std::make_unique<StoreClient>(std::move(settings), deadline);
  if (launch.rank == 0) check_reachable(launch, endpoint);
  return host_or_connect(std::move(settings), deadline);
}

std::unique_ptr<Store> join_on_this_host(const Launch& launch, int sequence, Deadline deadline) {
  if (launch.local_size >= 0 && launch.local_size < launch.size) {
    throw BootstrapError(fmt::format(
        "rank {}: join: {} has started {} of {} ranks on this host, the others elsewhere, and no "
        "address is known where all can meet: set CAPSTAN_STORE=host:port, on the host of rank 0, "
        "and CAPSTAN_SECRET for all ranks",
        launch.rank, launch.launcher, launch.local_size, launch.size));
  }
  AbstractEndpoint endpoint{
      fmt::format("capstan-{}-{}-{}", ::geteuid(), fingerprint(launch.job), sequence)};
  // The kernel keeps other users out; this secret keeps jobs apart.
  const auto secret = Secret::from_text(launch.job);
  return host_or_connect(settings_for(launch, std::move(endpoint), secret, "host"), deadline);
}

/// Gives the meeting point up if this rank leaves before all have come: they would wait in vain.
class IdentifiedStore final : public Store {
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

 private:
  UniqueId id_;
  StoreClient client_;
};

}  // namespace

std::unique_ptr<Store> join(const Launch& launch, Deadline deadline) {
  check(launch.rank, launch.size);
  const int sequence = next_sequence_number(launch);
  const bool by_launcher = launch.store && launch.store->hosted_by_launcher;
  if (launch.size == 1 && !by_launcher) return std::make_unique<LocalStore>();
  if (launch.store) return join_at(launch, sequence, deadline);
  return join_on_this_host(launch, sequence, deadline);
}

std::unique_ptr<Store> join(const UniqueId& id, int rank, int size, Deadline deadline) {
  check(rank, size);
  const auto [endpoint, secret] = unseal(id);
  return std::make_unique<IdentifiedStore>(id,
                                           StoreClient::Settings{.endpoint = endpoint,
                                                                 .secret = secret,
                                                                 .scope = UniqueIdRegistry::scope,
                                                                 .rank = rank,
                                                                 .size = size},
                                           deadline);
}

}  // namespace capstan
