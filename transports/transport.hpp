#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/quantity.hpp"

namespace capstan {

/// What one rank publishes so that others can connect to it; opaque to all but its transport.
using Address = std::vector<std::byte>;

/// The way to one peer: plain data, because it is used on every step of every operation.
struct Link {
  /// The peer's segment as seen from here: its very memory when `mapped`, otherwise a mirror of
  /// what the peer has pushed to this rank. Read-only by convention: a segment is written by its
  /// owner alone.
  const std::byte* segment = nullptr;
  /// The same memory, in pages that could be written, if there is such a mapping. Some processors
  /// (AMD's Zen 5) move lines that another core has written to the core that reads them so, instead
  /// of sharing them: `rep movsb` out of them is up to twice as fast, plain loads are a tenth
  /// slower, and their owner writes to them again up to twice as fast.
  const std::byte* taken_from = nullptr;
  static constexpr std::uint64_t long_read = 4096;  ///< bytes from which on that pays
  /// Non-zero while the peer sleeps (see Transport::wake); null when the peer cannot be woken so.
  /// Always non-zero when the link is not mapped: waking sends what has been pushed.
  std::atomic<std::uint32_t>* doorbell = nullptr;
  /// The peer's stores to its segment are visible here without a push.
  bool mapped = false;
};

/// What has gone over the wire to one peer.
struct Traffic {
  std::uint64_t bytes = 0;   // of what was pushed: without what the transport adds
  std::uint64_t frames = 0;  // pushes
  bool operator==(const Traffic&) const = default;
};

/// Moves bytes between the ranks of one communicator.
///
/// Every rank owns one segment, which only it writes, and sees the segments of its peers. To send,
/// a rank writes data into its own segment, then a flag (a naturally aligned atomic word, stored
/// with release order), and pushes both to whoever shall see them; the peer loads the flag with
/// acquire order through its Link and then reads the data. This one rule covers memory that is
/// shared (push does nothing) and memory that is not (push writes to the mirror at the peer).
///
/// Pushes to one peer become visible in the order in which they were made, and a word of 8 bytes
/// becomes visible as a whole. A segment starts as zeros. What is pushed may be kept back until the
/// peer is woken: so data and their flag travel together.
///
/// Lifetime: construct, exchange `address()` by other means, `connect()`, use, destroy. All calls
/// come from one thread at a time, except `wake`, which is thread-safe. Nothing blocks longer than
/// the given deadline.
class Transport {
 public:
  virtual ~Transport() = default;

  /// "shm", "threads", ...
  virtual std::string_view name() const = 0;

  /// What peers need to connect to this rank.
  virtual Address address() const = 0;

  /// Connects to every peer; `addresses` holds one entry per rank. This rank's own is ignored, and
  /// an empty one stands for a peer that is reached otherwise and has no link here. Throws
  /// BootstrapError that names the ranks that could not be reached or not be trusted.
  virtual void connect(std::span<const Address> addresses, Deadline deadline) = 0;

  /// This rank's own segment.
  virtual std::span<std::byte> segment() = 0;

  /// The way to `peer`. Valid after connect() and as long as the transport lives.
  virtual const Link& link(Rank peer) const = 0;

  /// Makes [offset, offset + length) of this rank's segment visible to `peer`. Ranges of up to
  /// `snapshot` bytes are taken as they are now. Longer ones may be read until the peer sees them,
  /// and must not change before. Does nothing when the link is mapped.
  virtual void push(Rank peer, Bytes offset, Bytes length) = 0;
  static constexpr Bytes snapshot{64};

  /// The same with bytes from elsewhere in this process's memory, which must not change before
  /// pushed(peer): the peer sees them at `offset` of this rank's segment, where nothing is written
  /// here. Only for links that are not mapped.
  virtual void push_from(Rank /*peer*/, Bytes /*offset*/, const void* /*from*/, Bytes /*length*/) {}

  /// From now on push_from() takes what it sends from parts of these buffers, among others: where
  /// hardware has to know memory, it is told of a whole buffer at once. They stay what they are
  /// until the next such call, which may be with none.
  virtual void announce_sources(std::span<const std::byte> /*input*/,
                                std::span<const std::byte> /*output*/) {}

  /// Whether nothing that was pushed to `peer`, and followed by a wake, is read here any more.
  /// progress() makes it so.
  virtual bool pushed(Rank /*peer*/) const { return true; }

  /// Makes sure that nothing pushed to `peer` is read any more when this returns: what is still to
  /// be sent is copied or, where hardware reads it, waited for as long as that makes sense.
  virtual void detach_sources(Rank /*peer*/) {}

  /// What this rank has sent to `peer` so far; zeros where the link is mapped.
  virtual Traffic traffic(Rank /*peer*/) const { return {}; }

  /// Reads `size` bytes at `address` of the peer's memory, which the peer keeps as it is meanwhile.
  /// False when this transport, or this machine, does not let it.
  virtual bool read_remote(Rank, std::uint64_t /*address*/, void* /*to*/, Bytes /*size*/) {
    return false;
  }

  /// Writes `size` bytes to the peer's memory, of which the peer expects it, likewise.
  virtual bool write_remote(Rank, std::uint64_t /*address*/, const void* /*from*/, Bytes /*size*/) {
    return false;
  }

  /// Whether addresses of a peer's memory are this rank's own, so that it can load from there.
  virtual bool shares_addresses() const { return false; }

  /// Sends what could not be sent at once and takes in what has come. Called again and again while
  /// waiting, so it costs little when there is nothing to do. Mirrors change in it alone, unless
  /// the hardware writes to them.
  virtual void progress() = 0;

  /// After prepare_to_sleep: readable as soon as progress() has something to do, so that one sleep
  /// can watch several transports; -1 when there is no such thing.
  virtual int descriptor() const { return -1; }

  /// Sleeping without losing a wake-up: `prepare_to_sleep`, look once more at what is awaited,
  /// then `sleep` (returns when woken, after `at_most`, or for no reason) or `cancel_sleep`. A
  /// wake after prepare_to_sleep makes the sleep return at once; what was published before that
  /// wake is visible then.
  virtual void prepare_to_sleep() = 0;
  virtual void sleep(std::chrono::nanoseconds at_most) = 0;
  virtual void cancel_sleep() = 0;

  /// Wakes `peer` if it sleeps. Called after publishing something that it may be waiting for. The
  /// check is one load when nobody sleeps: no fence is needed here, as prepare_to_sleep sees to it
  /// that this load cannot miss the sleep and the sleeper's last look the publication both.
  void wake(const Link& link) {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order too
    if (link.doorbell && link.doorbell->load(std::memory_order_relaxed) != 0) ring(link);
  }

  /// This rank waits for something of `peer`: from now on departed() is to notice its end even if
  /// nothing was ever pushed between the two. Called again and again.
  virtual void watch(Rank /*peer*/) {}

  /// Why `peer` can no longer answer ("process 4711 has died", "process 4711 has destroyed its
  /// transport"), or nothing while it lives. What it published before stays readable, and
  /// may be all that was awaited of it: look once more before giving up. Costs a system call at
  /// most.
  virtual std::optional<std::string> departed(Rank peer) = 0;

 protected:
  virtual void ring(const Link& link) = 0;
};

}  // namespace capstan
