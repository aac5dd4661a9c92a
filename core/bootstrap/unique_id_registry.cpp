// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/unique_id_registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/platform/net/network.hpp"

namespace capstan {
namespace {

/// An id may resolve to several addresses; it names the first, which the server also binds.
TcpEndpoint concrete(const std::string& address) {
  if (address.empty())
    return concrete(choose_address(Settings::from_environment().interface).address.text());
  const auto found = resolve(TcpEndpoint{address, 0}).front();
  if (!found.is_wildcard()) return std::get<TcpEndpoint>(found.endpoint());
  throw InvalidArgument(fmt::format(
      "create_unique_id(\"{}\"): this stands for all addresses: name the one under which the other "
      "ranks reach this host",
      address));
}

}  // namespace

UniqueIdRegistry& UniqueIdRegistry::instance() {
  static auto& registry = *[] {
    // Only the servers end at exit: their threads are joined.
    std::atexit([] { instance().end_servers(); });
    return new UniqueIdRegistry;
  }();
  return registry;
}

UniqueId UniqueIdRegistry::create(const std::string& address) {
  const auto secret = Secret::random();
  auto server = std::make_shared<StoreServer>(
      StoreServer::Settings{.endpoint = concrete(address), .secret = secret, .any_scope = false});
  server->open_scope(scope);
  const UniqueId id = seal({std::get<TcpEndpoint>(server->endpoint()), secret});
  const std::lock_guard lock{mutex_};
  std::erase_if(servers_, [](const auto& entry) { return entry.second->finished(); });
  servers_.emplace_back(id, std::move(server));
  return id;
}

void UniqueIdRegistry::abandon_unless_complete(const UniqueId& id) {
  const std::lock_guard lock{mutex_};
  std::erase_if(servers_,
                [&](const auto& entry) { return entry.first == id && entry.second->listening(); });
}

void UniqueIdRegistry::end_servers() {
  const std::lock_guard lock{mutex_};
  servers_.clear();
}

UniqueId create_unique_id(const std::string& address) {
  return UniqueIdRegistry::instance().create(address);
}

void discard(const UniqueId& id) {
  UniqueIdRegistry::instance().abandon_unless_complete(id);
}

}  // namespace capstan
