// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "transports/ofi/frame_pool.hpp"
#include "transports/ofi/ofi_endpoint.hpp"

namespace capstan::ofi {

/// Receives from one peer: applies its frames to its mirror, in order. A frame that announces a
/// tagged message, and all frames after it, wait until that message is in the mirror.
class Receiver {
 public:
  struct Route {
    Rank peer;
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::byte* mirror = nullptr;
    std::uint64_t segment = 0;
    void* descriptor = nullptr;  // of the mirror
  };

  Receiver(OfiEndpoint& endpoint, FramePool& pool, Route route);

  /// Takes a received frame of data, which goes back to the pool once applied.
  void take(Frame& frame, std::size_t size);
  /// A tagged message has been received into the mirror, or has failed.
  void landed(bool well);
  /// The peer queries when its frame `number` has been applied.
  void query(std::uint64_t number) { asked_ = std::max(asked_, number); }

  /// Applies what can be applied. Returns a negative error code when the provider refuses to
  /// receive, otherwise 0.
  long advance();

  /// The number of frames that have been taken, which is that of the last one.
  std::uint64_t taken() const { return taken_; }
  std::uint64_t applied() const { return applied_; }
  /// Whether a query has to be answered now; true once per query.
  bool answer_due();
  bool has_left() const { return left_; }
  /// The peer's violation of the protocol, if any.
  const std::optional<std::string>& violation() const { return violation_; }
  bool landing() const { return landing_; }

 private:
  struct Held {
    Frame* frame;
    std::size_t size;
  };
  long apply_front();
  long post_landing(const RecordReader::Item& item);
  void finish_front();

  OfiEndpoint& endpoint_;
  FramePool& pool_;
  const Route route_;
  Operation landing_operation_;

  std::deque<Held> held_;                   // in the order of their numbers
  std::optional<RecordReader> reader_;      // of the first held frame
  std::optional<RecordReader::Item> next_;  // a tagged record whose receive could not be posted yet
  bool landing_ = false;
  bool left_ = false;
  std::uint64_t taken_ = 0;    // frames
  std::uint64_t applied_ = 0;  // frames
  std::uint64_t landings_ = 0;
  std::uint64_t asked_ = 0;     // the number of the last frame that the peer queried
  std::uint64_t answered_ = 0;  // the number of the last query that was answered
  std::optional<std::string> violation_;
};

}  // namespace capstan::ofi
