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

/// What all pairs of this rank have in common.
struct Rules {
  bool writes = false;            // large pushes are remote writes; otherwise tagged messages
  bool copy_all = false;          // neither is there: large pushes are cut into frames too
  bool send_after_write = false;  // a message is delivered after the writes posted before it
  bool write_after_write = false;
  std::uint64_t window = 0;    // frames under way to one peer
  std::uint64_t buffered = 0;  // bytes that go on their way even if nobody calls the provider again
  std::uint64_t largest = 0;   // bytes of one operation
};

/// What this rank sends to one peer, in order: frames of small pushes, and between them large ones.
///
/// Nothing may be seen before what was pushed before it. Frames follow the writes before them by
/// the provider's order or by waiting for their completion. A write would overtake frames that the
/// peer has received but not applied, so it waits until the peer says that it has applied them.
/// Tagged messages need no such wait: the peer receives them in its own order.
///
/// Memory of a caller is only borrowed: it may be wanted back (detach) while the provider still
/// reads it, which nothing can stop. So what follows such a push, above all the flag that says that
/// the data are there, is sent only when the provider has done with it. If it is wanted back
/// before, the same bytes are sent once more, from a copy, in between.
///
/// What the provider calls sent may still be kept by it, behind what the network did not take yet:
/// it goes on in the provider's own progress only. So after some bytes the peer is asked whether it
/// has them, and what was pushed counts as sent when that has been answered.
class Sender {
 public:
  struct Route {
    std::size_t peer = 0;
    fi_addr_t address = FI_ADDR_UNSPEC;
    FrameHeader header;  // sender and token
  };

  Sender(OfiEndpoint& endpoint, FramePool& pool, const Rules& rules, Route route);

  /// The peer's hello has come: writes are possible.
  void set_remote(RemoteMemory memory) { remote_ = memory; }

  /// Queues the first message to the peer.
  void introduce(RemoteMemory own);
  /// A part of this rank's segment, of which `descriptor` is.
  void push(const std::byte* from, Bytes offset, Bytes length, void* descriptor);
  /// Memory of a caller. `sources` registers it; null: it needs no registration.
  void push_from(const std::byte* from, Bytes offset, Bytes length, RegisteredSources* sources);
  /// What the peer gets no longer depends on memory that was pushed from elsewhere.
  void detach();
  /// All that was pushed may go.
  void release();
  /// All that was pushed goes, and nothing after it.
  void say_goodbye();

  /// Sends what can be sent now. `applied`: how many of the peer's frames have been. Returns a
  /// negative error code other than -FI_EAGAIN when the peer cannot be reached, otherwise 0.
  long advance(std::uint64_t applied);
  void send_acknowledgement() { acknowledge_ = true; }
  /// Once the receiver has made half a window free, the peer must hear of it.
  bool owes_acknowledgement(std::uint64_t applied) const {
    return applied - told_ >= (rules_.window + 1) / 2;
  }

  void acknowledged(std::uint64_t applied) {
    acknowledged_ = std::max(acknowledged_, std::min(applied, sent_));
    if (acknowledged_ == sent_) bytes_since_query_ = 0;
  }
  /// One of its operations has ended.
  void completed(Operation& operation);

  /// Whether all that was pushed is on its way, whatever this rank does next, and its memory is
  /// read no more.
  bool all_sent() const { return idle() && acknowledged_ >= asked_; }
  /// Whether nothing waits and no operation is under way.
  bool idle() const { return items_.empty() && in_flight_ == 0 && !acknowledge_ && !query_due_; }
  /// Whether the peer is known to have applied all.
  bool all_applied() const { return items_.empty() && sent_ == acknowledged_; }
  /// Forgets what waits: nobody will take it. Acknowledgements are sent all the same.
  void abandon();

 private:
  /// A push that is not copied.
  struct Large : Operation {
    Large(Kind what, std::size_t with) : Operation(what, with) {}
    const std::byte* from = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    void* descriptor = nullptr;
    std::shared_ptr<const MemoryKeys> registration;  // null: it is the segment's, or needs none
    bool borrowed = false;                           // it is read where a caller may want it back
    bool repeated = false;                           // it was, while it was being sent
    std::unique_ptr<std::byte[]> saved;              // what `from` points to
    Registration of_saved;
  };
  struct Waiting {
    Frame* frame = nullptr;        // either this
    std::unique_ptr<Large> large;  // or that
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
  std::uint64_t asked_ = 0;              // frames whose application the peer has been asked to tell
  std::uint64_t bytes_since_query_ = 0;  // bytes since then
  std::uint64_t told_ = 0;               // what the peer last heard of its own frames
  std::uint64_t payloads_ = 0;           // tagged messages: the peer counts them as well
  std::size_t in_flight_ = 0;            // operations
  std::size_t writes_ = 0;               // of these
  std::size_t borrowed_ = 0;             // of these
  bool after_large_ = false;             // the next frame is the first after a large push
  bool acknowledge_ = false;
  bool query_due_ = false;
};

}  // namespace capstan::ofi
