// SPDX-License-Identifier: Apache-2.0

// A communicator grows: its members and new ranks, which meet in a store, make a new world. Members
// agree before and after, as those that are left of a communicator do: all have it or none.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/world/build_world.hpp"
#include "core/engine/world/growth.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// New ranks that live read at once what became of them.
constexpr std::chrono::milliseconds longest_goodbye = 10s;

/// The arguments of a member, as the others see them.
struct Wish {
  enum class Place : std::uint32_t { none, id, name };

  std::int32_t joiners = 0;
  std::uint32_t can_host = 0;
  Place place = Place::none;
  UniqueId id{};
  char name[256]{};

  Wish() = default;
  Wish(int count, const MeetingPlace& where) : joiners(count) {
    if (where.id) {
      place = Place::id;
      id = *where.id;
    } else if (!where.name.empty()) {
      place = Place::name;
      where.name.copy(name, sizeof name - 1);
    }
  }
  bool same_place(const Wish& other) const {
    return place == other.place && id == other.id && std::strcmp(name, other.name) == 0;
  }
};
static_assert(sizeof(Wish) <= SurvivorRecord::announcement_bytes);

/// One member's side.
class Grow {
 public:
  Grow(Engine& engine, const Growing& growing)
      : engine_(engine),
        survivors_(engine.survivors()),
        turn_(survivors_, Survivors::Call::grow, patience(engine.settings())),
        had_failed_(engine.failure().has_value()),
        growing_(growing),
        growth_{engine.size(), engine.size() + growing.joiners} {}

  Member run() {
    agree();  // all have come
    agree_on_wishes();
    const Progress::Forming told{*engine_.progress(), world_ranks()};
    deadline_ = growth_deadline(engine_.settings());
    open_store();
    attempt([&] { build(); });
    const bool grown = agree(!trouble_);
    if (speaks()) say(grown);
    if (!grown) fail();
    return std::move(*made_);
  }

 private:
  /// A rank that lives comes back from the store by the deadline, and from the blame of those that
  /// are missing a little later.
  static std::chrono::milliseconds patience(const Settings& settings) {
    return settings.timeout > longest_time_limit / 3 ? settings.timeout : 2 * settings.timeout + 5s;
  }

  /// Throws alike on all members where one is gone.
  bool agree(bool agrees = true, std::span<const std::byte> announcement = {}) {
    const auto opinion = survivors_.agree(agrees, {}, announcement);
    if (!opinion.gone.empty()) {
      const Rank gone = opinion.gone.begin()->first;
      if (speaks()) say(false);
      throw PeerLost(gone,
                     fmt::format("rank {}: grow(): rank {} is gone: call shrink() first, and then "
                                 "grow() of what that gives",
                                 engine_.rank(), gone.value()));
    }
    if (opinion.mixed()) {
      if (const auto failure = engine_.failure()) failure->raise();
      throw Mismatch(fmt::format("rank {}: grow(): other ranks call shrink(): do the same here",
                                 engine_.rank()));
    }
    return opinion.agrees;
  }

  /// Notes what goes wrong in a step: whether all could take it is agreed on later.
  template <class Step>
  void attempt(const Step& step) {
    if (trouble_) return;
    try {
      step();
    } catch (const std::exception&) {
      trouble_ = std::current_exception();
    }
  }

  void agree_on_wishes() {
    Wish own;
    attempt([&] {
      if (growing_.joiners < 0)
        throw InvalidArgument(
            fmt::format("rank {}: grow() by {} new ranks", engine_.rank(), growing_.joiners));
      own = Wish{growing_.joiners, growing_.place};
      if (own.place == Wish::Place::none) return;
      meeting_ = meeting_at(growing_.place, engine_.settings().secret);
      own.can_host = is_here(meeting_->endpoint) ? 1 : 0;
    });
    const bool all = agree(!trouble_, std::as_bytes(std::span{&own, 1}));
    ByRank<Wish> wishes;
    for (const Rank rank : all_ranks(engine_.size())) {
      Wish wish;
      std::memcpy(static_cast<void*>(&wish), survivors_.announcement_of(rank).data(), sizeof wish);
      wish.name[sizeof wish.name - 1] = 0;
      wishes.push_back(wish);
    }
    if (!all) fail();
    require_one_wish(wishes);
    choose_host(wishes);
  }

