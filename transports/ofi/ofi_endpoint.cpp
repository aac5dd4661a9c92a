// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/ofi_endpoint.hpp"

#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"
#include "core/platform/net/random.hpp"

namespace capstan::ofi {
namespace {

constexpr std::uint64_t wanted_order = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW;

/// The capabilities that this transport uses.
std::uint64_t wanted_of(const Candidate& candidate, const OfiOptions& options) {
  const bool reads = reads_memory(candidate, options);
  std::uint64_t wanted = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
  if (options.pushes != OfiPushes::write) wanted |= FI_TAGGED;
  if (options.pushes != OfiPushes::messages) wanted |= FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
  if (reads) wanted |= FI_RMA | FI_READ | FI_REMOTE_READ;
  if (reads && options.gpu_direct != GpuDirectUse::never) wanted |= FI_HMEM;
  return wanted;
}

/// Hints for an entry of the survey: those of its features that this transport uses.
Libfabric::Info hints_for(const fi_info& entry, const Candidate& candidate,
                          const OfiOptions& options) {
  Libfabric::Info hints = Libfabric::get().copy(&entry);
  hints->caps &= wanted_of(candidate, options);
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->tx_attr->caps = hints->rx_attr->caps = 0;
  hints->tx_attr->mode = hints->rx_attr->mode = hints->mode;
  hints->tx_attr->op_flags = hints->rx_attr->op_flags = 0;
  hints->tx_attr->msg_order &= wanted_order;
  hints->rx_attr->msg_order = hints->tx_attr->msg_order;
  hints->tx_attr->comp_order = hints->rx_attr->comp_order = FI_ORDER_NONE;
  hints->domain_attr->caps = 0;
  hints->domain_attr->mode = 0;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  if ((hints->caps & FI_HMEM) != 0) hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;  // no threads beside the caller's
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->av_type = FI_AV_TABLE;
  return hints;
}

/// The endpoint that an entry grants. Without memory of devices, and then without reads, where it
/// requires modes for them that are not offered. Null if it grants none.
Libfabric::Info granted(const Libfabric::Info& hints) {
  const Libfabric& library = Libfabric::get();
  Libfabric::Info info = library.query(hints.get());
  for (const std::uint64_t extra : {FI_HMEM, FI_READ | FI_REMOTE_READ}) {
    if (info || (hints->caps & extra) == 0) continue;
    hints->caps &= ~extra;
    hints->domain_attr->mr_mode &= ~FI_MR_HMEM;
    if ((hints->caps & (FI_READ | FI_WRITE)) == 0) hints->caps &= ~FI_RMA;
    info = library.query(hints.get());
  }
  return info;
}

std::uint64_t random_key(const fi_info& info) {
  const auto key = random_value<std::uint64_t>();
  const std::size_t size = info.domain_attr->mr_key_size;
  return size == 0 || size >= sizeof(key) ? key : key & ((std::uint64_t{1} << (8 * size)) - 1);
}

/// The arguments of fi_readmsg(3) and fi_writemsg(3).
struct RemoteAccess {
  RemoteAccess(fi_addr_t peer, std::byte* memory, std::size_t size, void* local_descriptor,
               RemoteMemory at, Operation& operation)
      : local{memory, size},
        descriptor(local_descriptor),
        remote{.addr = at.address, .len = size, .key = at.key},
        message{.msg_iov = &local,
                .desc = &descriptor,
                .iov_count = 1,
                .addr = peer,
                .rma_iov = &remote,
                .rma_iov_count = 1,
                .context = &operation.context,
                .data = 0} {}
  RemoteAccess(const RemoteAccess&) = delete;

  iovec local;
  void* descriptor;
  fi_rma_iov remote;
  fi_msg_rma message;
};

}  // namespace

std::unique_ptr<OfiEndpoint> OfiEndpoint::open(const Survey& survey, const OfiOptions& options) {
  if (survey.choice.ranking.empty()) throw InvalidArgument(survey.choice.reason);
  std::string reasons;
  for (const std::size_t i : survey.choice.ranking) {
    try {
      Libfabric::Info info = granted(hints_for(*survey.entries[i], survey.candidates[i], options));
      if (!info) throw SystemError("fi_getinfo no longer finds it");
      return std::make_unique<OfiEndpoint>(std::move(info));
    } catch (const SystemError& error) {
      reasons += fmt::format("; {}: {}", describe(survey.candidates[i]), error.what());
    }
  }
  throw SystemError(fmt::format("no endpoint could be opened{}", reasons));
}

OfiEndpoint::OfiEndpoint(Libfabric::Info info) : info_(std::move(info)) {
  fabric_.reset(Libfabric::get().open_fabric(*info_));

  fid_domain* domain = nullptr;
  if (const int e = fi_domain(fabric_.get(), info_.get(), &domain, nullptr)) fail("fi_domain", e);
  domain_.reset(domain);

  fi_av_attr attributes{};
  attributes.type = FI_AV_TABLE;
  fid_av* addresses = nullptr;
  if (const int e = fi_av_open(domain, &attributes, &addresses, nullptr)) fail("fi_av_open", e);
  addresses_.reset(addresses);

  open_queue();

  fid_ep* endpoint = nullptr;
  if (const int e = fi_endpoint(domain, info_.get(), &endpoint, nullptr)) fail("fi_endpoint", e);
  endpoint_.reset(endpoint);
  if (const int e = fi_ep_bind(endpoint, &addresses->fid, 0)) fail("fi_ep_bind", e);
  if (const int e = fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV)) {
    fail("fi_ep_bind", e);
  }
  if (const int e = fi_enable(endpoint)) fail("fi_enable", e);
}

