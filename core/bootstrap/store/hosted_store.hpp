// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"

namespace capstan {

/// Opens scope `name` on a server in this process: on the one that other communicators already
/// have at this endpoint, or else on a new one. Throws SystemError if it cannot listen there.
std::shared_ptr<StoreServer> host_scope(const SocketEndpoint& endpoint, const Secret& secret,
                                        const std::string& name);

/// The store of the rank that hosts it: when destroyed, the scope closes, and with its last scope
/// the server stops.
class HostedStore final : public JobStore {
 public:
  /// Hosts the scope that `settings` names, then joins it. Port 0: the system chooses one.
  HostedStore(StoreClient::Settings settings, Deadline deadline);
  ~HostedStore() override;
  HostedStore(const HostedStore&) = delete;
  HostedStore& operator=(const HostedStore&) = delete;

  void put(std::string_view key, std::span<const std::byte> value) override;
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override;
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override;
  const Secret& secret() const override { return client_.secret(); }

  /// The endpoint to which other ranks connect.
  const SocketEndpoint& endpoint() const { return scope_.endpoint(); }

 private:
  class OpenScope {
   public:
    OpenScope(const StoreClient::Settings& settings);
    ~OpenScope();
    OpenScope(const OpenScope&) = delete;
    OpenScope& operator=(const OpenScope&) = delete;

    const SocketEndpoint& endpoint() const { return server_->endpoint(); }

   private:
    std::string name_;
    std::shared_ptr<StoreServer> server_;
  };

  OpenScope scope_;
  StoreClient client_;
};

}  // namespace capstan
