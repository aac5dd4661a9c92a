// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/allocate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan::shared {
namespace {

/// A rank's answer when ranks tell each other of their allocations.
struct Report {
  SharedMemory::Announcement allocation;
  std::uint64_t failed = 0;
};

/// One rank's side of an allocation that all ranks make together: it fails on all ranks or on none.
///
///   make  ->  exchange reports  ->  map those of peers  ->  agree whether all could  ->  announce
///
/// Descriptors stay open only until all ranks have agreed: nothing listens, nothing is left behind.
class JointAllocation {
 public:
  JointAllocation(Engine& engine, Bytes size)
      : engine_(engine), exchange_(engine), memory_(*engine.shared().memory), size_(size) {}

  std::shared_ptr<std::byte> run() {
    make();
    exchange_reports();
    const bool all_see =
        is_shared() && holds_everywhere(exchange_, view_peers(), "views", Purpose::allocate);
    if (all_see) engine_.expect_shared_buffers();
    if (!made_.allocation) return nullptr;
    made_.allocation->close_descriptor();
    if (all_see) memory_.announce(made_, engine_.world_ranks().elements());
    return {made_.allocation, made_.allocation->bytes().data()};
  }

 private:
  /// Not between hosts: network cards would register shared memory anew for each use.
  bool is_shared() const {
    return engine_.machine().hosts.single() && !engine_.machine().threads && engine_.size() > 1;
  }

  void make() {
    if (size_ == Bytes{0}) return;
    try {
      made_ = memory_.make(size_, is_shared() ? Kind::shared : Kind::own);
    } catch (const Error& error) {
      trouble_ = error.what();
    }
  }

  Report own_report() const {
    Report report{.allocation = {}, .failed = trouble_.empty() ? 0u : 1u};
    if (!made_.allocation || !is_shared()) return report;
    const Allocation& own = *made_.allocation;
    report.allocation = {.address = reinterpret_cast<std::uint64_t>(own.bytes().data()),
                         .size = own.bytes().size(),
                         .token = own.token(),
                         .id = made_.id,
                         .process = ::getpid(),
                         .descriptor = own.descriptor()};
    return report;
  }

  /// Throws on every rank if one of them has no memory.
  void exchange_reports() {
    reports_ = gather_answers(exchange_, own_report(), "allocation", Purpose::allocate);
    if (!trouble_.empty())
      throw LimitReached(
          fmt::format("rank {}: allocate({} bytes): {}", engine_.rank(), size_.value(), trouble_));
    const auto failed =
        std::ranges::find_if(reports_, [](const Report& report) { return report.failed; });
    if (failed != reports_.end())
      throw LimitReached(
          fmt::format("rank {}: allocate({} bytes): rank {} could not allocate, see "
                      "its error; no rank has got anything",
                      engine_.rank(), size_.value(), failed - reports_.begin()));
  }

  bool view_peers() {
    const Progress::Lock lock{*engine_.progress()};
    memory_.drop_free_views();
    bool all = true;
    for (int peer = 0; peer < engine_.size(); ++peer) {
      const auto& theirs = reports_[Rank{peer}].allocation;
      if (peer == engine_.rank() || theirs.size == 0) continue;
      const int owner = engine_.world_ranks()[Rank{peer}];
      all = memory_.add_view(owner, theirs) && all;
    }
    return all;
  }

  Engine& engine_;
  CollectiveExchange exchange_;
  SharedMemory& memory_;
  const Bytes size_;
  SharedMemory::Made made_;
  std::string trouble_;
  ByRank<Report> reports_;
};

}  // namespace

std::shared_ptr<std::byte> allocate(Engine& engine, Bytes size) {
  return JointAllocation{engine, size}.run();
}

}  // namespace capstan::shared
