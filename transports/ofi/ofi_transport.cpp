// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/ofi_transport.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"
#include "core/platform/net/own_process.hpp"
#include "transports/common/exposed_registration.hpp"
#include "transports/common/mirrored_transport.hpp"
#include "transports/common/requirements.hpp"
#include "transports/ofi/exchange.hpp"
#include "transports/ofi/sleeper.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_blind_sleep = 1ms;  // while no descriptor reports unfinished work
constexpr auto linger = 1s;                // for peers to receive what was pushed to them
constexpr auto longest_linger = 10s;       // for the rest of a message that is being received

class OfiTransport final : public MirroredTransport {
 public:
  OfiTransport(Rank self, int ranks, Bytes segment, const OfiOptions& options,
               const Borrowed& memory)
      : MirroredTransport(self, ranks, segment, memory),
        exchange_(std::make_unique<ofi::Exchange>(self, ranks, this->segment(), options)),
        sleeper_(exchange_->wait_descriptor()),
        unsent_(static_cast<std::size_t>(ranks)) {}
  ~OfiTransport() override;

  std::string_view name() const override { return "ofi"; }
  Address address() const override { return exchange_->address().encode(); }
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
  int descriptor() const override { return sleeper_.descriptor(); }
  void prepare_to_sleep() override;
  void sleep(std::chrono::nanoseconds at_most) override;
  void cancel_sleep() override;
  std::optional<std::string> departed(Rank peer) override;
  void end_soon() override {
    linger_ = farewell;
    longest_linger_ = farewell;
    const std::lock_guard lock{mutex_};
    exchange_->limit_waits(farewell);
  }

 private:
  void ring(const Link& link) override;
  void leave();
  void require_range(Bytes offset, Bytes length) const;
  void await_peers(Deadline deadline);
  void set_alarm();

  const OwnProcess process_;
  mutable std::mutex mutex_;  // any thread may call wake()
  std::unique_ptr<ofi::Exchange> exchange_;
  ofi::Sleeper sleeper_;
  std::vector<std::atomic<bool>> unsent_;  // by rank: whether pushes wait for a wake
  std::chrono::milliseconds linger_ = linger, longest_linger_ = longest_linger;
  bool connected_ = false;
  bool preparing_ = false;  // between prepare_to_sleep and the end of the sleep
};

OfiTransport::~OfiTransport() {
  if (!process_.is_this()) {
    // A forked child's copy. Closing it would disturb objects that the child shares with the rank,
    // for example the epoll sets of libfabric.
    static_cast<void>(exchange_.release());
    return;
  }
  try {
    leave();
  } catch (const Error& error) {
    log().warn("rank {}: leaving: {}", self().value(), error.what());
  }
  if (!exchange_->must_stay_open()) return;
  log().warn("rank {}: leaving in the middle of a message that does not end; its memory stays",
             self().value());
  ofi::Exchange::abandon(std::move(exchange_));
}

void OfiTransport::leave() {
  exchange_->say_goodbye();
  const Deadline until_taken = Deadline::in(linger_);
  const Deadline until_received = Deadline::in(longest_linger_);
  while ((!exchange_->all_taken() && !until_taken.expired()) ||
         (exchange_->receives_payload() && !until_received.expired())) {
    exchange_->progress();
    std::this_thread::yield();
  }
}

void OfiTransport::connect(std::span<const Address> addresses, Deadline deadline) {
  const std::lock_guard lock{mutex_};
  require_connectable(self(), connected_, addresses.size(), static_cast<std::size_t>(ranks()));
  connected_ = true;
  try {
    for (int rank = 0; rank < ranks(); ++rank) {
      const Address& address = addresses[static_cast<std::size_t>(rank)];
      if (rank == self().value() || address.empty()) continue;
      make_mirror(Rank{rank});
      exchange_->add_peer(Rank{rank}, address, mirror(Rank{rank}));
    }
    await_peers(deadline);
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("rank {}: connect: {}", self().value(), error.what()));
  }
}

void OfiTransport::await_peers(Deadline deadline) {
  while (true) {
    exchange_->progress();
    if (exchange_->all_met()) return;
    exchange_->require_reachable(deadline.expired());
    set_alarm();
    sleeper_.sleep(std::min<std::chrono::nanoseconds>(longest_blind_sleep, deadline.remaining()));
    sleeper_.clear_alarm();
  }
}

