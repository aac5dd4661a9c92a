// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "transports/common/registered_sources.hpp"
#include "transports/ofi/frame_pool.hpp"
#include "transports/ofi/ofi_endpoint.hpp"
#include "transports/transport.hpp"

namespace capstan::ofi {

/// Properties of the provider and limits, the same for all peers.
struct Rules {
  bool writes = false;            // large pushes are remote writes; otherwise tagged messages
  bool copy_all = false;          // large pushes are cut into frames, too
  bool send_after_write = false;  // a message is delivered after the writes posted before it
  bool write_after_write = false;
  std::uint64_t window = 0;    // frames in flight to one peer
  std::uint64_t buffered = 0;  // bytes that are sent even if the provider is not called again
  std::uint64_t largest = 0;   // bytes of one operation
  bool reads = false;          // exposed memory is read
  bool card_reads = false;     // by a network card; otherwise in this rank's calls alone
};

/// Sends to one peer, in order: frames of small pushes, and large pushes between them.
///
/// Order. A push must not become visible before an earlier one. A frame follows earlier writes by
/// the provider's order, or waits for their completion. A write would overtake frames that the peer
/// has received but not applied, so it waits until the peer acknowledges them. Tagged messages need
/// no such wait, as the peer receives them in its own order.
///
/// Memory of callers. detach() may need this memory back while the provider still reads it, and
/// libfabric cannot cancel that. Therefore all that follows such a push, above all the flag that
/// announces the data, is sent only after the push has completed. If detach() comes first, the same
/// bytes are sent once more from a copy before the flag.
///
/// Progress. A provider may report data as sent that it still holds because the network was full,
/// and sends the rest in its own progress only. Therefore the peer is queried after some bytes, and
/// pushes count as sent when the peer has answered.
class Sender {
 public:
  struct Route {
    Rank peer;
    fi_addr_t address = FI_ADDR_UNSPEC;
    FrameHeader header;  // names the sender
    Secret key;          // of frames to the peer
  };

  Sender(OfiEndpoint& endpoint, FramePool& pool, const Rules& rules, Route route);

  /// The peer's hello has arrived: writes are possible.
  void set_remote(RemoteMemory memory) { remote_ = memory; }

  /// Queues the first message to the peer.
  void introduce(RemoteMemory own);
  /// Pushes a part of this rank's segment, whose descriptor is given.
  void push(const std::byte* from, Bytes offset, Bytes length, void* descriptor);
  /// Pushes memory of a caller. `sources` registers it; null: it needs no registration.
  void push_from(const std::byte* from, Bytes offset, Bytes length, RegisteredSources* sources);
  /// Makes all pushes independent of memory of callers.
  void detach();
  /// Lets everything pushed so far be sent.
  void release();
  /// Lets everything be sent, followed by the last frame.
  void say_goodbye();

  /// Sends what can be sent now. `applied` is the number of the peer's frames that were applied.
  /// Returns a negative error code other than -FI_EAGAIN when the peer cannot be reached, else 0.
  long advance(std::uint64_t applied);
  void send_acknowledgement() { acknowledge_ = true; }
  /// The peer has to be told when half of its window is free again.
  bool owes_acknowledgement(std::uint64_t applied) const {
    return applied - told_ >= (rules_.window + 1) / 2;
  }

  void acknowledged(std::uint64_t applied) {
    acknowledged_ = std::max(acknowledged_, std::min(applied, sent_));
    if (acknowledged_ == sent_) bytes_since_query_ = 0;
  }
  /// To be called when an operation of this sender has ended.
  void completed(Operation& operation);

  /// Whether everything pushed will arrive even if this rank does nothing more, and all its memory
  /// may change.
  bool all_sent() const { return idle() && acknowledged_ >= asked_; }
  /// Whether nothing waits and no operation is in flight.
  bool idle() const { return items_.empty() && in_flight_ == 0 && !acknowledge_ && !query_due_; }
  /// Whether the peer has acknowledged everything.
  bool all_applied() const { return items_.empty() && sent_ == acknowledged_; }
  /// Drops what waits, as nobody will receive it. Acknowledgements are still sent.
  void abandon();

 private:
  /// A push that is not copied.
  struct Large : Operation {
    Large(Kind what, Rank with) : Operation(what, with) {}
    const std::byte* from = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    void* descriptor = nullptr;
    std::shared_ptr<const MemoryKeys> registration;  // null: it is the segment's, or needs none
    bool borrowed = false;                           // reads memory of a caller
    bool repeated = false;                           // sent once more from a copy
    std::unique_ptr<std::byte[]> saved;              // what `from` points to
    Registration of_saved;
  };
  struct Waiting {
    Frame* frame = nullptr;  // one of the two is set
    std::unique_ptr<Large> large;
  };

  /// Copies a push unless it is so long that it is read later. Returns whether it was copied.
  bool copied(const std::byte* from, Bytes offset, Bytes length);
  void copy(const std::byte* from, std::uint64_t offset, std::uint64_t length);
  void refer(const std::byte* from, std::uint64_t offset, std::uint64_t length, void* descriptor);
  std::unique_ptr<Large> make_large(std::uint64_t offset, std::uint64_t length);
  void save(Large& large);
  void send_again(const Large& large);
  Frame& frame_with_room(std::size_t bytes);
  bool may_send(const Waiting& item);
  bool may_write();
  long send(Waiting& item, std::uint64_t applied);
  long send_frame(Frame& frame, std::uint64_t applied);
  long send_large(Large& large);
  long send_control(std::uint64_t applied);

  OfiEndpoint& endpoint_;
  FramePool& pool_;
  const Rules& rules_;
  const Route route_;
  RemoteMemory remote_;

  std::deque<Waiting> items_;
  std::vector<std::unique_ptr<Large>> under_way_;
  bool open_ = false;                    // the last item is a frame that waits for release()
  std::uint64_t sent_ = 0;               // frames
  std::uint64_t acknowledged_ = 0;       // frames that the peer has applied
  std::uint64_t asked_ = 0;              // frames whose application was queried
  std::uint64_t bytes_since_query_ = 0;  // bytes sent since then
  std::uint64_t told_ = 0;               // the value of `applied` last sent to the peer
  std::uint64_t payloads_ = 0;           // tagged messages; the peer counts them, too
  std::size_t in_flight_ = 0;            // operations
  std::size_t writes_ = 0;               // of these
  std::size_t borrowed_ = 0;             // of these
  bool after_large_ = false;             // the next frame is the first after a large push
  bool acknowledge_ = false;
  bool query_due_ = false;
};

}  // namespace capstan::ofi
