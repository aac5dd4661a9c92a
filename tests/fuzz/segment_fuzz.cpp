// SPDX-License-Identifier: Apache-2.0

// A peer writes arbitrary bytes into its segment: into rings, frames, records of calls, flags and
// the record of a failure. This rank must take them or end with an error of the library, without a
// bad access or unbounded memory.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "tests/hostile_peer.hpp"

namespace {

using namespace capstan;
using fuzz::require;

template <class Number>
Number number(fuzz::Source& source) {
  Number value{};
  const auto bytes = source.bytes(sizeof value);
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

class Rank0 {
 public:
  void step(fuzz::Source& source) {
    switch (source.byte() % 10) {
      case 0:
        return overwrite(source);
      case 1:
        return world_->put(frame(source), source.bytes(source.byte() * 4u));
      case 2:
        return world_->put_bytes(source.bytes(source.byte()));
      case 3:
        return world_->publish(number<std::uint64_t>(source));
      case 4:
        return world_->say_consumed(number<std::uint64_t>(source));
      case 5:
        return start(source, false);
      case 6:
        return start(source, true);
      case 7:
        return call(source);
      case 8:
        return look();
      default:
        world_->messages().advance();
        world_->messages().probe(any_source, any_tag);
    }
  }
  void end() {
    // A thread that is using a buffer is waited for without a limit: threads trust each other.
    world_->hostile_control().uses_peer_buffers = 0;
    world_->messages().fail_all(std::make_exception_ptr(Aborted("the end")));
    require(finished_ == started_);
  }

 private:
  /// Bytes anywhere in the peer's segment.
  void overwrite(fuzz::Source& source) {
    const std::size_t at = number<std::uint16_t>(source) * 2 % HostileWorld::segment_bytes();
    const auto bytes = source.bytes(source.byte());
    std::memcpy(world_->hostile_segment() + at, bytes.data(),
                std::min(bytes.size(), HostileWorld::segment_bytes() - at));
  }

  /// A frame that is good but for what the input says.
  static MessageFrame frame(fuzz::Source& source) {
    MessageFrame frame;
    frame.kind = static_cast<MessageFrame::Kind>(source.byte() % 8);
    frame.tag = static_cast<std::int8_t>(source.byte());
    frame.payload = source.byte() * 4u;
    frame.size = source.byte() % 2 ? frame.payload : number<std::uint16_t>(source);
    frame.id = source.byte() % 4;
    frame.type_number = static_cast<std::uint8_t>(source.byte() % 32);
    return frame;
  }

  void start(fuzz::Source& source, bool sends) {
    auto transfer = std::make_shared<Messages::MessageTransfer>();
    buffers_.emplace_back(number<std::uint16_t>(source) % 6000);
    transfer->peer = sends ? 1 + source.byte() % 2 : source.byte() % 2 ? any_source : 1;
    transfer->tag = sends ? source.byte() % 3 : source.byte() % 2 ? any_tag : 0;
    transfer->data = buffers_.back().data();
    transfer->size = buffers_.back().size();
    if (source.byte() % 2) transfer->type = all_data_types()[source.byte() % 4];
    transfer->finished = [this](std::exception_ptr, const MessageInfo&) { ++finished_; };
    ++started_;
    sends ? world_->messages().send(transfer) : world_->messages().receive(transfer);
  }

  void call(fuzz::Source& source) {
    const CallMark mark{.signature = number<std::uint64_t>(source), .count = source.byte()};
    require(!to_string(mark).empty());
    world_->log().begin(mark, mark.digest(), nullptr);
    world_->log().agrees(Rank{1});
  }

  void look() {
    if (const auto failure = read(world_->hostile_control().abort, 3)) {
      require(failure->text.size() <= AbortRecord::text_bytes);
      require(failure->kind != Failure::Kind::none && failure->kind <= Failure::Kind::aborted);
      require(failure->kind == Failure::Kind::aborted || failure->lost < Rank{3});
    }
    world_->log().input_of(Rank{1});
    world_->log().compare(Rank{1}, world_->hostile_control().finished);
    world_->log().compare_all();
  }

  std::vector<std::vector<std::byte>> buffers_;
  std::size_t started_ = 0, finished_ = 0;
  std::unique_ptr<HostileWorld> world_ = std::make_unique<HostileWorld>();
};

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string receive{"\x05\x00\x08\x01\x01\x00", 6}, advance{"\x09"};
  const std::string eager{
      "\x01\x00\x00\x01\x01\x00\x00\x01"
      "ABCD",
      12};
  const std::string offer{"\x01\x01\x00\x00\x00\x58\x02\x02\x00\x00", 10};
  const std::string call{"\x07\x01\x02\x03\x04\x05\x06\x07\x08\x09", 10};
  const std::string send{"\x06\x70\x17\x01\x00\x00", 6},
      answer{"\x01\x03\x00\x00\x01\x01\x00\x00", 8};
  return {receive + eager + advance, receive + offer + advance + advance, call + "\x08",
          send + answer + advance};
}

/// Steps of both ranks, each with its arguments.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  Rank0 rank;
  try {
    while (!source.empty()) rank.step(source);
  } catch (const Error&) {  // what a peer that writes such things is meant to end in
  }
  rank.end();
  return 0;
}
