// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/platform/memory/registration/registration_cache.hpp"
#include "transports/ofi/survey.hpp"

namespace capstan::ofi {

/// Closes an object of libfabric.
struct CloseObject {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
};
template <class Object>
using Owned = std::unique_ptr<Object, CloseObject>;

/// One operation in flight. libfabric writes to `context` until the completion is read, so an
/// operation must not move meanwhile. `context` is the first member, as completions carry its
/// address.
struct Operation {
  enum class Kind : std::uint8_t { receive, send, write, payload, landing, read };

  explicit Operation(Kind what, Rank with = {}) : kind(what), peer(with) {}

  fi_context2 context{};
  Kind kind;
  Rank peer;
};

/// The end of an operation; null if it is not known which. `error` is empty on success.
struct Completion {
  Operation* operation = nullptr;
  std::size_t length = 0;  // bytes received
  std::string error;
};

/// Memory that libfabric may use. Empty where the provider needs no registration.
class Registration {
 public:
  Registration() = default;
  explicit Registration(Owned<fid_mr> region) : region_(std::move(region)) {}

  /// The descriptor for local operations on the memory; null when none is needed.
  void* descriptor() const { return region_ ? fi_mr_desc(region_.get()) : nullptr; }
  std::uint64_t key() const { return region_ ? fi_mr_key(region_.get()) : 0; }

 private:
  Owned<fid_mr> region_;
};

/// Where memory lies, as fi_mr_regattr(3) names it.
struct HmemPlace {
  fi_hmem_iface interface = FI_HMEM_SYSTEM;
  int device = 0;  // CUDA's number
};

/// Memory of a peer to which this rank may write, or which it may read.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::uint64_t key = 0;
};
static_assert(std::has_unique_object_representations_v<RemoteMemory>, "sent as its bytes");

/// One endpoint of type FI_EP_RDM with its fabric, domain, address vector and completion queue.
/// Posting functions return 0, -FI_EAGAIN (try again after reading completions), or another
/// negative error code.
class OfiEndpoint {
 public:
  /// Opens the first endpoint of the survey's ranking that can be opened. Throws SystemError with
  /// the reasons of all entries.
  static std::unique_ptr<OfiEndpoint> open(const Survey& survey, const OfiOptions& options);

  /// `info` is the answer of fi_getinfo(3) to precise hints. Throws SystemError.
  explicit OfiEndpoint(Libfabric::Info info);

  const fi_info& info() const { return *info_; }
  /// Ends all operations, so that their memory may be freed. Only the destructor may follow, and
  /// functions that concern registrations.
  void stop();
  /// "tcp;ofi_rxm on eth0".
  std::string description() const;
  std::vector<std::byte> name() const;
  /// Throws SystemError.
  fi_addr_t insert(std::span<const std::byte> name);

  bool needs_local_registration() const;
  /// Whether memory of devices can be registered (FI_HMEM).
  bool takes_device_memory() const { return (info_->caps & FI_HMEM) != 0; }
  /// Registers memory to send from; empty when that needs no registration. Throws SystemError.
  Registration register_source(const std::byte* from, Bytes length);
  /// Registers memory of callers. `access` as for fi_mr_reg(3). With FI_REMOTE_READ, `remote` is
  /// the key for peers, plus one as libfabric knows a key 0. Throws InvalidArgument when the
  /// provider cannot have this memory, SystemError for other failures.
  MemoryKeys register_callers(AddressRange range, std::uint64_t access, HmemPlace place = {});
  static void deregister(const MemoryKeys& keys) noexcept;
  /// The descriptor for local operations; null keys: none is needed.
  static void* descriptor_of(const MemoryKeys* keys) {
    return keys ? fi_mr_desc(static_cast<fid_mr*>(keys->handle)) : nullptr;
  }
  /// Registers memory to send from and receive into; empty when that needs no registration.
  Registration register_exchange(std::byte* memory, Bytes length);
  /// Registers memory to receive into and, if `remote`, for writes by peers.
  Registration register_target(std::byte* to, Bytes length, bool remote);
  /// The address and key by which peers write to registered memory.
  RemoteMemory remote_memory(const std::byte* memory, const Registration& registration) const;

  long receive(std::byte* to, std::size_t size, void* descriptor, Operation& operation);
  long send(fi_addr_t peer, const std::byte* from, std::size_t size, void* descriptor,
            Operation& operation);
  long receive_tagged(std::byte* to, std::size_t size, void* descriptor, fi_addr_t peer,
                      std::uint64_t tag, Operation& operation);
  long send_tagged(fi_addr_t peer, const std::byte* from, std::size_t size, void* descriptor,
                   std::uint64_t tag, Operation& operation);
  /// Completes when `from` may change or, if `visible`, when the data are visible at the peer.
  long write(fi_addr_t peer, const std::byte* from, std::size_t size, void* descriptor,
             RemoteMemory to, bool visible, Operation& operation);
  long read(fi_addr_t peer, std::byte* to, std::size_t size, void* descriptor, RemoteMemory from,
            Operation& operation);

  /// Calls `handle(Completion&)` for each completion. Throws SystemError when the queue itself has
  /// failed.
  template <class Handler>
  void drain(Handler&& handle) {
    std::array<fi_cq_tagged_entry, 32> entries;
    while (true) {
      const long count = read_queue(entries);
      for (long i = 0; i < count; ++i) {
        Completion completion{operation_of(entries[i].op_context), entries[i].len, {}};
        handle(completion);
      }
      if (count > 0) continue;
      if (count == 0) return;
      Completion failed = read_error();
      handle(failed);
    }
  }

  /// Readable when there may be completions; -1 when the provider has no such descriptor.
  int wait_descriptor() const { return wait_descriptor_; }
  /// Whether waiting on it is safe now. If not, there may be completions already.
  bool may_wait();

 private:
  using Entries = std::array<fi_cq_tagged_entry, 32>;
  /// The number of entries; -1 for an error, which read_error() reads.
  long read_queue(Entries& entries);
  Completion read_error();
  static Operation* operation_of(void* context);
  void open_queue();
  bool addresses_are_absolute() const;
  Owned<fid_mr> register_region(const void* memory, Bytes length, std::uint64_t access,
                                HmemPlace place = {});
  [[noreturn]] void fail(std::string_view call, long error) const;

  Libfabric::Info info_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_av> addresses_;
  Owned<fid_cq> queue_;
  Owned<fid_ep> endpoint_;
  int wait_descriptor_ = -1;
};

}  // namespace capstan::ofi
