// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/verbs_transport.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"
#include "core/platform/net/own_process.hpp"
#include "core/platform/net/wait_readable.hpp"
#include "transports/common/exposed_registration.hpp"
#include "transports/common/mirrored_transport.hpp"
#include "transports/common/requirements.hpp"
#include "transports/verbs/verbs_endpoint.hpp"

namespace capstan {
namespace {

/// Implements Transport by a VerbsEndpoint under a lock, as any thread may call wake().
class VerbsTransport final : public MirroredTransport {
 public:
  VerbsTransport(Rank self, int ranks, Bytes segment, const VerbsOptions& options,
                 const Borrowed& memory)
      : MirroredTransport(self, ranks, segment, memory),
        endpoint_(std::make_unique<verbs::VerbsEndpoint>(self, ranks, this->segment(), options)) {}
  ~VerbsTransport() override;

  std::string_view name() const override { return "verbs"; }
  Address address() const override { return endpoint_->address(); }
  void connect(std::span<const Address> addresses, Deadline deadline) override;
  void push(Rank peer, Bytes offset, Bytes length) override;
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override;
  void announce_sources(std::span<const std::byte> input,
                        std::span<const std::byte> output) override;
  bool pushed(Rank peer) const override;
  void detach_sources(Rank peer) override;
  std::unique_ptr<ExposedMemory> expose(Rank peer, const void* data, Bytes size,
                                        MemoryKind kind) override;
  bool reaches_devices() override;
  std::shared_ptr<RemoteRead> start_read(Rank peer, std::uint64_t address, std::uint64_t key,
                                         void* to, Bytes size, MemoryKind kind) override;
  void end_reads(Rank peer) override;
  void progress() override;
  int descriptor() const override { return endpoint_->descriptor(); }
  void prepare_to_sleep() override;
  void sleep(std::chrono::nanoseconds at_most) override;
  void cancel_sleep() override {}
  std::optional<std::string> departed(Rank peer) override;
  void end_soon() override {
    const std::scoped_lock lock{mutex_};
    endpoint_->limit_leave(farewell);
  }

 protected:
  void ring(const Link& link) override;

 private:
  void append(Rank peer, Bytes offset, const void* from, Bytes length);
  /// Null when there is no link to the peer. Throws InvalidArgument when there is no such rank.
  verbs::Connection* connection_to(Rank peer) const {
    static_cast<void>(index(peer));
    return endpoint_->to(peer);
  }

  const OwnProcess process_;
  bool connected_ = false;
  mutable std::mutex mutex_;
  std::unique_ptr<verbs::VerbsEndpoint> endpoint_;  // all use of it under the mutex
};

VerbsTransport::~VerbsTransport() {
  if (!process_.is_this()) {  // a forked child's copy: the objects belong to the parent
    static_cast<void>(endpoint_.release());
    return;
  }
  try {
    endpoint_->leave();
  } catch (const Error& error) {  // peers notice that this rank does not answer
    log().warn("rank {}: verbs: could not take leave: {}", self().value(), error.what());
  }
}

void VerbsTransport::connect(std::span<const Address> addresses, Deadline deadline) {
  const auto count = static_cast<std::size_t>(ranks());
  require_connectable(self(), connected_, addresses.size(), count);
  connected_ = true;
  const std::scoped_lock lock{mutex_};
  std::vector<verbs::VerbsAddress> world(count);
  std::string obstacles;
  const auto is_met = [&](std::size_t rank) {
    return rank != index(self()) && !addresses[rank].empty();
  };
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (!is_met(rank)) continue;
    if (const auto obstacle = endpoint_->read_address(addresses[rank], world[rank]))
      obstacles += fmt::format("; rank {} cannot be met: {}", rank, *obstacle);
  }
  if (!obstacles.empty())
    throw BootstrapError(fmt::format("rank {}: connect{}", self().value(), obstacles));
  try {
    for (std::size_t rank = 0; rank < count; ++rank) {
      if (!is_met(rank)) continue;
      const Rank peer{static_cast<std::int32_t>(rank)};
      make_mirror(peer);
      endpoint_->add(peer, world[rank], mirror(peer));
    }
    endpoint_->connect_all(deadline);
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("rank {}: connect: {}", self().value(), error.what()));
  }
}

