// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/thread_transport.hpp"

#include <fmt/format.h>

#include <cstring>

#include "capstan/error.hpp"
#include "transports/common/mapping.hpp"
#include "transports/shm/mapped_transport.hpp"

namespace capstan {
namespace {

/// The state that one rank shares with the others.
struct RankState {
  RankState(Bytes size, bool has_bell)
      : bell(has_bell ? shm::make_bell() : FileDescriptor{}), segment(Mapping::anonymous(size)) {}
  FileDescriptor bell;
  shm::Header header;
  Mapping segment;
};

using Arena = std::vector<std::unique_ptr<RankState>>;

class ThreadTransport final : public shm::MappedTransport {
 public:
  ThreadTransport(Rank self, std::shared_ptr<const Arena> arena, Bytes segment)
      : ThreadTransport(self, *(*arena)[static_cast<std::size_t>(self.value())], arena, segment) {}
  ~ThreadTransport() override { state_of(self()).header.left.store(1, std::memory_order_release); }

  std::string_view name() const override { return "threads"; }
  Address address() const override { return {}; }
  void connect(std::span<const Address>, Deadline) override {}

  bool read_remote(Rank, std::uint64_t address, void* to, Bytes size) override {
    std::memcpy(to, reinterpret_cast<const void*>(address), size.value());
    return true;
  }

  bool write_remote(Rank, std::uint64_t address, const void* from, Bytes size) override {
    std::memcpy(reinterpret_cast<void*>(address), from, size.value());
    return true;
  }

  bool shares_addresses() const override { return true; }

  std::optional<std::string> departed(Rank peer) override {
    if (state_of(peer).header.left.load(std::memory_order_acquire) == 0) return std::nullopt;
    return fmt::format("the thread of rank {} has destroyed its transport", peer.value());
  }

 private:
  ThreadTransport(Rank self, RankState& own, std::shared_ptr<const Arena> arena, Bytes segment)
      : MappedTransport(self, static_cast<int>(arena->size()), shm::Scope::process, own.header,
                        {own.segment.data(), segment.value()}, true, own.bell.get()),
        arena_(std::move(arena)) {
    for (int peer = 0; peer < static_cast<int>(ranks()); ++peer) {
      RankState& theirs = state_of(Rank{peer});
      set_link(Rank{peer}, theirs.segment.data(), theirs.header, theirs.bell.get());
    }
  }

  RankState& state_of(Rank rank) const { return *(*arena_)[index(rank)]; }

  std::shared_ptr<const Arena> arena_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(int ranks, Bytes segment,
                                                               bool bells) {
  if (ranks < 1)
    throw InvalidArgument(fmt::format("{} ranks were asked for; 1 is the least", ranks));
  require_segment_size(segment);

  auto arena = std::make_shared<Arena>();
  for (int rank = 0; rank < ranks; ++rank)
    arena->push_back(std::make_unique<RankState>(segment, bells));
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(std::make_unique<ThreadTransport>(Rank{rank}, arena, segment));
  }
  return transports;
}

}  // namespace capstan
