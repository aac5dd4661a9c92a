// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/shm_transport.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/own_process.hpp"
#include "transports/common/mapping.hpp"
#include "transports/common/requirements.hpp"
#include "transports/shm/liveness.hpp"
#include "transports/shm/mapped_transport.hpp"
#include "transports/shm/memfd.hpp"
#include "transports/shm/rendezvous.hpp"
#include "transports/shm/shm_address.hpp"
#include "transports/shm/unix_socket.hpp"

namespace capstan {
namespace {

/// The memory that a rank owns. The header, to which peers write, is a memfd of its own, so that
/// the segment starts on a huge page.
struct SharedMemory {
  SharedMemory(Bytes size, bool has_bell)
      : bell(has_bell ? shm::make_bell() : FileDescriptor{}),
        segment(shm::Memfd::create(size)),
        header(shm::Memfd::create(Bytes{sizeof(shm::Header)})),
        shared_header(new(header.mapping.data()) shm::Header) {}

  FileDescriptor bell;
  shm::Memfd segment;
  shm::Memfd header;
  shm::Header* shared_header;
};

/// The mapped memory of a peer.
struct Peer {
  Mapping segment;
  Mapping writable_alias;  // the segment again, writable: see Link
  Mapping header;
  FileDescriptor bell;
  shm::Liveness liveness;
};

class ShmTransport final : public shm::MappedTransport {
 public:
  ShmTransport(Rank self, int ranks, Bytes segment, SharedMemory own, ShmFacilities facilities)
      : MappedTransport(self, ranks, shm::Scope::host, *own.shared_header,
                        {own.segment.mapping.data(), segment.value()}, facilities.membarrier,
                        own.bell.get()),
        facilities_(facilities),
        own_(std::move(own)),
        address_(shm::ShmAddress::of_this_process(segment)),
        listener_(std::in_place, address_.socket(), ranks + spare_backlog),
        peers_(MappedTransport::ranks()) {}
  ~ShmTransport() override;

  std::string_view name() const override { return "shm"; }
  Address address() const override { return address_.encode(); }
  void connect(std::span<const Address> addresses, Deadline deadline) override;
  bool read_remote(Rank peer, std::uint64_t address, void* to, Bytes size) override;
  bool write_remote(Rank peer, std::uint64_t address, const void* from, Bytes size) override;
  std::optional<std::string> departed(Rank peer) override;

 private:
  static constexpr int spare_backlog = 64;  // for strangers

  void meet(std::span<const Address> addresses, shm::UnixListener listener, Deadline deadline);
  std::vector<shm::ShmAddress> decode(std::span<const Address> addresses) const;
  void adopt(Rank rank, const shm::ShmAddress& address, shm::Partner partner);
  bool has_left(std::size_t peer) const;

  OwnProcess process_;
  ShmFacilities facilities_;
  SharedMemory own_;
  shm::ShmAddress address_;
  std::optional<shm::UnixListener> listener_;  // until connect()
  std::vector<Peer> peers_;                    // by rank; this rank's own is empty
};

ShmTransport::~ShmTransport() {
  if (!process_.is_this()) return;  // a forked child's copy: the rank still lives
  own_.shared_header->left.store(1, std::memory_order_release);
}

void ShmTransport::connect(std::span<const Address> addresses, Deadline deadline) {
  require_connectable(self(), !listener_, addresses.size(), ranks());
  shm::UnixListener listener = std::move(*listener_);
  listener_.reset();
  try {
    meet(addresses, std::move(listener), deadline);
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("rank {}: connect: {}", self().value(), error.what()));
  }
}

void ShmTransport::meet(std::span<const Address> addresses, shm::UnixListener listener,
                        Deadline deadline) {
  const std::vector<shm::ShmAddress> world = decode(addresses);
  const shm::Handover handover{.segment = own_.segment.fd.get(),
                               .header = own_.header.fd.get(),
                               .bell = own_.bell.get(),
                               .membarrier = sleeper().registered()};
  shm::Rendezvous rendezvous(self(), world, handover, std::move(listener), facilities_.pidfd);
  std::vector<shm::Partner> partners = rendezvous.run(deadline);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const Rank peer{static_cast<std::int32_t>(rank)};
    if (peer != self()) adopt(peer, world[rank], std::move(partners[rank]));
  }
  own_.segment.fd.reset();
  own_.header.fd.reset();
}

