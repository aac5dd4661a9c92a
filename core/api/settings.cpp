#include "capstan/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/custom/added_algorithms.hpp"
#include "core/engine/machine_view.hpp"
#include "core/selection/rules.hpp"

namespace capstan {
namespace {

std::optional<std::string_view> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const char* name, std::string_view value, std::string_view expected) {
  throw InvalidArgument(fmt::format("{}='{}': expected {}", name, value, expected));
}

void read_seconds(const char* name, std::chrono::milliseconds& setting) {
  const auto text = variable(name);
  if (!text) return;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  const bool is_number = error == std::errc{} && end == text->data() + text->size();
  const auto limit = time_limit_of(is_number ? seconds : -1);
  if (!limit || seconds == 0) refuse(name, *text, "a time in seconds, for example 60 or 0.5");
  setting = *limit;
}

/// A time, or "trust".
void read_proof_limit(Settings& settings) {
  constexpr const char* name = "CAPSTAN_PROOF_LIMIT";
  settings.trust_long_proofs = variable(name) == "trust";
  if (!settings.trust_long_proofs) read_seconds(name, settings.proof_limit);
}

void read_bytes(const char* name, Bytes& setting, Bytes smallest, Bytes largest,
                std::string_view expected) {
  const auto text = variable(name);
  if (!text) return;
  const auto bytes = parse_bytes(*text);
  if (!bytes || *bytes < smallest || *bytes > largest) refuse(name, *text, expected);
  setting = *bytes;
}

void read_switch(const char* name, bool& setting) {
  const auto text = variable(name);
  if (!text) return;
  if (*text != "0" && *text != "1") refuse(name, *text, "0 or 1");
  setting = *text == "1";
}

/// Refuses the former name of a variable, which would otherwise be ignored in silence.
void refuse_renamed(const char* former, const char* name) {
  if (variable(former)) throw InvalidArgument(fmt::format("{} is called {} now", former, name));
}

constexpr int most_of_anything = std::numeric_limits<int>::max();

void read_number(const char* name, int& setting, int least, int most, std::string_view expected) {
  const auto text = variable(name);
  if (!text) return;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, setting);
  if (error != std::errc{} || stop != end || setting < least || setting > most)
    refuse(name, *text, expected);
}

template <class Choice, std::size_t count>
void read_choice(const char* name, Choice& setting,
                 const std::array<std::string_view, count>& names) {
  const auto text = variable(name);
  if (!text) return;
  const auto found = std::ranges::find(names, *text);
  if (found == names.end())
    refuse(name, *text,
           fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back()));
  setting = static_cast<Choice>(found - names.begin());
}

constexpr std::array<std::string_view, 4> bootstrap_names{"auto", "tcp", "pmix", "pmi"};
constexpr std::array<std::string_view, 3> gpu_direct_names{"detect", "always", "never"};
constexpr std::array<std::string_view, 3> wire_names{"plain", "authenticated", "encrypted"};

/// Throws for rules that cannot be read, and for schedules that cannot.
void check_rules(const Settings& settings) {
  AddedAlgorithms& added = AddedAlgorithms::of_process();
  added.add_paths(settings.schedules);
  AlgorithmRules::parse(settings.algorithm, [&](Collective collective, auto name) {
    return added.check_name(collective, name);
  });
}

}  // namespace

std::string_view name_of(Wire wire) {
  return wire_names[static_cast<std::size_t>(wire)];
}

Settings Settings::from_environment() {
  Settings settings;
  read_seconds("CAPSTAN_JOIN_TIMEOUT", settings.join_timeout);
  read_seconds("CAPSTAN_TIMEOUT", settings.timeout);
  read_choice("CAPSTAN_BOOTSTRAP", settings.bootstrap, bootstrap_names);
  if (const auto text = variable("CAPSTAN_SECRET")) settings.secret = *text;
  if (const auto text = variable("CAPSTAN_INTERFACE")) settings.interface = *text;
  read_bytes("CAPSTAN_CHUNK", settings.chunk, Bytes{4 << 10}, Bytes{64 << 20},
             "a size from 4k to 64m, for example 256k");
  read_bytes("CAPSTAN_PINNED_MEMORY", settings.pinned_memory, Bytes{4 << 10},
             Bytes{std::uint64_t{1} << 40}, "a size from 4k to 1024g, for example 4g");
  read_bytes("CAPSTAN_BUFFER_LIMIT", settings.buffer_limit, Bytes{4 << 10},
             Bytes{std::uint64_t{1} << 46}, "a size from 4k on, for example 8g");
  read_bytes("CAPSTAN_UNEXPECTED_MESSAGES", settings.unexpected_messages, Bytes{0},
             Bytes{std::uint64_t{1} << 46}, "a size, for example 64m, or 0: every send waits");
  read_switch("CAPSTAN_PROGRESS_THREAD", settings.progress_thread);
  read_switch("CAPSTAN_SINGLE_COPY", settings.single_copy);
  read_switch("CAPSTAN_HUGE_PAGES", settings.huge_pages);
  read_switch("CAPSTAN_DEVICE_EXECUTOR", settings.device_executor);
  read_choice("CAPSTAN_GPU_DIRECT", settings.gpu_direct, gpu_direct_names);
  refuse_renamed("CAPSTAN_TRIALS", "CAPSTAN_AUTOTUNE");
  read_switch("CAPSTAN_AUTOTUNE", settings.autotune);
  read_choice("CAPSTAN_NETWORK", settings.network, network_names);
  read_choice("CAPSTAN_WIRE", settings.wire, wire_names);
  if (const auto text = variable("CAPSTAN_TCP_CONGESTION")) settings.tcp_congestion = *text;
  if (const auto text = variable("CAPSTAN_PROVIDER")) settings.provider = *text;
  if (const auto text = variable("CAPSTAN_RDMA_DEVICES")) settings.rdma_devices = *text;
  if (const auto text = variable("CAPSTAN_FAULTS")) settings.faults = *text;
  read_number("CAPSTAN_VIRTUAL_HOSTS", settings.virtual_hosts, 0, most_of_anything,
              "a number from 0 on");
  read_number("CAPSTAN_RAILS", settings.rails, 1, 8, "a number from 1 to 8");
  read_switch("CAPSTAN_PROVE", settings.prove);
  read_proof_limit(settings);
  read_switch("CAPSTAN_SAME_BITS", settings.same_bits);
  if (const auto text = variable("CAPSTAN_SCHEDULES")) settings.schedules = *text;
  if (const auto text = variable("CAPSTAN_PROFILE")) settings.profile = *text;
  if (const auto text = variable("CAPSTAN_SAVE_PROFILE")) settings.save_profile = *text;
  if (const auto text = variable("CAPSTAN_ALGORITHM")) settings.algorithm = *text;
  check_rules(settings);
  return settings;
}

}  // namespace capstan
