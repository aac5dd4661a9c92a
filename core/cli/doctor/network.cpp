#include "core/base/network.hpp"

#include <fmt/format.h>

#include "core/cli/doctor/probe.hpp"
#include "core/settings.hpp"

namespace capstan::cli {
namespace {

/// Under which address ranks on other hosts would reach this one, and why that one.
Probe network() {
  const auto addresses = host_addresses();
  const auto chosen = choose_address(Settings::from_environment().interface, addresses);
  std::string others;
  for (const HostAddress& each : addresses)
    if (each.text != chosen.address.text && !each.loopback)
      others += fmt::format("{} {} {}{}", others.empty() ? "; not" : ",", each.interface, each.text,
                            each.up && each.running ? "" : " (not connected)");
  const auto value = fmt::format("{} {}: {}{}", chosen.address.interface, chosen.address.text,
                                 chosen.reason, others);
  if (!chosen.address.loopback) return {"network", Probe::Status::ok, value};
  return {"network", Probe::Status::note, value,
          "a job over several hosts takes an interface that they share: CAPSTAN_INTERFACE"};
}

}  // namespace

Probes network_probes() {
  return {network};
}

}  // namespace capstan::cli
