#include "core/world/allocate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/progress.hpp"

namespace capstan::shared {
namespace {

/// What a rank tells the others of its allocation.
struct Card {
  SharedMemory::Announcement allocation;
  std::uint64_t failed = 0;
};

/// One rank's side of an allocation that all ranks make together: nobody has one unless all have.
///
///   make  ->  exchange cards  ->  view those of peers  ->  agree whether all could  ->  announce
///
/// Descriptors need to stay open only until all have agreed: nothing listens, nothing is kept.
class JointAllocation {
 public:
  JointAllocation(Engine& engine, Bytes size)
      : engine_(engine), memory_(*engine.shared().memory), size_(size) {}

  std::shared_ptr<std::byte> run() {
    make();
    exchange_cards();
    const bool all_see = is_shared() && agree(view_peers());
    if (all_see) engine_.expect_shared_buffers();
    if (!made_.allocation) return nullptr;
    made_.allocation->close_descriptor();
    if (all_see) memory_.announce(made_, engine_.world_ranks());
    return {made_.allocation, made_.allocation->bytes().data()};
  }

 private:
  /// Between hosts, network cards would register memory anew for each use if it were shared.
  bool is_shared() const {
    return engine_.placement().hosts.single() && !engine_.is_of_threads() && engine_.size() > 1;
  }

  void make() {
    if (size_ == Bytes{0}) return;
    try {
      made_ = memory_.make(size_, is_shared() ? Kind::shared : Kind::own);
    } catch (const Error& error) {
      trouble_ = error.what();
    }
  }

  Card own_card() const {
    Card card{.allocation = {}, .failed = trouble_.empty() ? 0u : 1u};
    if (!made_.allocation || !is_shared()) return card;
    const Allocation& own = *made_.allocation;
    card.allocation = {.address = reinterpret_cast<std::uint64_t>(own.bytes().data()),
                       .size = own.bytes().size(),
                       .token = own.token(),
                       .id = made_.id,
                       .process = ::getpid(),
                       .descriptor = own.descriptor()};
    return card;
  }

  /// Throws on every rank if one of them has no memory.
  void exchange_cards() {
    const Card own = own_card();
    cards_.resize(static_cast<std::size_t>(engine_.size()));
    engine_.run(call(Collective::all_gather, ReduceOp::sum, sizeof(Card)), &own, cards_.data());
    if (!trouble_.empty())
      throw LimitReached(
          fmt::format("rank {}: allocate({} bytes): {}", engine_.rank(), size_.value(), trouble_));
    const auto failed = std::ranges::find_if(cards_, [](const Card& card) { return card.failed; });
    if (failed != cards_.end())
      throw LimitReached(
          fmt::format("rank {}: allocate({} bytes): rank {} could not allocate, see "
                      "its error; no rank has got anything",
                      engine_.rank(), size_.value(), failed - cards_.begin()));
  }

  bool view_peers() {
    const Progress::Lock lock{*engine_.progress()};
    memory_.drop_free_views();
    bool all = true;
    for (int peer = 0; peer < engine_.size(); ++peer) {
      const auto& theirs = cards_[static_cast<std::size_t>(peer)].allocation;
      if (peer == engine_.rank() || theirs.size == 0) continue;
      const int owner = engine_.world_ranks()[static_cast<std::size_t>(peer)];
      all = memory_.add_view(owner, theirs) && all;
    }
    return all;
  }

  /// Whether all ranks say so.
  bool agree(bool own) {
    const std::uint8_t word = own ? 1 : 0;
    std::uint8_t all = 0;
    engine_.run(call(Collective::all_reduce, ReduceOp::min, 1), &word, &all);
    return all != 0;
  }

  static Call call(Collective collective, ReduceOp op, std::size_t bytes) {
    return {.collective = collective,
            .type = DataType::u8,
            .op = op,
            .shape = {.count = Elements{bytes}},
            .purpose = Purpose::allocate};
  }

  Engine& engine_;
  SharedMemory& memory_;
  const Bytes size_;
  SharedMemory::Made made_;
  std::string trouble_;
  std::vector<Card> cards_;
};

}  // namespace

std::shared_ptr<std::byte> allocate(Engine& engine, Bytes size) {
  return JointAllocation{engine, size}.run();
}

}  // namespace capstan::shared
