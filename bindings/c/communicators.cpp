// SPDX-License-Identifier: Apache-2.0

// Worlds, groups and memory.

#include <algorithm>
#include <map>
#include <mutex>

#include "bindings/c/handles.hpp"
#include "bindings/c/settings.hpp"
#include "capstan/unique_id.hpp"

using namespace capstan::c;
using capstan::Communicator;

namespace {

template <class Make>
capstan_status give_communicator(capstan_communicator** communicator, const Make& make) noexcept {
  return guarded([&] {
    capstan_communicator*& given = required(communicator, "communicator");
    given = new capstan_communicator(make());
  });
}

/// Null for a rank that is in no group.
template <class Make>
capstan_status give_group(capstan_communicator** group, const Make& make) noexcept {
  return guarded([&] {
    capstan_communicator*& given = required(group, "group");
    std::optional<Communicator> made = make();
    given = made ? new capstan_communicator(std::move(*made)) : nullptr;
  });
}

capstan::UniqueId to_id(const capstan_unique_id* id) {
  capstan::UniqueId own;
  static_assert(sizeof own.bytes == sizeof id->bytes);
  std::memcpy(own.bytes.data(), required(id, "id").bytes, own.bytes.size());
  return own;
}

void give_id(capstan_unique_id* id, const capstan::UniqueId& own) {
  std::memcpy(required(id, "id").bytes, own.bytes.data(), own.bytes.size());
}

capstan::MeetingPlace to_place(const capstan_meeting_place* given) {
  capstan::MeetingPlace place;
  if (!given) return place;
  const auto own = versioned(given, "capstan_meeting_place");
  if (own.id) place.id = to_id(own.id);
  if (own.name) place.name = own.name;
  if (own.secret) place.secret = own.secret;
  return place;
}

/// Memory that the program holds by its address.
class HeldMemory {
 public:
  static HeldMemory& instance() {
    static auto& held = *new HeldMemory;  // programs may free memory at their very end
    return held;
  }

  void hold(std::shared_ptr<std::byte> memory) {
    const std::lock_guard lock{mutex_};
    void* const address = memory.get();
    memory_.emplace(address, std::move(memory));
  }
  void drop(void* address) {
    const std::shared_ptr<std::byte> memory = taken(address);
    if (!memory) refuse("free: this address was not given by capstan_allocate, or freed already");
  }

 private:
  std::shared_ptr<std::byte> taken(void* address) {
    const std::lock_guard lock{mutex_};
    const auto found = memory_.extract(address);
    return found ? std::move(found.mapped()) : nullptr;
  }

  std::mutex mutex_;
  std::map<void*, std::shared_ptr<std::byte>> memory_;
};

}  // namespace

capstan_status capstan_from_environment(const capstan_settings* settings,
                                        capstan_communicator** communicator) {
  return give_communicator(communicator,
                           [&] { return Communicator::from_environment(to_settings(settings)); });
}

capstan_status capstan_create_unique_id(const char* address, capstan_unique_id* id) {
  return guarded([&] {
    required(id, "id");
    give_id(id, address ? capstan::create_unique_id(address) : capstan::create_unique_id());
  });
}

capstan_status capstan_unique_id_to_text(const capstan_unique_id* id, char* text, size_t bytes) {
  return guarded([&] {
    const std::string own = to_string(to_id(id));
    required(text, "text");
    if (bytes <= own.size())
      refuse("text has room for {} bytes: CAPSTAN_UNIQUE_ID_TEXT are needed", bytes);
    std::memcpy(text, own.c_str(), own.size() + 1);
  });
}

capstan_status capstan_unique_id_from_text(const char* text, capstan_unique_id* id) {
  return guarded([&] { give_id(id, capstan::unique_id_from_string(&required(text, "text"))); });
}

capstan_status capstan_join(const capstan_unique_id* id, int32_t rank, int32_t size,
                            const capstan_settings* settings, capstan_communicator** communicator) {
  return give_communicator(communicator, [&] {
    return Communicator::join(to_id(id), rank, size, to_settings(settings));
  });
}

capstan_status capstan_with_algorithm(capstan_communicator* communicator, const char* rules,
                                      capstan_communicator** made) {
  return give_communicator(made, [&] {
    return of(communicator).communicator.with_algorithm(&required(rules, "rules"));
  });
}

