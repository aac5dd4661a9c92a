// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/executor/host_executor.hpp"
#include "core/engine/executor/host_plan.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "tests/unit/interrupted_transport.hpp"
#include "tests/unit/reading_transport.hpp"
#include "transports/loopback/loopback_transport.hpp"
#include "transports/shm/thread_transport.hpp"

namespace capstan {

/// How the ranks of a test see each other's segments. `interrupted`: shared, but buffers of peers
/// are read by Transport::read_remote(), and ExecutorWorld::at_read is called during each read.
/// `read_by_cards`: mirrored, and network cards read what ranks expose.
enum class Memory { shared, mirrored, interrupted, read_by_cards };

/// Ranks without a communicator, all driven by the thread of the test: what a part of the executor
/// waits for comes only when the test lets the peer do it.
class ExecutorWorld {
 public:
  InterruptedTransport::Interruption at_read;
  Cards cards;

  using Transports = std::vector<std::unique_ptr<Transport>>;
  /// Makes and connects a transport for each rank.
  using MakeTransports = std::function<Transports(int ranks, Bytes segment)>;

  explicit ExecutorWorld(int ranks, Memory memory = Memory::shared, Bytes message_area = {})
      : hosts_(is_mirrored(memory) ? Hosts{hosts_of_their_own(ranks)} : Hosts{ranks}),
        layout_(ranks, SlotLayout{ranks, Bytes{64 << 10}}, message_area),
        transports_(is_mirrored(memory) ? make_loopback_transports(ranks, layout_.total())
                                        : make_thread_transports(ranks, layout_.total())) {
    if (memory == Memory::interrupted)
      for (auto& transport : transports_)
        transport = std::make_unique<InterruptedTransport>(std::move(transport), at_read);
    if (memory == Memory::read_by_cards)
      for (auto& transport : transports_)
        transport = std::make_unique<ReadingTransport>(std::move(transport), cards);
    std::vector<Address> addresses;
    for (const auto& transport : transports_) addresses.push_back(transport->address());
    for (const auto& transport : transports_) transport->connect(addresses, Deadline::never());
    make_peers();
  }
  /// Each rank is on a host of its own.
  ExecutorWorld(int ranks, const MakeTransports& make, Bytes message_area)
      : hosts_(hosts_of_their_own(ranks)),
        layout_(ranks, SlotLayout{ranks, Bytes{64 << 10}}, message_area),
        transports_(make(ranks, layout_.total())) {
    make_peers();
  }

  int ranks() const { return static_cast<int>(peers_.size()); }
  const SegmentLayout& layout() const { return layout_; }
  Peers& peers(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  /// The plan of one rank, in blocks of at most `block` bytes.
  HostPlan plan(int rank, const Call& call, std::string_view algorithm, Protocol protocol,
                Bytes block = Bytes{1 << 20}) const {
    const Choice choice{.algorithm = &algorithm_named(call.collective, algorithm),
                        .protocol = protocol};
    return HostPlan{make_plan(call, choice, hosts_, Rank{rank},
                              {.block = block, .cached_buffers = Bytes{8 << 20}}, layout_.slots())};
  }

 private:
  void make_peers() {
    std::vector<int> world_ranks(transports_.size());
    std::iota(world_ranks.begin(), world_ranks.end(), 0);
    for (const int rank : world_ranks) {
      Transport& transport = *transports_[static_cast<std::size_t>(rank)];
      memories_.push_back(std::make_shared<shared::SharedMemory>(Bytes{1 << 20}));
      peers_.push_back(std::make_unique<Peers>(transport, transport, *memories_.back(), world_ranks,
                                               Rank{rank}));
    }
  }
  static bool is_mirrored(Memory memory) {
    return memory == Memory::mirrored || memory == Memory::read_by_cards;
  }
  static std::vector<int> hosts_of_their_own(int ranks) {
    std::vector<int> host_of(static_cast<std::size_t>(ranks));
    std::iota(host_of.begin(), host_of.end(), 0);
    return host_of;
  }

  const Hosts hosts_;
  const SegmentLayout layout_;
  Transports transports_;
  std::vector<std::shared_ptr<shared::SharedMemory>> memories_;
  std::vector<std::unique_ptr<Peers>> peers_;
};

inline constexpr int few_spins = 4;

inline Call f32_call(Collective collective, std::uint64_t count) {
  return {.collective = collective, .type = DataType::f32, .shape = {.count = Elements{count}}};
}

}  // namespace capstan
