// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/provider_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>

namespace capstan::ofi {
namespace {

/// A known provider. The list is in order of preference.
struct Known {
  std::string_view name;
  std::string_view reason;
  bool reads = false;     // a network card reads remote memory; otherwise software does
  bool automatic = true;  // otherwise it has to be asked for by name
};

constexpr std::array known_providers{
    Known{"cxi", "it drives the Slingshot network directly", true},
    Known{"efa", "it drives the Elastic Fabric Adapter directly", true},
    Known{"opx", "it drives Omni-Path directly", true},
    Known{"psm3", "it drives its NIC directly", true},
    Known{"psm2", "it drives Omni-Path directly", true},
    Known{"psm", "it drives True Scale InfiniBand directly"},
    Known{"gni", "it drives the Aries network directly", true},
    Known{"verbs;ofi_rxm", "it uses RDMA hardware", true},
    Known{"tcp;ofi_rxm", "it works over every network, though without hardware of its own"},
    Known{"shm", "it was asked for", false, false},
    Known{"net", "it was asked for", false, false},
    Known{"net;ofi_rxm", "it was asked for", false, false},
    Known{"sockets", "it was asked for, though operations take milliseconds", false, false},
    Known{"udp;ofi_rxd", "it was asked for, though it is slow", false, false},
};
constexpr Known unknown_provider{"", "it was asked for; Capstan does not know it", false, false};

std::size_t preference(std::string_view provider) {
  const auto* known = std::ranges::find(known_providers, provider, &Known::name);
  return static_cast<std::size_t>(known - known_providers.begin());
}

const Known& knowledge_of(std::string_view provider) {
  const std::size_t place = preference(provider);
  return place < known_providers.size() ? known_providers[place] : unknown_provider;
}

/// "verbs" asks for "verbs;ofi_rxm" too.
bool matches(std::string_view provider, std::string_view asked) {
  if (asked.empty()) return knowledge_of(provider).automatic;
  return provider == asked || provider.substr(0, provider.find(';')) == asked;
}

bool fits(const Candidate& candidate, const OfiOptions& options) {
  if (!candidate.messages || !matches(candidate.provider, options.provider)) return false;
  if (!options.domain.empty() && candidate.domain != options.domain) return false;
  if (candidate.elsewhere) return false;
  if (options.pushes == OfiPushes::write) return candidate.remote_writes;
  return options.pushes == OfiPushes::automatic || candidate.tagged;
}

std::string wishes(const OfiOptions& options) {
  std::string text;
  if (!options.provider.empty()) text += fmt::format(" named \"{}\"", options.provider);
  if (!options.domain.empty()) text += fmt::format(" with domain \"{}\"", options.domain);
  if (!options.interface.empty()) text += fmt::format(" at \"{}\"", options.interface);
  if (options.pushes == OfiPushes::write) text += " with remote writes";
  if (options.pushes == OfiPushes::messages) text += " with tagged messages";
  return text;
}

std::string reason_for_none(std::span<const Candidate> candidates, const OfiOptions& options) {
  if (candidates.empty()) return "libfabric finds no provider on this host; fi_info shows the same";
  std::set<std::string> there;
  for (const Candidate& candidate : candidates) {
    there.insert(fmt::format("{} on {}", candidate.provider, candidate.domain));
  }
  return fmt::format("no provider{} can be used here; libfabric offers {}",
                     options.provider.empty() && options.domain.empty() && options.interface.empty()
                         ? " that Capstan chooses by itself"
                         : wishes(options),
                     fmt::join(there, ", "));
}

std::string reason_for(const Candidate& best, std::span<const Candidate> candidates,
                       const OfiOptions& options) {
  const std::string_view asked = options.provider.empty() ? "" : "it was asked for";
  std::string reason = fmt::format("{}: {}", describe(best),
                                   asked.empty() ? knowledge_of(best.provider).reason : asked);
  if (!options.domain.empty()) reason += fmt::format(", on the domain that was asked for");
  const bool alone = std::ranges::all_of(
      candidates, [&](const Candidate& other) { return other.provider == best.provider; });
  if (alone) reason += "; libfabric offers no other here";
  return reason;
}

}  // namespace

bool card_reads(const Candidate& candidate) {
  return knowledge_of(candidate.provider).reads;
}

bool reads_memory(const Candidate& candidate, const OfiOptions& options) {
  return candidate.remote_reads && (card_reads(candidate) || options.reads_by_software);
}

std::string describe(const Candidate& candidate) {
  if (candidate.address.empty())
    return fmt::format("{} on {}", candidate.provider, candidate.domain);
  return fmt::format("{} on {} ({})", candidate.provider, candidate.domain, candidate.address);
}

Choice choose_provider(std::span<const Candidate> candidates, const OfiOptions& options) {
  Choice choice;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (fits(candidates[i], options)) choice.ranking.push_back(i);
  }
  const auto merit = [&](std::size_t i) {  // less is better; equals stay as libfabric has them
    const Candidate& c = candidates[i];
    return std::tuple{preference(c.provider), c.loopback, c.link_local, -c.gigabits};
  };
  std::ranges::stable_sort(choice.ranking, {}, merit);
  choice.reason = choice.ranking.empty()
                      ? reason_for_none(candidates, options)
                      : reason_for(candidates[choice.ranking[0]], candidates, options);
  return choice;
}

}  // namespace capstan::ofi