void OfiEndpoint::open_queue() {
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_TAGGED;
  attributes.size = info_->tx_attr->size + info_->rx_attr->size;
  fid_cq* queue = nullptr;
  attributes.wait_obj = FI_WAIT_FD;
  int result = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
  if (result == 0) {
    queue_.reset(queue);
    if (fi_control(&queue->fid, FI_GETWAIT, &wait_descriptor_) != 0) wait_descriptor_ = -1;
    return;
  }
  attributes.wait_obj = FI_WAIT_NONE;
  result = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
  if (result != 0) fail("fi_cq_open", result);
  queue_.reset(queue);
}

void OfiEndpoint::fail(std::string_view call, long error) const {
  throw SystemError(
      fmt::format("{} failed on {}: {}", call, description(), Libfabric::get().text(error)));
}

void OfiEndpoint::stop() {
  if (!endpoint_) return;
  const int result = fi_close(&endpoint_.release()->fid);
  if (result != 0)
    log().error("ofi: {} does not close: {}; it may still use memory", description(),
                Libfabric::get().text(result));
}

std::string OfiEndpoint::description() const {
  return fmt::format("{} on {}", info_->fabric_attr->prov_name, info_->domain_attr->name);
}

std::vector<std::byte> OfiEndpoint::name() const {
  std::size_t size = 0;
  fi_getname(&endpoint_->fid, nullptr, &size);
  std::vector<std::byte> name(size);
  if (const int e = fi_getname(&endpoint_->fid, name.data(), &size)) fail("fi_getname", e);
  name.resize(size);
  return name;
}

fi_addr_t OfiEndpoint::insert(std::span<const std::byte> name) {
  fi_addr_t address = FI_ADDR_UNSPEC;
  const int count = fi_av_insert(addresses_.get(), name.data(), 1, &address, 0, nullptr);
  if (count != 1) fail("fi_av_insert", count < 0 ? count : -FI_EADDRNOTAVAIL);
  return address;
}

