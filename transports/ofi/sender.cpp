// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/sender.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "capstan/error.hpp"

namespace capstan::ofi {
namespace {

constexpr std::uint64_t smallest_large = 4 * frame_size;
constexpr std::size_t least_piece =
    256;  // a piece in a frame is not shorter, unless it is the last

/// Unique among the messages to one receiver.
std::uint64_t tag_of(std::int32_t sender, std::uint64_t number) {
  return static_cast<std::uint64_t>(sender) << 40 | (number & 0xff'ffff'ffff);
}

}  // namespace

Sender::Sender(OfiEndpoint& endpoint, FramePool& pool, const Rules& rules, Route route)
    : endpoint_(endpoint), pool_(pool), rules_(rules), route_(route) {}

void Sender::introduce(RemoteMemory own) {
  Frame& frame = pool_.take();
  std::memcpy(frame.data + frame.size, &own, sizeof(own));
  frame.size += sizeof(own);
  FrameHeader header = route_.header;
  header.kind = FrameHeader::Kind::hello;
  frame.set_header(header);
  items_.push_back({.frame = &frame, .large = nullptr});
}

bool Sender::copied(const std::byte* from, Bytes offset, Bytes length) {
  if (length.value() >= smallest_large && !rules_.copy_all) return false;
  copy(from, offset.value(), length.value());
  return true;
}

void Sender::push(const std::byte* from, Bytes offset, Bytes length, void* descriptor) {
  if (copied(from, offset, length)) return;
  for (std::uint64_t done = 0; done < length.value(); done += rules_.largest)
    refer(from + done, offset.value() + done, std::min(rules_.largest, length.value() - done),
          descriptor);
}

void Sender::push_from(const std::byte* from, Bytes offset, Bytes length,
                       RegisteredSources* sources) {
  if (copied(from, offset, length)) return;
  std::shared_ptr<const MemoryKeys> registration;
  try {
    if (sources) registration = sources->acquire(from, length);
  } catch (const InvalidArgument&) {  // the provider cannot have this memory
    return copy(from, offset.value(), length.value());
  }
  void* const descriptor = OfiEndpoint::descriptor_of(registration.get());
  for (std::uint64_t done = 0; done < length.value(); done += rules_.largest) {
    refer(from + done, offset.value() + done, std::min(rules_.largest, length.value() - done),
          descriptor);
    items_.back().large->registration = registration;
    items_.back().large->borrowed = true;
  }
}

void Sender::copy(const std::byte* from, std::uint64_t offset, std::uint64_t length) {
  while (length > 0) {
    Frame& frame = frame_with_room(sizeof(Record) + std::min<std::uint64_t>(length, least_piece));
    const std::uint64_t room = (frame.room() - sizeof(Record)) / 8 * 8;
    const std::uint64_t piece = std::min(length, room);
    frame.append({.offset = offset, .length = piece}, from);
    from += piece;
    offset += piece;
    length -= piece;
  }
}

void Sender::refer(const std::byte* from, std::uint64_t offset, std::uint64_t length,
                   void* descriptor) {
  auto large = make_large(offset, length);
  large->from = from;
  large->descriptor = descriptor;
  if (!rules_.writes) {  // announced at its place among the small pushes
    frame_with_room(sizeof(Record)).announce({.offset = offset, .length = length});
  }
  items_.push_back({.frame = nullptr, .large = std::move(large)});
}

std::unique_ptr<Sender::Large> Sender::make_large(std::uint64_t offset, std::uint64_t length) {
  const auto kind = rules_.writes ? Operation::Kind::write : Operation::Kind::payload;
  auto large = std::make_unique<Large>(kind, route_.peer);
  large->offset = offset;
  large->length = length;
  return large;
}

void Sender::detach() {
  for (const Waiting& item : items_)
    if (item.large && item.large->borrowed) save(*item.large);
  // In reverse, so that the first ends up in front.
  for (const auto& large : std::views::reverse(under_way_))
    if (large->borrowed && !std::exchange(large->repeated, true)) send_again(*large);
}

/// Makes a large push send from a copy of its bytes.
void Sender::save(Large& large) {
  large.saved = std::make_unique_for_overwrite<std::byte[]>(large.length);
  std::memcpy(large.saved.get(), large.from, large.length);
  large.from = large.saved.get();
  large.of_saved = endpoint_.register_source(large.from, Bytes{large.length});
  large.descriptor = large.of_saved.descriptor();
  large.registration.reset();
  large.borrowed = false;
}

/// Sends a copy of the bytes that the provider is still reading. The copy overwrites these bytes at
/// the peer before the peer learns of either.
void Sender::send_again(const Large& under_way) {
  auto large = make_large(under_way.offset, under_way.length);
  large->from = under_way.from;
  save(*large);
  Frame* announcement = nullptr;
  if (!rules_.writes) {
    announcement = &pool_.take();
    announcement->set_header(route_.header);
    announcement->announce({.offset = large->offset, .length = large->length});
  }
  items_.push_front({.frame = nullptr, .large = std::move(large)});
  if (announcement) items_.push_front({.frame = announcement, .large = nullptr});
}

/// The last item if it is a frame of data with room for `bytes`; otherwise a new frame, which waits
/// for release(). A released frame stays released when more joins it.
Frame& Sender::frame_with_room(std::size_t bytes) {
  if (!items_.empty() && items_.back().frame) {
    Frame& last = *items_.back().frame;
    if (last.header().kind == FrameHeader::Kind::data && last.room() >= bytes + 8) return last;
  }
  Frame& frame = pool_.take();
  frame.set_header(route_.header);
  items_.push_back({.frame = &frame, .large = nullptr});
  open_ = true;
  return frame;
}

void Sender::release() {
  open_ = false;
}

void Sender::say_goodbye() {
  Frame& frame = frame_with_room(0);
  FrameHeader header = frame.header();
  header.flags |= FrameHeader::goodbye | FrameHeader::answer_soon;
  frame.set_header(header);
  release();
}

bool Sender::may_send(const Waiting& item) {
  if (borrowed_ > 0 && !(item.large && item.large->borrowed)) return false;
  if (item.frame) {
    if (open_ && items_.size() == 1) return false;
    if (item.frame->header().kind == FrameHeader::Kind::hello) return true;
    return sent_ - acknowledged_ < rules_.window && (writes_ == 0 || rules_.send_after_write);
  }
  return item.large->kind == Operation::Kind::payload || may_write();
}

bool Sender::may_write() {
  if (sent_ == acknowledged_) return writes_ == 0 || rules_.write_after_write;
  if (asked_ < sent_) {
    query_due_ = true;
    asked_ = sent_;
  }
  return false;
}

long Sender::advance(std::uint64_t applied) {
  while (!items_.empty() && may_send(items_.front())) {
    const long result = send(items_.front(), applied);
    if (result != 0) return result == -FI_EAGAIN ? 0 : result;
    items_.pop_front();
  }
  if (!query_due_ && !(acknowledge_ && told_ < applied)) {
    acknowledge_ = false;
    return 0;
  }
  const long result = send_control(applied);
  return result == -FI_EAGAIN ? 0 : result;
}

long Sender::send(Waiting& item, std::uint64_t applied) {
  const long result = item.frame ? send_frame(*item.frame, applied) : send_large(*item.large);
  if (result != 0) return result;
  ++in_flight_;
  if (item.large) {
    if (item.large->kind == Operation::Kind::write) ++writes_;
    if (item.large->borrowed) ++borrowed_;
    under_way_.push_back(std::move(item.large));
  }
  return 0;
}

long Sender::send_frame(Frame& frame, std::uint64_t applied) {
  FrameHeader header = frame.header();
  const bool numbered = header.kind == FrameHeader::Kind::data;
  const bool may_stay = items_.size() == 1 && bytes_since_query_ + frame.size > rules_.buffered;
  header.number = numbered ? sent_ + 1 : 0;
  header.applied = applied;
  // The next large push would have to wait for this answer.
  if (numbered && (after_large_ || may_stay)) header.flags |= FrameHeader::answer_soon;
  frame.set_header(header);
  frame.kind = Operation::Kind::send;
  frame.peer = route_.peer;
  frame.seal(route_.key);
  const long result =
      endpoint_.send(route_.address, frame.data, frame.size, frame.descriptor, frame);
  if (result != 0) return result;
  if (numbered) ++sent_;
  bytes_since_query_ += frame.size;
  if ((header.flags & FrameHeader::answer_soon) != 0) {
    asked_ = sent_;
    bytes_since_query_ = 0;
  }
  after_large_ = false;
  told_ = applied;
  return 0;
}

long Sender::send_large(Large& large) {
  long result = 0;
  if (large.kind == Operation::Kind::write) {
    const RemoteMemory to{remote_.address + large.offset, remote_.key};
    const bool visible = !rules_.send_after_write || !rules_.write_after_write;
    result = endpoint_.write(route_.address, large.from, large.length, large.descriptor, to,
                             visible, large);
    if (result == 0) after_large_ = true;
  } else {
    result = endpoint_.send_tagged(route_.address, large.from, large.length, large.descriptor,
                                   tag_of(route_.header.sender, payloads_ + 1), large);
    if (result == 0) ++payloads_;
  }
  if (result == 0) bytes_since_query_ += large.length;
  return result;
}

long Sender::send_control(std::uint64_t applied) {
  Frame& frame = pool_.take();
  FrameHeader header = route_.header;
  header.kind = FrameHeader::Kind::acknowledge;
  header.number = query_due_ ? sent_ : 0;
  header.applied = applied;
  frame.set_header(header);
  frame.kind = Operation::Kind::send;
  frame.peer = route_.peer;
  frame.seal(route_.key);
  const long result =
      endpoint_.send(route_.address, frame.data, frame.size, frame.descriptor, frame);
  if (result != 0) return pool_.give_back(frame), result;
  ++in_flight_;
  told_ = applied;
  query_due_ = acknowledge_ = false;
  return 0;
}

void Sender::completed(Operation& operation) {
  --in_flight_;
  if (operation.kind == Operation::Kind::send)
    return pool_.give_back(static_cast<Frame&>(operation));
  if (operation.kind == Operation::Kind::write) --writes_;
  if (static_cast<Large&>(operation).borrowed) --borrowed_;
  std::erase_if(under_way_, [&](const auto& large) { return large.get() == &operation; });
}

void Sender::abandon() {
  for (Waiting& item : items_) {
    if (item.frame) pool_.give_back(*item.frame);
  }
  items_.clear();
  query_due_ = open_ = false;
  asked_ = acknowledged_;
}

}  // namespace capstan::ofi