/// Throws BootstrapError that names every rank that cannot be reached, and why.
std::vector<shm::ShmAddress> ShmTransport::decode(std::span<const Address> addresses) const {
  std::vector<shm::ShmAddress> world(ranks());
  std::string obstacles;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const bool is_self = rank == index(self());
    const auto decoded = is_self ? address_ : shm::ShmAddress::decode(addresses[rank]);
    std::optional<std::string> obstacle = "its address is none of this version's shared memory";
    if (decoded) obstacle = address_.obstacle_to(*decoded);
    if (obstacle) obstacles += fmt::format("; rank {} cannot be met: {}", rank, *obstacle);
    if (decoded) world[rank] = *decoded;
  }
  if (obstacles.empty()) return world;
  throw BootstrapError(fmt::format("rank {}: connect{}", self().value(), obstacles));
}

void ShmTransport::adopt(Rank rank, const shm::ShmAddress& address, shm::Partner partner) {
  Peer& peer = peers_[index(rank)];
  const Bytes size{address.segment};
  peer.segment = Mapping::shared(partner.segment.get(), size, PROT_READ);
  peer.writable_alias = Mapping::shared(partner.segment.get(), size, PROT_READ | PROT_WRITE);
  peer.header =
      Mapping::shared(partner.header.get(), Bytes{sizeof(shm::Header)}, PROT_READ | PROT_WRITE);
  peer.bell = std::move(partner.bell);
  peer.liveness = std::move(partner.liveness);
  if (!partner.membarrier) sleeper().expect_lost_wakeups();
  set_link(rank, peer.segment.data(), *reinterpret_cast<shm::Header*>(peer.header.data()),
           peer.bell.get(), peer.writable_alias.data());
}

bool ShmTransport::has_left(std::size_t peer) const {
  const std::byte* header = peers_[peer].header.data();
  return header &&
         reinterpret_cast<const shm::Header*>(header)->left.load(std::memory_order_acquire) != 0;
}

/// Copies to or from the memory of another process of the same user, where the system allows it.
template <class Copy>
bool copy_across(Copy copy, pid_t pid, std::uint64_t remote, void* local, std::uint64_t size) {
  if (pid <= 0) return false;
  while (size > 0) {
    const iovec here{local, size}, there{reinterpret_cast<void*>(remote), size};
    const ssize_t copied = copy(pid, &here, 1, &there, 1, 0);
    if (copied <= 0) return false;
    const auto bytes = static_cast<std::uint64_t>(copied);
    local = static_cast<std::byte*>(local) + bytes;
    remote += bytes;
    size -= bytes;
  }
  return true;
}

/// Checks afterwards that the peer lives: another process may have got its pid, and a peer that
/// lives then has had it all the time.
bool ShmTransport::read_remote(Rank peer, std::uint64_t address, void* to, Bytes size) {
  const shm::Liveness& liveness = peers_[index(peer)].liveness;
  return copy_across(::process_vm_readv, liveness.pid(), address, to, size.value()) &&
         !liveness.ended();
}

/// Checks first that the peer lives: another process may have got its pid.
bool ShmTransport::write_remote(Rank peer, std::uint64_t address, const void* from, Bytes size) {
  const shm::Liveness& liveness = peers_[index(peer)].liveness;
  return !liveness.ended() && copy_across(::process_vm_writev, liveness.pid(), address,
                                          const_cast<void*>(from), size.value());
}

std::optional<std::string> ShmTransport::departed(Rank peer) {
  const shm::Liveness& liveness = peers_[index(peer)].liveness;
  const bool left = has_left(index(peer));
  if (!left && !liveness.ended()) return std::nullopt;
  const std::string process =
      liveness.pid() > 0 ? fmt::format("process {}", liveness.pid()) : "its process";
  return process + (left ? " has destroyed its transport" : " has died");
}

}  // namespace

std::unique_ptr<Transport> make_shm_transport(Rank self, int ranks, Bytes segment,
                                              ShmFacilities facilities) {
  require_segment_size(segment);
  try {
    return std::make_unique<ShmTransport>(self, ranks, segment,
                                          SharedMemory{segment, facilities.bell}, facilities);
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("rank {}: set up shared memory: {}", self.value(), error.what()));
  }
}

}  // namespace capstan
