// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/network.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "capstan/settings.hpp"
#include "core/engine/world/make_transport.hpp"
#include "core/tools/cli/doctor/probe.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan::cli {
namespace {

/// The address at which ranks on other hosts would reach this host, and why it was chosen.
Probe network() {
  const auto addresses = host_addresses();
  const auto chosen = choose_address(Settings::from_environment().interface, addresses);
  std::string others;
  for (const HostAddress& each : addresses)
    if (each.text() != chosen.address.text() && !each.loopback)
      others += fmt::format("{} {} {}{}", others.empty() ? "; not" : ",", each.interface,
                            each.text(), each.up && each.running ? "" : " (not connected)");
  const auto value = fmt::format("{} {}: {}{}", chosen.address.interface, chosen.address.text(),
                                 chosen.reason, others);
  if (!chosen.address.loopback) return {"network", Probe::Status::ok, value};
  return {"network", Probe::Status::note, value,
          "a job over several hosts takes an interface that they share: CAPSTAN_INTERFACE"};
}

/// The connections that carry long data to a rank on another host.
Probe rails() {
  const Settings settings = Settings::from_environment();
  const auto addresses = host_addresses();
  std::vector<std::string> devices;
  for (int rail = 0; rail < settings.rails; ++rail) {
    const Settings own = settings_of_rail(rail, settings);
    const std::string interface = choose_address(own.interface, addresses).address.interface;
    devices.push_back(own.rdma_devices.empty() ? interface : own.rdma_devices);
  }
  const auto value = fmt::format("{}, over {}", settings.rails, fmt::join(devices, ", "));
  std::ranges::sort(devices);
  if (std::ranges::adjacent_find(devices) == devices.end())
    return {"rails", Probe::Status::ok, value};
  return {"rails", Probe::Status::note, value,
          "rails that share a network card gain little: name one for each, as in "
          "CAPSTAN_INTERFACE=eth0,eth1 or CAPSTAN_RDMA_DEVICES"};
}

/// The RDMA ports that the verbs transport could use.
Probe rdma() {
  std::string found;
  for (const VerbsDevice& device : verbs_devices())
    found += fmt::format("{}{} ({})", found.empty() ? "" : ", ", device.name, device.description);
  if (!found.empty()) return {"RDMA", Probe::Status::ok, found};
  const std::string obstacle = verbs_obstacle();
  const auto end = std::min(obstacle.find("; "), obstacle.size());
  return {"RDMA", Probe::Status::note, obstacle.substr(0, end),
          obstacle.substr(std::min(end + 2, obstacle.size()))};
}

}  // namespace

Probes network_probes() {
  return {network, rails, rdma};
}

}  // namespace capstan::cli
