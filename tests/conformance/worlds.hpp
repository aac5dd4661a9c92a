#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/world.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/shm/thread_transport.hpp"

namespace capstan::conformance {

/// Rank 0 makes the transports of all.
inline Member::Maker make_threads() {
  auto made = std::make_shared<std::vector<std::unique_ptr<Transport>>>();
  return [made](const Member& member, Bytes segment, std::byte*) {
    if (member.id() == 0) *made = make_thread_transports(member.ranks(), segment);
    member.meet();
    std::unique_ptr<Transport> own = std::move(made->at(static_cast<std::size_t>(member.id())));
    member.meet();
    return own;
  };
}

inline Member::Maker make_shm(ShmFacilities facilities) {
  return [facilities](const Member& member, Bytes segment, std::byte*) {
    return make_shm_transport(member.self(), member.ranks(), segment, facilities);
  };
}

inline World ofi_world(std::string name, std::string provider, OfiPushes pushes) {
  OfiOptions options;
  options.provider = std::move(provider);
  options.pushes = pushes;
  const auto make = [options](const Member& member, Bytes segment, std::byte* shared) {
    return make_ofi_transport(member.self(), member.ranks(), segment, options, shared);
  };
  return {std::move(name), true, [make] { return make; }, true};
}

inline bool has_rdma_device() {
  const std::filesystem::path devices{"/sys/class/infiniband"};
  return std::filesystem::exists(devices) && !std::filesystem::is_empty(devices);
}

/// Every transport there is; a new one joins the suite by a line here.
inline std::vector<World> all_worlds() {
  std::vector<World> worlds{
      {"threads", false, make_threads},
      {"shm", true, [] { return make_shm({}); }},
      {"shm_on_old_kernel", true, [] { return make_shm({.pidfd = false, .membarrier = false}); }},
  };
  if (ofi_is_built_in()) {
    worlds.push_back(ofi_world("ofi_tcp", "tcp", OfiPushes::write));
    worlds.push_back(ofi_world("ofi_tcp_messages", "tcp", OfiPushes::messages));
    worlds.push_back(ofi_world("ofi_shm", "shm", OfiPushes::automatic));
  }
  if (ofi_is_built_in() && has_rdma_device()) {
    worlds.push_back(ofi_world("ofi_verbs", "verbs", OfiPushes::write));
    worlds.push_back(ofi_world("ofi_verbs_messages", "verbs", OfiPushes::messages));
  }
  return worlds;
}

/// Those whose links are not mapped.
inline std::vector<World> posted_worlds() {
  std::vector<World> worlds = all_worlds();
  std::erase_if(worlds, [](const World& world) { return !world.posted; });
  return worlds;
}

}  // namespace capstan::conformance
