// SPDX-License-Identifier: Apache-2.0

// The ranks that are left of a communicator form a group, though it may have failed.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/world/formation.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using Gone = Survivors::Gone;

/// Members that die while the group is formed are waited for so long, and twice as long when the
/// ranks that are left try again.
constexpr std::chrono::milliseconds first_patience{250};
constexpr int most_attempts = 8;

/// The ranks that are left of a communicator, as all of them see it.
class Shrink {
 public:
  Shrink(Engine& engine, const Shrinking& shrinking)
      : engine_(engine),
        survivors_(engine.survivors()),
        turn_(survivors_, Survivors::Call::shrink, engine.settings().timeout),
        minority_(shrinking.minority) {
    for (const Rank rank : shrinking.excluded) gone_[rank] = true;
  }

  Member run() {
    const Gone excluded = gone_;
    while (agreed(true).mixed()) gone_ = excluded;  // others are still in grow(), which fails there
    for (int attempt = 0;; ++attempt)
      if (auto member = form(first_patience * (1 << attempt), attempt + 1 == most_attempts))
        return std::move(*member);
  }

 private:
  Survivors::Opinion agreed(bool agrees, std::span<const std::byte> announcement = {}) {
    auto opinion = survivors_.agree(agrees, gone_, announcement);
    gone_ = opinion.gone;
    require_a_place();
    return opinion;
  }

  /// True where all could do what they had to, and nobody went meanwhile.
  bool agree(bool agrees, std::span<const std::byte> announcement = {}) {
    return agreed(agrees, announcement).agrees;
  }

  /// Nothing where ranks have to try again.
  std::optional<Member> form(std::chrono::milliseconds patience, bool last) {
    const std::vector<Rank> members = this->members();
    Formation formation{engine_, members};
    Announcement own;
    std::string trouble = trouble_in([&] { own = formation.open(); });
    own.shares_buffers = engine_.expects_shared_buffers() ? 1 : 0;
    const std::size_t before = gone_.size();
    if (!agree(trouble.empty(), std::as_bytes(std::span{&own, 1})))
      return again(before, trouble, true);
    std::vector<Announcement> announcements;
    for (const Rank member : members) {
      static_assert(sizeof(Announcement) == SurvivorRecord::announcement_bytes);
      std::memcpy(&announcements.emplace_back(), survivors_.announcement_of(member).data(),
                  sizeof(Announcement));
    }
    trouble = trouble_in([&] {
      const Progress::Forming told{*engine_.progress(), formation.world_ranks()};
      formation.connect(announcements, Deadline::in(patience));
    });
    if (!agree(trouble.empty())) return again(before, trouble, last);
    return formation.start(announcements, engine_.settings());
  }

  /// Throws where another attempt would fail, too: alike on all ranks.
  std::optional<Member> again(std::size_t gone_before, const std::string& trouble,
                              bool last) const {
    if (!last || gone_.size() > gone_before) return std::nullopt;
    throw BootstrapError(
        fmt::format("rank {}: the ranks that are left could not form a communicator: {}",
                    engine_.rank(), trouble.empty() ? "see the error of another rank" : trouble));
  }

  template <class Step>
  static std::string trouble_in(const Step& step) {
    try {
      step();
      return {};
    } catch (const Error& error) {
      return error.what();
    } catch (const std::bad_alloc&) {
      return "it got no memory";
    }
  }

  std::vector<Rank> members() const {
    std::vector<Rank> members;
    for (const Rank rank : all_ranks(engine_.size()))
      if (!gone_.contains(rank)) members.push_back(rank);
    return members;
  }

  /// Ranks that are only not heard may live, and may have agreed without these: the larger half
  /// continues, or of equal ones that with the lowest rank.
  void require_a_place() const {
    std::vector<Rank> unreachable;
    for (const auto& [rank, certain] : gone_)
      if (!certain) unreachable.push_back(rank);
    const std::vector<Rank> left = members();
    if (gone_.contains(Rank{engine_.rank()})) refuse(left, "the others take it for gone");
    if (minority_ || unreachable.empty()) return;
    const bool more = left.size() > unreachable.size();
    const bool first = left.size() == unreachable.size() && left.front() < unreachable.front();
    if (!more && !first)
      refuse(unreachable, "they cannot be reached, and may have continued without these ranks");
  }

  [[noreturn]] void refuse(const std::vector<Rank>& others, std::string_view why) const {
    std::vector<int> ranks;
    for (const Rank rank : others) ranks.push_back(rank.value());
    throw PeerLost(
        others.front(),
        fmt::format("rank {} cannot continue after ranks {}: {}. End this process; or, if "
                    "the others have certainly ended, pass minority_continues",
                    engine_.rank(), fmt::join(ranks, ", "), why));
  }

  Engine& engine_;
  Survivors& survivors_;
  const Survivors::Turn turn_;
  const bool minority_;
  Gone gone_;
};

}  // namespace

Member make_shrunk(Member& parent, const Shrinking& shrinking) {
  return Shrink{*parent.engine, shrinking}.run();
}

}  // namespace capstan
