// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "capstan/error.hpp"
#include "transports/verbs/gid.hpp"

namespace capstan {
namespace verbs {
namespace {

constexpr std::size_t most_gids = 512;

/// The function that the library exports knows the fields before port_cap_flags2.
int query_port(Device& device) {
  device.port = {};
  return library().query_port(device.context.get(), device.port_number,
                              reinterpret_cast<_compat_ibv_port_attr*>(&device.port));
}

/// Calls `visit` with each port of each device until it returns true. Returns why devices could not
/// be opened, or an empty text.
std::string visit_ports(const std::function<bool(Device&)>& visit) {
  // Without this, a fork would take pinned pages away from the parent on kernels before 5.12.
  try {
    [[maybe_unused]] static const int fork_is_safe = library().fork_init();
  } catch (const SystemError& error) {
    return error.what();
  }

  int count = 0;
  errno = 0;
  ibv_device** list = library().get_device_list(&count);
  if (!list || count == 0) {
    const std::string reason = errno != 0 ? fmt::format(" ({})", std::strerror(errno)) : "";
    if (list) library().free_device_list(list);
    return fmt::format(
        "no RDMA device: the kernel offers none{}; load the driver of the network card, or let the "
        "container see /dev/infiniband",
        reason);
  }
  const std::unique_ptr<ibv_device*, Destroyer<&Library::free_device_list>> owner{list};
  std::string refused;
  for (ibv_device* each : std::span{list, static_cast<std::size_t>(count)}) {
    Device device;
    device.context.reset(library().open_device(each));
    if (!device.context || library().query_device(device.context.get(), &device.limits) != 0) {
      refused += fmt::format("no RDMA device: {} cannot be opened: {}",
                             library().get_device_name(each), std::strerror(errno));
      continue;
    }
    for (int port = 1; port <= device.limits.phys_port_cnt; ++port) {
      device.port_number = static_cast<std::uint8_t>(port);
      device.name = fmt::format("{}:{}", library().get_device_name(each), port);
      if (query_port(device) != 0) continue;
      if (visit(device)) return "";
    }
  }
  return refused;
}

/// Why this port cannot reach ranks, or nothing; then sets its GID.
std::optional<std::string> obstacle_of(Device& device, int gid_index) {
  if (device.port.state != IBV_PORT_ACTIVE)
    return fmt::format("{} is {}", device.name, library().port_state_str(device.port.state));
  std::array<ibv_gid_entry, most_gids> table{};
  const ssize_t entries = library().query_gid_table(device.context.get(), table.data(),
                                                    table.size(), 0, sizeof table[0]);
  const auto used = std::span{table}.first(entries > 0 ? static_cast<std::size_t>(entries) : 0);
  const auto gid = choose_gid(used, device.port_number, gid_index);
  if (!gid && gid_index >= 0)
    return fmt::format("{} has no GID with index {}; see ibv_devinfo -v", device.name, gid_index);
  if (!gid) return fmt::format("{} has no address; give its network interface one", device.name);
  device.gid = *gid;
  if (device.port.max_msg_sz == 0) device.port.max_msg_sz = 1 << 20;  // some drivers do not set it
  return std::nullopt;
}

bool is_called(const Device& device, const std::string& wanted) {
  return device.name == wanted || device.name.substr(0, device.name.rfind(':')) == wanted;
}

std::string describe_port(const Device& device) {
  return fmt::format("{}, {}, {} bytes a packet", kind_of(device.gid), text_of(device.gid.gid),
                     128 << device.port.active_mtu);
}

}  // namespace

Device Device::open(Rank self, const VerbsOptions& options) {
  const auto& names = options.devices;
  const std::string wanted =
      names.empty() ? "" : names[static_cast<std::size_t>(self.value()) % names.size()];
  std::string obstacles;
  std::optional<Device> chosen;
  std::string failure = visit_ports([&](Device& device) {
    if (!wanted.empty() && !is_called(device, wanted)) return false;
    if (const auto obstacle = obstacle_of(device, options.gid_index)) {
      obstacles += fmt::format("{}{}", obstacles.empty() ? "" : ", ", *obstacle);
      return false;
    }
    chosen = std::move(device);
    return true;
  });
  if (!chosen) {
    if (failure.empty() && !obstacles.empty()) failure = "no usable RDMA device: " + obstacles;
    if (failure.empty())
      failure = fmt::format("there is no RDMA device {}; see ibv_devices", wanted);
    throw SystemError(failure);
  }
  const std::string folder = chosen->context->device->ibdev_path;
  chosen->is_software = !std::filesystem::exists(folder + "/device");
  chosen->domain.reset(made(library().alloc_pd(chosen->context.get()), "ibv_alloc_pd"));
  return std::move(*chosen);
}

void Device::describe(VerbsAddress& address) const {
  std::copy_n(gid.gid.raw, address.gid.size(), address.gid.begin());
  address.lid = port.lid;
  address.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET ? 1 : 0;
  address.mtu = static_cast<std::uint8_t>(port.active_mtu);
}

ibv_ah_attr Device::route_to(const VerbsAddress& peer) const {
  ibv_ah_attr route{};
  route.port_num = port_number;
  route.dlid = peer.lid;
  const bool routed = std::memcmp(peer.gid.data(), gid.gid.raw, 8) != 0;  // other subnet prefix
  if (peer.ethernet != 0 || routed) {
    route.is_global = 1;
    std::copy(peer.gid.begin(), peer.gid.end(), route.grh.dgid.raw);
    route.grh.sgid_index = static_cast<std::uint8_t>(gid.gid_index);
    route.grh.hop_limit = 64;
  }
  return route;
}

}  // namespace verbs

bool verbs_is_built_in() {
  return true;
}

std::vector<VerbsDevice> verbs_devices() {
  std::vector<VerbsDevice> found;
  verbs::visit_ports([&](verbs::Device& device) {
    if (!verbs::obstacle_of(device, -1))
      found.push_back({device.name, verbs::describe_port(device)});
    return false;
  });
  return found;
}

std::string verbs_obstacle(const VerbsOptions& options) {
  try {
    verbs::Device::open(Rank{0}, options);
    return "";
  } catch (const SystemError& error) {
    return error.what();
  }
}

}  // namespace capstan
