// SPDX-License-Identifier: Apache-2.0

// How a process joins the world that a launcher or a program sets up.

#include <fmt/format.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "capstan/error.hpp"
#include "core/bootstrap/join.hpp"
#include "core/engine/world/build_world.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

/// A world of one rank needs no store.
Member build_alone(const Settings& settings) {
  return std::move(make_thread_world(1, settings).front());
}

/// Names this rank in errors of start-up.
template <class Join>
Member naming(int rank, int size, Join join) {
  const auto own_text = [&](std::string_view reason) {
    return fmt::format("rank {} of {} could not join the world: {}", rank, size, reason);
  };
  const auto text = [&](const Error& error) { return own_text(error.what()); };
  try {
    return join();
  } catch (const TimedOut& error) {
    throw BootstrapError(text(error), ErrorCode::join_timed_out);
  } catch (const BootstrapError& error) {
    throw BootstrapError(text(error), error.code());
  } catch (const SystemError& error) {
    throw SystemError(text(error));
  } catch (const std::bad_alloc&) {
    throw out_of_memory(own_text("it got no memory"));
  }
}

/// The world of the ranks that meet in the store which `open` gives.
template <class Open>
Member join_through(Open open, int rank, int size, Deadline deadline, const Settings& settings) {
  if (size < 1 || rank < 0 || rank >= size)
    throw InvalidArgument(
        fmt::format("cannot join as rank {} of {}: ranks are 0 to size-1", rank, size));
  return naming(rank, size, [&] {
    const auto store = open();
    return size == 1 ? build_alone(settings)
                     : build_world({*store, Rank{rank}, size, deadline}, settings);
  });
}

}  // namespace

Member join_launched_world(const Launch& launch, const Settings& settings) {
  check_times(settings);
  if (launch.size == 1) return build_alone(settings);
  const Deadline deadline = Deadline::in(settings.join_timeout);
  return naming(launch.rank, launch.size, [&] {
    const auto store = join(launch, deadline, settings);
    return build_world({*store, Rank{launch.rank}, launch.size, deadline}, settings);
  });
}

Member join_world(const UniqueId& id, int rank, int size, const Settings& settings) {
  check_times(settings);
  const Deadline deadline = Deadline::in(settings.join_timeout);
  return join_through([&] { return join(id, rank, size, deadline); }, rank, size, deadline,
                      settings);
}

Member join_world(std::shared_ptr<Store> store, int rank, int size, const std::string& prefix,
                  const Settings& settings) {
  check_times(settings);
  const Deadline deadline = Deadline::in(settings.join_timeout);
  return join_through([&] { return join(std::move(store), rank, size, prefix, settings); }, rank,
                      size, deadline, settings);
}

}  // namespace capstan
