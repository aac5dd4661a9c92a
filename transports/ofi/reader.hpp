// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/platform/memory/registration/registration_cache.hpp"
#include "transports/ofi/ofi_endpoint.hpp"
#include "transports/transport.hpp"

namespace capstan::ofi {

/// Reads memory that one peer has exposed, piece by piece.
///
/// libfabric cannot cancel a read: a piece in flight is written to this rank's memory until it
/// completes, or the endpoint ends. Therefore a read counts as failed only when none of its
/// pieces is in flight any more. Not thread-safe.
class Reader {
 public:
  using Keys = std::shared_ptr<const MemoryKeys>;

  /// No piece is longer than `longest`.
  Reader(OfiEndpoint& endpoint, Rank peer, fi_addr_t address, std::uint64_t longest);

  /// Begins a read, which advance() posts. `keys` are of the memory at `to`; null: it needs none.
  std::shared_ptr<RemoteRead> start(RemoteMemory from, std::byte* to, Bytes size, Keys keys);
  /// Posts what can be posted now. Returns a negative error code other than -FI_EAGAIN when the
  /// provider refuses, else 0.
  long advance();
  /// To be called when an operation of this reader has ended.
  void completed(Operation& operation, bool well);

  /// Posts nothing more: the peer is lost.
  void abandon();
  /// The endpoint has ended: nothing is written any more, and all reads have failed.
  void stop();

  /// Whether no read is under way.
  bool idle() const { return waiting_.empty() && in_flight_.empty(); }

 private:
  /// A read, and what is left of it to be posted.
  struct Reading {
    std::shared_ptr<RemoteRead> read;
    RemoteMemory from;
    std::byte* to;
    std::uint64_t length;
    Keys keys;
    std::size_t in_flight = 0;  // pieces
    bool broken = false;        // a piece has failed, or will not be posted
  };
  struct Piece : Operation {
    Piece(Rank with, std::shared_ptr<Reading> whole, std::uint64_t bytes)
        : Operation(Kind::read, with), reading(std::move(whole)), length(bytes) {}
    std::shared_ptr<Reading> reading;
    std::uint64_t length;
  };

  long post_piece();
  static void settle(Reading& reading);

  OfiEndpoint& endpoint_;
  const Rank peer_;
  const fi_addr_t address_;
  const std::uint64_t longest_;
  std::deque<std::shared_ptr<Reading>> waiting_;  // not wholly posted
  std::vector<std::unique_ptr<Piece>> in_flight_;
};

}  // namespace capstan::ofi