void VerbsTransport::push(Rank peer, Bytes offset, Bytes length) {
  append(peer, offset, nullptr, length);
}

void VerbsTransport::push_from(Rank peer, Bytes offset, const void* from, Bytes length) {
  append(peer, offset, from, length);
}

void VerbsTransport::append(Rank peer, Bytes offset, const void* from, Bytes length) {
  const std::scoped_lock lock{mutex_};
  verbs::Connection* connection = connection_to(peer);
  if (connection) connection->push(offset, from, length);
}

void VerbsTransport::ring(const Link& link) {
  const std::scoped_lock lock{mutex_};
  verbs::Connection& connection = *connection_to(peer_of(link));
  connection.release();
  connection.flush();
}

void VerbsTransport::announce_sources(std::span<const std::byte> input,
                                      std::span<const std::byte> output) {
  const std::scoped_lock lock{mutex_};
  endpoint_->sources().announce(input, output);
}

bool VerbsTransport::pushed(Rank peer) const {
  const std::scoped_lock lock{mutex_};
  const verbs::Connection* connection = connection_to(peer);
  return !connection || connection->pushed();
}

void VerbsTransport::detach_sources(Rank peer) {
  const std::scoped_lock lock{mutex_};
  if (connection_to(peer)) endpoint_->detach_sources(peer);
}

std::unique_ptr<ExposedMemory> VerbsTransport::expose(Rank peer, const void* data, Bytes size,
                                                      MemoryKind kind) {
  const std::scoped_lock lock{mutex_};
  if (!connection_to(peer)) return nullptr;
  return expose_registered(
      mutex_, data, [&] { return endpoint_->readable(data, size, kind); },
      [=, this] { endpoint_->forget(data, size, kind); });
}

bool VerbsTransport::reaches_devices() {
  const std::scoped_lock lock{mutex_};
  return endpoint_->reaches_devices();
}

std::shared_ptr<RemoteRead> VerbsTransport::start_read(Rank peer, std::uint64_t address,
                                                       std::uint64_t key, void* to, Bytes size,
                                                       MemoryKind kind) {
  const std::scoped_lock lock{mutex_};
  if (!connection_to(peer) || key > std::numeric_limits<std::uint32_t>::max()) return nullptr;
  try {
    return endpoint_->start_read(peer, address, static_cast<std::uint32_t>(key), to, size, kind);
  } catch (const Error&) {
    return nullptr;
  }
}

void VerbsTransport::end_reads(Rank peer) {
  const std::scoped_lock lock{mutex_};
  if (connection_to(peer)) endpoint_->end_reads(peer);
}

void VerbsTransport::progress() {
  const std::scoped_lock lock{mutex_};
  endpoint_->progress();
}

/// Arms the descriptor before it handles what has arrived: so either the descriptor becomes
/// readable, or the caller's next check sees it.
void VerbsTransport::prepare_to_sleep() {
  const std::scoped_lock lock{mutex_};
  endpoint_->arm();
  endpoint_->progress();
}

void VerbsTransport::sleep(std::chrono::nanoseconds at_most) {
  wait_readable({descriptor()}, at_most);
  progress();
}

std::optional<std::string> VerbsTransport::departed(Rank peer) {
  const std::scoped_lock lock{mutex_};
  verbs::Connection* connection = connection_to(peer);
  if (!connection) return std::nullopt;
  endpoint_->progress();
  endpoint_->probe(peer);
  return connection->lost();
}

}  // namespace

std::unique_ptr<Transport> make_verbs_transport(Rank self, int ranks, Bytes segment,
                                                const VerbsOptions& options,
                                                const Borrowed& memory) {
  require_segment_size(segment);
  if (options.piece.value() < 4096 || !std::has_single_bit(options.piece.value()))
    throw InvalidArgument(
        fmt::format("memory cannot be pinned in pieces of {} bytes: ask for a "
                    "power of two of at least 4096",
                    options.piece.value()));
  try {
    return std::make_unique<VerbsTransport>(self, ranks, segment, options, memory);
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("rank {}: set up verbs: {}", self.value(), error.what()));
  }
}

}  // namespace capstan