bool OfiEndpoint::needs_local_registration() const {
  return (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
}

Owned<fid_mr> OfiEndpoint::register_region(const void* memory, Bytes length, std::uint64_t access,
                                           HmemPlace place) {
  const int mode = info_->domain_attr->mr_mode;
  const iovec range{const_cast<void*>(memory), length.value()};
  fi_mr_attr attributes{};
  attributes.mr_iov = &range;
  attributes.iov_count = 1;
  attributes.access = access;
  attributes.iface = place.interface;
  if (place.interface == FI_HMEM_CUDA) attributes.device.cuda = place.device;
  constexpr int attempts = 4;  // a random key may be in use
  fid_mr* region = nullptr;
  int result = -FI_ENOKEY;
  for (int i = 0; i < attempts && result == -FI_ENOKEY; ++i) {
    attributes.requested_key = (mode & FI_MR_PROV_KEY) != 0 ? 0 : random_key(*info_);
    result = fi_mr_regattr(domain_.get(), &attributes, 0, &region);
  }
  if (result == -EFAULT) {
    throw InvalidArgument(fmt::format("{} at {} cannot be registered on {}", readable(length),
                                      memory, description()));
  }
  if (result != 0) {
    throw SystemError(fmt::format(
        "fi_mr_regattr of {} bytes failed on {}: {}; raise ulimit -l, or ask for a smaller "
        "segment",
        length.value(), description(), Libfabric::get().text(result)));
  }
  Owned<fid_mr> registration{region};
  if ((mode & FI_MR_ENDPOINT) != 0) {
    if (const int e = fi_mr_bind(region, &endpoint_->fid, 0)) fail("fi_mr_bind", e);
    if (const int e = fi_mr_enable(region)) fail("fi_mr_enable", e);
  }
  return registration;
}

Registration OfiEndpoint::register_source(const std::byte* from, Bytes length) {
  if (!needs_local_registration()) return {};
  return Registration{register_region(from, length, FI_SEND | FI_WRITE)};
}

MemoryKeys OfiEndpoint::register_callers(AddressRange range, std::uint64_t access,
                                         HmemPlace place) {
  fid_mr* const region = register_region(range.data(), range.size(), access, place).release();
  const bool readable = (access & FI_REMOTE_READ) != 0;
  return {.handle = region,
          .remote = readable ? fi_mr_key(region) + 1 : 0,
          .origin = addresses_are_absolute() ? 0 : range.begin};
}

void OfiEndpoint::deregister(const MemoryKeys& keys) noexcept {
  fi_close(&static_cast<fid_mr*>(keys.handle)->fid);
}

Registration OfiEndpoint::register_exchange(std::byte* memory, Bytes length) {
  if (!needs_local_registration()) return {};
  return Registration{register_region(memory, length, FI_SEND | FI_RECV)};
}

Registration OfiEndpoint::register_target(std::byte* to, Bytes length, bool remote) {
  if (!remote && !needs_local_registration()) return {};
  return Registration{register_region(to, length, FI_RECV | (remote ? FI_REMOTE_WRITE : 0))};
}

bool OfiEndpoint::addresses_are_absolute() const {
  return (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
}

RemoteMemory OfiEndpoint::remote_memory(const std::byte* memory,
                                        const Registration& registration) const {
  return {.address = addresses_are_absolute() ? reinterpret_cast<std::uint64_t>(memory) : 0,
          .key = registration.key()};
}

long OfiEndpoint::receive(std::byte* to, std::size_t size, void* descriptor, Operation& operation) {
  return fi_recv(endpoint_.get(), to, size, descriptor, FI_ADDR_UNSPEC, &operation.context);
}

long OfiEndpoint::send(fi_addr_t peer, const std::byte* from, std::size_t size, void* descriptor,
                       Operation& operation) {
  return fi_send(endpoint_.get(), from, size, descriptor, peer, &operation.context);
}

long OfiEndpoint::receive_tagged(std::byte* to, std::size_t size, void* descriptor, fi_addr_t peer,
                                 std::uint64_t tag, Operation& operation) {
  return fi_trecv(endpoint_.get(), to, size, descriptor, peer, tag, 0, &operation.context);
}

long OfiEndpoint::send_tagged(fi_addr_t peer, const std::byte* from, std::size_t size,
                              void* descriptor, std::uint64_t tag, Operation& operation) {
  return fi_tsend(endpoint_.get(), from, size, descriptor, peer, tag, &operation.context);
}

long OfiEndpoint::write(fi_addr_t peer, const std::byte* from, std::size_t size, void* descriptor,
                        RemoteMemory to, bool visible, Operation& operation) {
  const RemoteAccess access{peer, const_cast<std::byte*>(from), size, descriptor, to, operation};
  const std::uint64_t flags = visible ? FI_COMPLETION | FI_DELIVERY_COMPLETE : FI_COMPLETION;
  return fi_writemsg(endpoint_.get(), &access.message, flags);
}

long OfiEndpoint::read(fi_addr_t peer, std::byte* to, std::size_t size, void* descriptor,
                       RemoteMemory from, Operation& operation) {
  const RemoteAccess access{peer, to, size, descriptor, from, operation};
  return fi_readmsg(endpoint_.get(), &access.message, FI_COMPLETION);
}

Operation* OfiEndpoint::operation_of(void* context) {
  static_assert(offsetof(Operation, context) == 0);
  return static_cast<Operation*>(context);
}

long OfiEndpoint::read_queue(Entries& entries) {
  const long count = fi_cq_read(queue_.get(), entries.data(), entries.size());
  if (count >= 0) return count;
  if (count == -FI_EAGAIN || count == -FI_EINTR) return 0;
  if (count == -FI_EAVAIL) return -1;
  fail("fi_cq_read", count);
}

Completion OfiEndpoint::read_error() {
  fi_cq_err_entry entry{};
  const long result = fi_cq_readerr(queue_.get(), &entry, 0);
  if (result < 0 && result != -FI_EAGAIN) fail("fi_cq_readerr", result);
  if (result < 1) return {};
  std::array<char, 256> buffer{};
  const char* detail =
      fi_cq_strerror(queue_.get(), entry.prov_errno, entry.err_data, buffer.data(), buffer.size());
  Completion completion{operation_of(entry.op_context), entry.len,
                        Libfabric::get().text(entry.err)};
  if (detail && *detail && completion.error != detail) {
    completion.error += fmt::format(" ({})", detail);
  }
  return completion;
}

bool OfiEndpoint::may_wait() {
  fid* objects[] = {&queue_->fid};
  return fi_trywait(fabric_.get(), objects, 1) == FI_SUCCESS;
}

}  // namespace capstan::ofi