  /// Throws alike on all members.
  void require_one_wish(const ByRank<Wish>& wishes) {
    const auto refuse = [&](Rank rank, std::string_view what) {
      throw Mismatch(
          fmt::format("rank {}: grow(): ranks 0 and {} pass different {}: all ranks "
                      "pass the same; one may be alone to pass an id",
                      engine_.rank(), rank.value(), what));
    };
    const Wish* with_place = nullptr;
    for (const Rank rank : all_ranks(wishes.size())) {
      const Wish& wish = wishes[rank];
      if (wish.joiners != wishes[Rank{0}].joiners) refuse(rank, "numbers of new ranks");
      if (wish.place == Wish::Place::none) continue;
      if (with_place && !wish.same_place(*with_place)) refuse(rank, "places");
      with_place = &wish;
    }
    if (!with_place)
      throw InvalidArgument(
          fmt::format("rank {}: grow(): no rank passes the place where new ranks "
                      "are met: pass an id or a name",
                      engine_.rank()));
    for (const Rank rank : all_ranks(wishes.size()))
      if (with_place->place == Wish::Place::name && wishes[rank].place == Wish::Place::none)
        refuse(rank, "names, as it passes none");
    if (!meeting_) meeting_ = meeting_at({.id = with_place->id}, {});
  }

  void choose_host(const ByRank<Wish>& wishes) {
    if (meeting_->id) return;
    const auto host = std::ranges::find_if(wishes, [](const Wish& wish) { return wish.can_host; });
    if (host == wishes.end())
      throw InvalidArgument(
          fmt::format("rank {}: grow(): no member is on the host of the place \"{}\": name one "
                      "where a member is",
                      engine_.rank(), growing_.place.name));
    speaker_ = Rank{static_cast<int>(host - wishes.begin())};
  }

  /// The member that tells new ranks what becomes of them, and hosts the store unless an id has
  /// one.
  bool speaks() const { return speaker_ == Rank{engine_.rank()}; }

  void open_store() {
    if (meeting_->id) return;
    attempt([&] {
      if (speaks()) store_ = host_meeting(*meeting_, engine_.rank(), growth_.after, deadline_);
    });
    if (!agree(!trouble_)) fail();
  }

  void build() {
    if (!store_)
      store_ = attend_meeting(*meeting_, engine_.rank(), growth_.after, deadline_,
                              [&] { require_members(survivors_.objector()); });
    if (speaks()) announce_growth(*store_, growth_);
    WatchedStore watched{*store_, [&] { look(); }};
    try {
      made_ = build_world({watched, Rank{engine_.rank()}, growth_.after, deadline_},
                          engine_.settings());
    } catch (const std::exception& error) {
      report_failure(*store_, error.what());
      throw;
    }
  }

  /// Throws where the agreement to come will fail.
  void look() {
    const auto objector = survivors_.objector();
    require_hope(*store_);  // where the one that objects has said why
    require_members(objector);
  }

  void require_members(const std::optional<Rank>& objector) const {
    if (objector)
      throw BootstrapError(
          fmt::format("rank {} is gone, or could not grow: see its error", objector->value()));
    if (const auto failure = engine_.failure(); failure && !had_failed_) failure->raise();
  }

  void say(bool grown) noexcept {
    if (!store_) return;
    try {
      if (grown) report_success(*store_);
    } catch (const std::exception&) {  // new ranks see that the store is gone
    }
    if (!grown) report_failure(*store_, "the members have not grown: see their errors");
    const auto limit = std::min(engine_.settings().timeout, longest_goodbye);
    await_readers(*store_, growth_, Deadline::in(limit));
  }

  /// Errors of the program stay what they are, and all have an abort as what it is.
  [[noreturn]] void fail() {
    if (const auto failure = engine_.failure(); failure && !had_failed_) failure->raise();
    const auto text = [&](std::string_view why) {
      return fmt::format("rank {} could not grow its communicator to {} ranks: {}", engine_.rank(),
                         growth_.after, why);
    };
    if (!trouble_) throw BootstrapError(text("another member failed, see its error"));
    try {
      std::rethrow_exception(trouble_);
    } catch (const TimedOut& error) {
      throw BootstrapError(text(error.what()), ErrorCode::join_timed_out);
    } catch (const BootstrapError& error) {
      throw BootstrapError(text(error.what()), error.code());
    } catch (const SystemError& error) {
      throw SystemError(text(error.what()));
    } catch (const std::bad_alloc&) {
      throw LimitReached(text("it got no memory"));
    }
  }

  std::vector<Rank> world_ranks() const {
    std::vector<Rank> ranks;
    for (const int rank : engine_.world_ranks()) ranks.emplace_back(rank);
    return ranks;
  }

  Engine& engine_;
  Survivors& survivors_;
  const Survivors::Turn turn_;
  const bool had_failed_;
  const Growing& growing_;
  const Growth growth_;
  Deadline deadline_ = Deadline::never();
  std::optional<MeetingPoint> meeting_;
  Rank speaker_{};
  std::unique_ptr<JobStore> store_;
  std::optional<Member> made_;
  std::exception_ptr trouble_;
};

}  // namespace

Member make_grown(Member& parent, const Growing& growing) {
  return Grow{*parent.engine, growing}.run();
}

}  // namespace capstan
