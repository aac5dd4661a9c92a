// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/memory_kind.hpp"
#include "capstan/quantity.hpp"

namespace capstan {

/// Published by a rank so that others can connect to it. Only a transport of the same kind can read
/// an address.
using Address = std::vector<std::byte>;

/// Access to one peer. Plain data, because every step of every operation uses it.
struct Link {
  /// The peer's segment: its own memory when `mapped`, otherwise a local mirror that receives what
  /// the peer pushes to this rank. Never written here: only its owner writes to a segment.
  const std::byte* segment = nullptr;
  /// The same memory through a writable mapping, if there is one. Through such a mapping some
  /// processors (AMD's Zen 5) move lines that another core has written to the reading core, instead
  /// of sharing them. `rep movsb` out of these lines is up to twice as fast, plain loads are a
  /// tenth slower, and the owner writes to them again up to twice as fast.
  const std::byte* writable_alias = nullptr;
  static constexpr std::uint64_t long_read = 4096;  ///< bytes from which on the alias pays
  /// Non-zero while the peer sleeps (see Transport::wake), and always non-zero when the link is not
  /// mapped, as waking then sends what has been pushed. Null: the peer cannot be woken.
  std::atomic<std::uint32_t>* doorbell = nullptr;
  /// The peer's stores to its segment are visible here without a push.
  bool mapped = false;
};

/// Memory that a peer may read by Transport::start_read() as long as this lives. Not thread-safe.
class ExposedMemory {
 public:
  virtual ~ExposedMemory() = default;
  /// The arguments for start_read() of the peer: the address by which the peer's hardware knows the
  /// memory, and a key, which is never 0.
  virtual std::uint64_t address() const = 0;
  virtual std::uint64_t key() const = 0;
  /// After a failure, before the memory is given back: a read that comes later fails.
  virtual void revoke() = 0;
};

/// A read of a peer's memory that hardware makes. Changes in calls of the transport.
struct RemoteRead {
  const Rank peer;
  std::atomic<std::uint64_t> left;  ///< bytes that have not come
  std::atomic<bool> failed = false;

  RemoteRead(Rank from, Bytes size) : peer(from), left(size.value()) {}
  bool under_way() const { return left != 0 && !failed; }
};

/// Moves bytes between the ranks of one communicator.
///
/// Every rank owns one segment, which only it writes, and sees the segments of its peers. To send,
/// a rank writes data into its own segment, then a flag (a naturally aligned atomic word, stored
/// with release order), and pushes both to each receiver. The receiver loads the flag with acquire
/// order through its Link and then reads the data. This one rule covers shared memory, where push
/// does nothing, and a network, where push writes to the mirror at the receiver.
///
/// Pushes to one peer become visible in the order in which they were made, and an aligned word of 8
/// bytes becomes visible as a whole. A segment starts as zeros. A transport may hold pushes back
/// until the peer is woken, so that data and their flag travel together.
///
/// Lifetime: construct, exchange `address()` by other means, `connect()`, use, destroy. All calls
/// come from one thread at a time, except `wake` and `reaches_devices`, which are thread-safe.
/// Nothing blocks longer than the given deadline.
///
/// A transport implements the functions without a default; the defaults of the others are right for
/// mapped links. It is one class rather than one per concern: callers need them together, and
/// several bases would cost each object more table pointers and some calls an adjustment of `this`.
/// tests/conformance holds every transport to this contract.
class Transport {
 public:
  virtual ~Transport() = default;

  /// "shm", "threads", ...
  virtual std::string_view name() const = 0;

  // --- Set-up ---

  /// The address that peers need to connect to this rank.
  virtual Address address() const = 0;

  /// Connects to every peer; `addresses` holds one entry per rank. This rank's own entry is
  /// ignored. An empty entry stands for a peer that another transport reaches and that has no link
  /// here. Throws BootstrapError that names the ranks that could not be reached or not be trusted.
  virtual void connect(std::span<const Address> addresses, Deadline deadline) = 0;

  /// This rank's own segment.
  virtual std::span<std::byte> segment() = 0;

  /// The link to `peer`. Valid after connect() and as long as the transport lives.
  virtual const Link& link(Rank peer) const = 0;

  // --- Data ---

  /// Makes [offset, offset + length) of this rank's segment visible to `peer`. Up to `snapshot`
  /// bytes are copied now. A longer range may be read until the peer sees it, and must not change
  /// before. Does nothing when the link is mapped.
  virtual void push(Rank peer, Bytes offset, Bytes length) = 0;
  static constexpr Bytes snapshot{64};

  /// Pushes bytes from elsewhere in this process's memory. They must not change before
  /// pushed(peer). The peer sees them at `offset` of this rank's segment; the segment itself is not
  /// written. Only for links that are not mapped.
  virtual void push_from(Rank /*peer*/, Bytes /*offset*/, const void* /*from*/, Bytes /*length*/) {}

