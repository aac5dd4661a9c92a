#include "core/base/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/cli/doctor/probe.hpp"
#include "core/settings.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan::cli {
namespace {

/// Under which address ranks on other hosts would reach this one, and why that one.
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

/// The ports that the transport over verbs could use.
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
  return {network, rdma};
}

}  // namespace capstan::cli
