// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <sstream>

#include "capstan/error.hpp"
#include "core/platform/net/text_of_file.hpp"

namespace capstan::launcher {
namespace {

constexpr int most_ranks = 4096;

[[noreturn]] void refuse(std::string_view part, std::string_view why) {
  throw InvalidArgument(
      fmt::format("\"{}\" in the list of hosts: {}: write host or host:ranks, such as node1:4 or "
                  "[fd00::7]:4",
                  part, why));
}

int parse_ranks(std::string_view digits, std::string_view part) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ranks);
  if (error != std::errc{} || end != digits.data() + digits.size() || ranks < 1 ||
      ranks > most_ranks)
    refuse(part, fmt::format("the number of ranks is 1 to {}", most_ranks));
  return ranks;
}

/// The name becomes an argument of ssh: it may hold nothing that ssh or a shell reads specially.
void check_name(std::string_view host, std::string_view part) {
  const auto ordinary = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view{".-_:%@"}.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (host.empty()) refuse(part, "the host's name is missing");
  if (host.front() == '-' || !std::ranges::all_of(host, ordinary))
    refuse(part, "that is not a host's name");
}

HostSlots parse_host(std::string_view part) {
  const bool bracketed = part.starts_with('[');
  const auto end = bracketed ? part.find(']') : part.find(':');
  if (bracketed && end == part.npos) refuse(part, "the bracket is not closed");
  const auto host = bracketed ? part.substr(1, end - 1) : part.substr(0, end);
  auto rest = end == part.npos ? std::string_view{} : part.substr(end + (bracketed ? 1 : 0));
  check_name(host, part);
  if (rest.empty()) return {std::string{host}, 1};
  if (rest.front() != ':') refuse(part, "after the bracket comes :ranks");
  if (rest.find(':', 1) != rest.npos) refuse(part, "an IPv6 address goes in brackets");
  return {std::string{host}, parse_ranks(rest.substr(1), part)};
}

void add(std::vector<HostSlots>& hosts, HostSlots more) {
  const auto known = std::ranges::find(hosts, more.host, &HostSlots::host);
  if (known == hosts.end()) return hosts.push_back(std::move(more));
  known->ranks += more.ranks;
}

}  // namespace

void check_path_for_agent(const std::string& path) {
  const auto ordinary = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view{"/._-+@%=:,"}.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!path.empty() && std::ranges::all_of(path, ordinary)) return;
  throw InvalidArgument(
      fmt::format("\"{}\" cannot be passed through an agent: give --capstan a path on the hosts "
                  "without blanks and quotes",
                  path));
}

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (std::size_t start = 0; start <= text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    add(hosts, parse_host(text.substr(start, end - start)));
    start = end + 1;
  }
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  constexpr Bytes longest{std::uint64_t{64} << 20};
  std::istringstream file{text_of_file(path, longest)};
  return parse_hostfile(file, path);
}

std::vector<HostSlots> parse_hostfile(std::istream& file, const std::string& name) {
  std::vector<HostSlots> hosts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line.substr(0, line.find('#'))};
    std::string host, slots, more;
    if (!(words >> host)) continue;
    HostSlots parsed = parse_host(host);
    constexpr std::string_view prefix = "slots=";
    if (words >> slots) {
      if (!slots.starts_with(prefix) || words >> more)
        refuse(line, "after the host comes slots=ranks or nothing");
      parsed.ranks = parse_ranks(std::string_view{slots}.substr(prefix.size()), line);
    }
    add(hosts, std::move(parsed));
  }
  if (hosts.empty()) throw InvalidArgument(fmt::format("the host file {} names no host", name));
  return hosts;
}

std::vector<HostSlots> first_slots(std::vector<HostSlots> hosts, int ranks) {
  const int all = ranks_on(hosts);
  if (all > most_ranks || ranks > all)
    throw InvalidArgument(
        fmt::format("the hosts have places for {} ranks, not for {}: give a host "
                    "more with host:ranks",
                    std::min(all, most_ranks), std::max(ranks, all)));
  int left = ranks == 0 ? all : ranks;
  for (HostSlots& each : hosts) left -= each.ranks = std::min(each.ranks, left);
  std::erase_if(hosts, [](const HostSlots& each) { return each.ranks == 0; });
  return hosts;
}

int ranks_on(const std::vector<HostSlots>& hosts) {
  int ranks = 0;
  for (const HostSlots& each : hosts) ranks += each.ranks;
  return ranks;
}

std::string to_string(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const auto& [host, ranks] : hosts) {
    const bool v6 = host.find(':') != host.npos;
    text += fmt::format("{}{}{}{}:{}", text.empty() ? "" : ",", v6 ? "[" : "", host, v6 ? "]" : "",
                        ranks);
  }
  return text;
}

std::vector<std::string> agent_command(std::string_view agent, const std::string& host) {
  constexpr std::string_view place = "{host}";
  if (agent.find(place) == agent.npos)
    throw InvalidArgument(
        fmt::format("--agent \"{}\": it has no {{host}} where the host's name is to stand", agent));
  std::istringstream text{std::string{agent}};
  std::vector<std::string> words;
  for (std::string word; text >> word;) {
    for (auto at = word.find(place); at != word.npos; at = word.find(place, at + host.size()))
      word.replace(at, place.size(), host);
    words.push_back(word);
  }
  return words;
}

}  // namespace capstan::launcher
