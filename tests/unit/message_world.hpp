// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/engine/control/peers.hpp"
#include "core/engine/messages/messages.hpp"
#include "tests/unit/executor_world.hpp"

namespace capstan {

inline constexpr Bytes ring{4 << 10}, eager{1 << 10};

/// A message on its way, with its buffer.
struct Transfer {
  std::vector<std::uint8_t> data;
  std::shared_ptr<Messages::MessageTransfer> pointer;
  bool finished = false;
  std::exception_ptr error;
  MessageInfo info{};
};

/// Ranks that exchange messages.
class MessageWorld {
 public:
  MessageWorld(int ranks, Memory memory, std::vector<Bytes> limits, bool read_remote = true)
      : world_(ranks, memory, Messages::area(ranks, ring)) {
    make_ranks(limits, read_remote, memory);
  }
  MessageWorld(int ranks, const ExecutorWorld::MakeTransports& make, Bytes limit)
      : world_(ranks, make, Messages::area(ranks, ring)) {
    make_ranks({limit}, true, Memory::shared);
  }
  ~MessageWorld() {
    for (const auto& messages : ranks_) messages->fail_all(nullptr);
  }

  ExecutorWorld& base() { return world_; }
  Messages& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<Transfer> send(int from, int to, int tag, std::vector<std::uint8_t> data) {
    const auto transfer = make(to, tag, std::move(data));
    at(from).send(transfer->pointer);
    return transfer;
  }
  std::shared_ptr<Transfer> receive(int at_rank, int from, int tag, std::size_t most = 1 << 16) {
    const auto transfer = make(from, tag, std::vector<std::uint8_t>(most, 0xee));
    at(at_rank).receive(transfer->pointer);
    return transfer;
  }

  /// One rank does what it can.
  bool advance(int rank) {
    Transport& transport = world_.peers(rank).transport();
    transport.progress();
    const bool moved = at(rank).advance();
    transport.progress();
    return moved;
  }
  /// All ranks do, until nothing has moved for some rounds.
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      bool moved = false;
      for (int rank = 0; rank < world_.ranks(); ++rank) moved |= advance(rank);
      quiet = moved ? 0 : quiet + 1;
    }
  }

  /// A transfer that has not been started.
  static std::shared_ptr<Transfer> make(int peer, int tag, std::vector<std::uint8_t> data) {
    auto transfer = std::make_shared<Transfer>();
    transfer->data = std::move(data);
    transfer->pointer = std::make_shared<Messages::MessageTransfer>();
    transfer->pointer->peer = peer;
    transfer->pointer->tag = tag;
    transfer->pointer->data = reinterpret_cast<std::byte*>(transfer->data.data());
    transfer->pointer->size = transfer->data.size();
    transfer->pointer->finished = [transfer](const std::exception_ptr& error,
                                             const MessageInfo& info) {
      transfer->error = error;
      transfer->info = info;
      transfer->finished = true;
    };
    return transfer;
  }

 private:
  void make_ranks(const std::vector<Bytes>& limits, bool read_remote, Memory memory) {
    for (int rank = 0; rank < world_.ranks(); ++rank)
      ranks_.push_back(std::make_unique<Messages>(
          world_.peers(rank), world_.layout().messages(),
          Messages::Options{.ring = ring,
                            .eager = eager,
                            .read_remote = read_remote,
                            .reads_alone = memory == Memory::interrupted,
                            .unexpected = limits[static_cast<std::size_t>(rank) % limits.size()]}));
  }

  ExecutorWorld world_;
  std::vector<std::unique_ptr<Messages>> ranks_;
};

inline std::vector<std::uint8_t> filled(std::size_t size, int with) {
  return std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(with));
}

/// The number of transfers that have finished. Expects that none has an error.
template <class Transfers>
int finished(const Transfers& transfers) {
  for (const auto& transfer : transfers) EXPECT_EQ(transfer->error, nullptr);
  return static_cast<int>(
      std::ranges::count_if(transfers, [](const auto& transfer) { return transfer->finished; }));
}

}  // namespace capstan
