#pragma once

#include <memory>
#include <vector>

#include "tests/conformance/world.hpp"
#include "transports/faults/faulty_transport.hpp"
#include "transports/posted/posted_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/shm/thread_transport.hpp"

namespace capstan::conformance {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// Ranks that are threads: rank 0 makes the transports of all.
inline Member::Maker made_by_one(std::function<Transports(int ranks, Bytes segment)> make) {
  auto made = std::make_shared<Transports>();
  return [made, make](const Member& member, Bytes segment) {
    if (member.id() == 0) *made = make(member.ranks(), segment);
    member.meet();
    std::unique_ptr<Transport> own = std::move(made->at(static_cast<std::size_t>(member.id())));
    member.meet();
    return own;
  };
}

inline Member::Maker make_threads() {
  return made_by_one(make_thread_transports);
}

inline Member::Maker make_posted_threads() {
  return made_by_one(
      [](int ranks, Bytes segment) { return make_posted_thread_transports(ranks, segment); });
}

inline Member::Maker make_shm(ShmFacilities facilities) {
  return [facilities](const Member& member, Bytes segment) {
    return make_shm_transport(member.self(), member.ranks(), segment, facilities);
  };
}

/// Faults that the contract allows, all at once and often.
inline FaultPlan all_faults(std::uint64_t seed) {
  return {.seed = seed,
          .delay = 0.1,
          .delay_calls = 8,
          .reorder = 0.2,
          .partial = 0.2,
          .drop = 0.02,
          .resend_calls = 20,
          .spurious = 0.1,
          .early = 0.1};
}

inline Member::Maker with_faults(const Member::Maker& make_inner, std::uint64_t seed) {
  return [make_inner, seed](const Member& member, Bytes segment) -> std::unique_ptr<Transport> {
    const Bytes whole = FaultyTransport::inner_segment(segment, member.ranks());
    return std::make_unique<FaultyTransport>(make_inner(member, whole), member.self(),
                                             member.ranks(), segment, all_faults(seed));
  };
}

/// The world with faults of this seed.
inline World faulty(const World& world, std::uint64_t seed) {
  return {fmt::format("faulty_{}_seed_{}", world.name, seed), world.processes,
          [world, seed] { return with_faults(world.new_maker(), seed); }};
}

/// Every transport there is; a new one joins the suite by a line here.
inline std::vector<World> all_worlds() {
  const World threads{"threads", false, make_threads};
  const World shm{"shm", true, [] { return make_shm({}); }};
  const World posted_threads{"posted_threads", false, make_posted_threads};
  return {
      threads,
      shm,
      posted_threads,
      {"shm_on_old_kernel", true, [] { return make_shm({.pidfd = false, .membarrier = false}); }},
      faulty(threads, 1),
      faulty(threads, 2),
      faulty(shm, 3),
      faulty(shm, 4),
      faulty(posted_threads, 5),
  };
}

}  // namespace capstan::conformance