capstan_status capstan_with_reproducible(capstan_communicator* communicator, int32_t promise,
                                         capstan_communicator** made) {
  return give_communicator(
      made, [&] { return of(communicator).communicator.with_reproducible(to_promise(promise)); });
}

capstan_status capstan_local_world(int32_t ranks, const capstan_settings* settings,
                                   capstan_communicator** communicators) {
  return guarded([&] {
    required(communicators, "communicators");
    std::vector<std::unique_ptr<capstan_communicator>> world;
    for (Communicator& member : Communicator::local_world(ranks, to_settings(settings)))
      world.push_back(std::make_unique<capstan_communicator>(std::move(member)));
    std::ranges::transform(world, communicators, [](auto& member) { return member.release(); });
  });
}

capstan_status capstan_destroy(capstan_communicator* communicator) {
  return destroy(communicator);
}

capstan_status capstan_abort(capstan_communicator* communicator, const char* reason) {
  return guarded(
      [&] { of(communicator).communicator.abort(reason ? reason : "no reason was given"); });
}

capstan_status capstan_async_error(const capstan_communicator* communicator) {
  return guarded([&] {
    if (const auto error = of(communicator).communicator.async_error())
      std::rethrow_exception(error);
  });
}

capstan_status capstan_rank(const capstan_communicator* communicator, int32_t* rank) {
  return guarded([&] { required(rank, "rank") = of(communicator).communicator.rank(); });
}

capstan_status capstan_size(const capstan_communicator* communicator, int32_t* size) {
  return guarded([&] { required(size, "size") = of(communicator).communicator.size(); });
}

capstan_status capstan_world_rank(const capstan_communicator* communicator, int32_t rank,
                                  int32_t* world_rank) {
  return guarded(
      [&] { required(world_rank, "world_rank") = of(communicator).communicator.world_rank(rank); });
}

capstan_status capstan_rank_of(const capstan_communicator* communicator, int32_t world_rank,
                               int32_t* rank) {
  return guarded([&] {
    required(rank, "rank") = of(communicator).communicator.rank_of(world_rank).value_or(-1);
  });
}

capstan_status capstan_split(capstan_communicator* communicator, int32_t colour, int32_t key,
                             capstan_communicator** group) {
  return give_group(group, [&] { return of(communicator).communicator.split(colour, key); });
}

capstan_status capstan_subgroup(capstan_communicator* communicator, const int32_t* ranks,
                                size_t count, capstan_communicator** group) {
  return give_group(group, [&] {
    return of(communicator).communicator.subgroup({&required(ranks, "ranks"), count});
  });
}

capstan_status capstan_shrink(capstan_communicator* communicator, const int32_t* excluded,
                              size_t count, int32_t minority_continues,
                              capstan_communicator** made) {
  return give_communicator(made, [&] {
    capstan::ShrinkOptions options{.minority_continues = minority_continues != 0};
    if (count > 0) options.exclude.assign(&required(excluded, "excluded"), excluded + count);
    return of(communicator).communicator.shrink(options);
  });
}

capstan_status capstan_grow(capstan_communicator* communicator, int32_t joiners,
                            const capstan_meeting_place* place, capstan_communicator** made) {
  return give_communicator(
      made, [&] { return of(communicator).communicator.grow(joiners, to_place(place)); });
}

capstan_status capstan_join_growing(const capstan_meeting_place* place, int32_t rank,
                                    const capstan_settings* settings,
                                    capstan_communicator** communicator) {
  return give_communicator(communicator, [&] {
    return Communicator::join_growing(to_place(&required(place, "place")), to_settings(settings),
                                      rank);
  });
}

capstan_status capstan_allocate(capstan_communicator* communicator, size_t bytes, void** memory) {
  return guarded([&] {
    void*& given = required(memory, "memory");
    std::shared_ptr<std::byte> own = of(communicator).communicator.allocate_bytes(bytes);
    given = own.get();
    if (own) HeldMemory::instance().hold(std::move(own));
  });
}

capstan_status capstan_free(void* memory) {
  return guarded([&] {
    if (memory) HeldMemory::instance().drop(memory);
  });
}