  /// Announces buffers that push_from() will send parts of, so that a transport can register each
  /// as a whole. They stay mapped until the next such call, which may announce empty ones.
  virtual void announce_sources(std::span<const std::byte> /*input*/,
                                std::span<const std::byte> /*output*/) {}

  /// Whether all memory that was pushed to `peer` before the last wake may change again. Becomes
  /// true in progress().
  virtual bool pushed(Rank /*peer*/) const { return true; }

  /// Makes sure that memory pushed to `peer` may change when this returns. Copies unsent data.
  /// Where hardware reads the memory, waits until the peer has the data or counts as lost.
  virtual void detach_sources(Rank /*peer*/) {}

  /// Sends data that could not be sent before and receives data that have arrived. Called again and
  /// again while waiting, so it costs little when there is nothing to do. Mirrors change in this
  /// function only, unless hardware writes to them.
  virtual void progress() = 0;

  // --- Remote memory: direct access to a peer's buffers, where the machine allows it ---

  /// Reads `size` bytes at `address` of the peer's memory, which must not change meanwhile. False
  /// when this transport, or this machine, does not allow it.
  virtual bool read_remote(Rank, std::uint64_t /*address*/, void* /*to*/, Bytes /*size*/) {
    return false;
  }

  /// Writes `size` bytes to `address` of the peer's memory, which nobody else may use meanwhile.
  /// False as above.
  virtual bool write_remote(Rank, std::uint64_t /*address*/, const void* /*from*/, Bytes /*size*/) {
    return false;
  }

  // --- The same by hardware, of memory that a peer has exposed ---

  /// Lets `peer` read this memory, which must not change meanwhile. Null when this transport, or
  /// this machine, does not allow it. Ends before the transport.
  virtual std::unique_ptr<ExposedMemory> expose(Rank /*peer*/, const void* /*data*/, Bytes /*size*/,
                                                MemoryKind) {
    return nullptr;
  }

  /// Whether memory of devices can be exposed and read into, too. Thread-safe. The first call may
  /// take seconds.
  virtual bool reaches_devices() { return false; }

  /// Begins to read `size` bytes at `address` of what the peer has exposed with this key. Nobody
  /// uses the memory at `to` before the read has ended. It fails when the peer is lost, and when
  /// the peer has revoked the memory, which counts as the loss of the peer. Null as above.
  virtual std::shared_ptr<RemoteRead> start_read(Rank /*peer*/, std::uint64_t /*address*/,
                                                 std::uint64_t /*key*/, void* /*to*/,
                                                 Bytes /*size*/, MemoryKind /*of `to`*/) {
    return nullptr;
  }

  /// Makes sure that no read from `peer` is under way when this returns. The peer counts as lost if
  /// it does not answer in time. Throws nothing. A transport that reads implements it.
  virtual void end_reads(Rank /*peer*/) {}

  /// Whether this rank and its peers share an address space, so that it can load from their memory.
  virtual bool shares_addresses() const { return false; }

  // --- Sleeping ---

  /// Readable, after prepare_to_sleep, as soon as progress() has something to do, so that one sleep
  /// can watch several transports. -1: this transport has no such descriptor.
  virtual int descriptor() const { return -1; }

  /// To sleep without losing a wake-up: `prepare_to_sleep`, check the awaited condition once more,
  /// then `sleep` (returns when woken, after `at_most`, or for no reason) or `cancel_sleep`. A
  /// wake after prepare_to_sleep makes the sleep return at once; data published before that wake
  /// are visible then.
  virtual void prepare_to_sleep() = 0;
  virtual void sleep(std::chrono::nanoseconds at_most) = 0;
  virtual void cancel_sleep() = 0;

  /// Wakes `peer` if it sleeps. Called after publishing something that it may be waiting for. The
  /// check is one load when nobody sleeps. It needs no fence: prepare_to_sleep guarantees that
  /// either this load sees the sleeper, or the sleeper's last check sees the publication.
  void wake(const Link& link) {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order too
    if (link.doorbell && link.doorbell->load(std::memory_order_relaxed) != 0) ring(link);
  }

  // --- Liveness ---

  /// This rank waits for `peer`: from now on departed() notices the peer's end even if nothing was
  /// ever pushed between the two. Called again and again. False while it is not known yet whether
  /// the peer is there: a connection is being opened.
  virtual bool watch(Rank /*peer*/) { return true; }

  /// Why `peer` can no longer answer ("process 4711 has died", "process 4711 has destroyed its
  /// transport"), or nothing while it lives. Data that the peer published before stay readable and
  /// may be all that was awaited, so check once more before giving up. Costs at most one system
  /// call.
  virtual std::optional<std::string> departed(Rank peer) = 0;

  /// The communicator has failed: the destructor, which otherwise sees to it that peers get what
  /// was sent, waits no longer than `farewell` for them.
  virtual void end_soon() {}
  static constexpr std::chrono::milliseconds farewell{100};

 protected:
  /// The slow part of wake(): wakes the peer of this link, and sends it what was pushed.
  virtual void ring(const Link& link) = 0;
};

}  // namespace capstan
