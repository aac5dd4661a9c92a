// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/hosted_store.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace capstan {
namespace {

StoreClient::Settings located(StoreClient::Settings settings, const SocketEndpoint& endpoint) {
  settings.endpoint = endpoint;
  return settings;
}

}  // namespace

std::shared_ptr<StoreServer> host_scope(const SocketEndpoint& endpoint, const Secret& secret,
                                        const std::string& name) {
  static std::mutex mutex;
  static auto& servers = *new std::map<std::string, std::weak_ptr<StoreServer>>;
  const std::lock_guard lock{mutex};
  std::erase_if(servers, [](const auto& entry) { return entry.second.expired(); });
  const auto& key = secret.bytes();
  const std::string_view key_text{reinterpret_cast<const char*>(key.data()), key.size()};
  auto& known = servers[to_string(endpoint) + ' ' + fingerprint(key_text)];
  if (auto server = known.lock(); server && server->open_scope(name)) return server;
  auto server = std::make_shared<StoreServer>(
      StoreServer::Settings{.endpoint = endpoint, .secret = secret, .any_scope = false});
  server->open_scope(name);
  known = server;
  return server;
}

HostedStore::OpenScope::OpenScope(const StoreClient::Settings& settings)
    : name_(settings.scope), server_(host_scope(settings.endpoint, settings.secret, name_)) {}

HostedStore::OpenScope::~OpenScope() {
  server_->close_scope(name_);
}

HostedStore::HostedStore(StoreClient::Settings settings, Deadline deadline)
    : scope_(settings), client_(located(std::move(settings), scope_.endpoint()), deadline) {}

HostedStore::~HostedStore() = default;

void HostedStore::put(std::string_view key, std::span<const std::byte> value) {
  client_.put(key, value);
}

std::vector<std::byte> HostedStore::get(std::string_view key, Deadline deadline) {
  return client_.get(key, deadline);
}

std::optional<std::vector<std::byte>> HostedStore::try_get(std::string_view key) {
  return client_.try_get(key);
}

}  // namespace capstan