void OfiTransport::require_range(Bytes offset, Bytes length) const {
  const std::uint64_t size = const_cast<OfiTransport*>(this)->segment().size();
  if (offset.value() <= size && length.value() <= size - offset.value()) return;
  throw InvalidArgument(
      fmt::format("rank {}: push of {} bytes at {} leaves the segment of {} bytes", self().value(),
                  length.value(), offset.value(), size));
}

void OfiTransport::push(Rank peer, Bytes offset, Bytes length) {
  require_range(offset, length);
  if (index(peer) == index(self())) return;
  const std::lock_guard lock{mutex_};
  exchange_->push(peer, offset, length);
  unsent_[index(peer)].store(true, std::memory_order_relaxed);
}

void OfiTransport::push_from(Rank peer, Bytes offset, const void* from, Bytes length) {
  require_range(offset, length);
  if (index(peer) == index(self())) return;
  const std::lock_guard lock{mutex_};
  exchange_->push_from(peer, offset, static_cast<const std::byte*>(from), length);
  unsent_[index(peer)].store(true, std::memory_order_relaxed);
}

void OfiTransport::announce_sources(std::span<const std::byte> input,
                                    std::span<const std::byte> output) {
  const std::lock_guard lock{mutex_};
  exchange_->sources().announce(input, output);
}

bool OfiTransport::pushed(Rank peer) const {
  index(peer);
  const std::lock_guard lock{mutex_};
  return exchange_->pushed(peer);
}

void OfiTransport::detach_sources(Rank peer) {
  index(peer);
  const std::lock_guard lock{mutex_};
  exchange_->detach_sources(peer);
}

std::unique_ptr<ExposedMemory> OfiTransport::expose(Rank peer, const void* data, Bytes size,
                                                    MemoryKind kind) {
  index(peer);
  const std::lock_guard lock{mutex_};
  return expose_registered(
      mutex_, data, [&] { return exchange_->expose(peer, data, size, kind); },
      [=, this] { exchange_->forget(data, size, kind); });
}

bool OfiTransport::reaches_devices() {
  const std::lock_guard lock{mutex_};
  return exchange_->reaches_devices();
}

std::shared_ptr<RemoteRead> OfiTransport::start_read(Rank peer, std::uint64_t address,
                                                     std::uint64_t key, void* to, Bytes size,
                                                     MemoryKind kind) {
  index(peer);
  const std::lock_guard lock{mutex_};
  try {
    auto read = exchange_->start_read(peer, address, key, to, size, kind);
    if (preparing_) set_alarm();  // the sleeper may have to post the rest
    return read;
  } catch (const Error&) {
    return nullptr;
  }
}

void OfiTransport::end_reads(Rank peer) {
  index(peer);
  const std::lock_guard lock{mutex_};
  exchange_->end_reads(peer);
}

void OfiTransport::ring(const Link& link) {
  const Rank peer = peer_of(link);
  if (!unsent_[index(peer)].load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{mutex_};
  unsent_[index(peer)].store(false, std::memory_order_relaxed);
  exchange_->release(peer);
  if (preparing_) set_alarm();  // the sleeper may have to send the rest
}

void OfiTransport::progress() {
  const std::lock_guard lock{mutex_};
  exchange_->progress();        // also sends pushes that await a wake: early, but allowed
  if (preparing_) set_alarm();  // no descriptor reports what this progress has received
}

void OfiTransport::set_alarm() {
  if (!exchange_->may_wait()) {
    sleeper_.set_alarm(0ns);
  } else if (exchange_->wait_descriptor() < 0 || !exchange_->idle()) {
    sleeper_.set_alarm(longest_blind_sleep);
  } else {
    sleeper_.clear_alarm();
  }
}

void OfiTransport::prepare_to_sleep() {
  const std::lock_guard lock{mutex_};
  preparing_ = true;
  set_alarm();
}

void OfiTransport::sleep(std::chrono::nanoseconds at_most) {
  sleeper_.sleep(at_most);
  cancel_sleep();
}

void OfiTransport::cancel_sleep() {
  const std::lock_guard lock{mutex_};
  preparing_ = false;
  sleeper_.clear_alarm();
}

std::optional<std::string> OfiTransport::departed(Rank peer) {
  if (index(peer) == index(self())) return std::nullopt;
  const std::lock_guard lock{mutex_};
  return exchange_->departed(peer);
}

}  // namespace

std::unique_ptr<Transport> make_ofi_transport(Rank self, int ranks, Bytes segment,
                                              const OfiOptions& options, const Borrowed& memory) {
  try {
    return std::make_unique<OfiTransport>(self, ranks, segment, options, memory);
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("rank {}: ofi: {}", self.value(), error.what()));
  }
}

}  // namespace capstan
