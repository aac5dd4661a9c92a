// SPDX-License-Identifier: Apache-2.0

// A new rank joins a communicator that grows.

#include <fmt/format.h>

#include <exception>

#include "capstan/error.hpp"
#include "core/engine/world/build_world.hpp"
#include "core/engine/world/growth.hpp"
#include "core/engine/world/make_transport.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

std::string text_of(std::string_view why) {
  return fmt::format("a new rank could not join a communicator that grows: {}", why);
}

Member take_part(const MeetingSeat& seat, const Settings& settings) {
  JobStore& store = *seat.store;
  WatchedStore watched{store, [&] { require_hope(store); }};
  try {
    Member made = build_world(
        {watched, Rank{seat.rank}, seat.growth.after, growth_deadline(settings)}, settings);
    await_outcome(store, seat.rank, Deadline::in(settings.timeout));
    return made;
  } catch (const std::exception& error) {
    report_failure(store, error.what());
    throw;
  }
}

}  // namespace

Member join_growing_world(const MeetingPlace& place, int rank, const Settings& settings) {
  check_times(settings);
  try {
    const MeetingPoint meeting = meeting_at(place, settings.secret);
    load_network(settings);  // while members are not here yet: they would all wait for it
    return take_part(take_seat(meeting, rank, Deadline::in(settings.join_timeout)), settings);
  } catch (const TimedOut& error) {
    throw BootstrapError(text_of(error.what()), ErrorCode::join_timed_out);
  } catch (const BootstrapError& error) {
    throw BootstrapError(text_of(error.what()), error.code());
  } catch (const SystemError& error) {
    throw SystemError(text_of(error.what()));
  } catch (const std::bad_alloc&) {
    throw out_of_memory(text_of("it got no memory"));
  }
}

}  // namespace capstan
