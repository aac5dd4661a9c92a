// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/settings.hpp"

#include "bindings/c/handles.hpp"
#include "capstan/deadline.hpp"

namespace capstan::c {
namespace {

void set(std::string& setting, const char* text) {
  if (text) setting = text;
}

void set(std::chrono::milliseconds& setting, double seconds, const char* name) {
  if (seconds == 0) return;
  const auto limit = time_limit_of(seconds);
  if (!limit)
    refuse("capstan_settings.{} is {}: pass seconds, or 0 for the environment's", name, seconds);
  setting = *limit;
}

void set(bool& setting, std::int32_t value, const char* name) {
  if (value != CAPSTAN_DEFAULT && value != CAPSTAN_ON && value != CAPSTAN_OFF)
    refuse("capstan_settings.{} is {}: pass CAPSTAN_ON, CAPSTAN_OFF or CAPSTAN_DEFAULT", name,
           value);
  if (value != CAPSTAN_DEFAULT) setting = value == CAPSTAN_ON;
}

void set(int& setting, std::int32_t value, std::int32_t most, const char* name) {
  if (value < 0 || value > most)
    refuse("capstan_settings.{} is {}: pass 1 to {}, or 0 for the environment's", name, value,
           most);
  if (value != 0) setting = value;
}

void set(Bytes& setting, std::uint64_t bytes) {
  if (bytes != 0) setting = Bytes{bytes};
}

/// Constants of C are one more than the library's: 0 is the environment's.
template <class Enum>
void set_kind(Enum& setting, std::int32_t value, Enum last, const char* name) {
  const auto most = static_cast<std::int32_t>(last) + 1;
  if (value < 0 || value > most)
    refuse("capstan_settings.{} is {}: use the constants of capstan.h", name, value);
  if (value != 0) setting = static_cast<Enum>(value - 1);
}
static_assert(CAPSTAN_NETWORK_VERBS == static_cast<int>(Network::verbs) + 1 &&
              CAPSTAN_NETWORK_TCP == static_cast<int>(Network::tcp) + 1 &&
              CAPSTAN_BOOTSTRAP_PMI == static_cast<int>(Bootstrap::pmi) + 1 &&
              CAPSTAN_BOOTSTRAP_TCP == static_cast<int>(Bootstrap::tcp) + 1);

}  // namespace

Reproducible to_promise(std::int32_t promise) {
  Reproducible own = Reproducible::run;
  set_kind(own, promise, Reproducible::rank_order, "reproducible");
  return own;
}

Settings to_settings(const capstan_settings* given) {
  Settings settings = Settings::from_environment();
  if (!given) return settings;
  const auto own = versioned(given, "capstan_settings");
  set(settings.join_timeout, own.join_timeout, "join_timeout");
  set(settings.timeout, own.timeout, "timeout");
  set(settings.algorithm, own.algorithm);
  set(settings.interface, own.interface);
  set(settings.tcp_congestion, own.tcp_congestion);
  set(settings.provider, own.provider);
  set(settings.rdma_devices, own.rdma_devices);
  set(settings.secret, own.secret);
  set(settings.faults, own.faults);
  set_kind(settings.bootstrap, own.bootstrap, Bootstrap::pmi, "bootstrap");
  set_kind(settings.network, own.network, Network::verbs, "network");
  set_kind(settings.wire, own.wire, Wire::encrypted, "wire");
  set(settings.rails, own.rails, 8, "rails");
  set(settings.virtual_hosts, own.virtual_hosts, 1 << 20, "virtual_hosts");
  set(settings.autotune, own.autotune, "autotune");
  set(settings.progress_thread, own.progress_thread, "progress_thread");
  set(settings.single_copy, own.single_copy, "single_copy");
  set(settings.huge_pages, own.huge_pages, "huge_pages");
  set(settings.chunk, own.chunk);
  set(settings.pinned_memory, own.pinned_memory);
  set(settings.buffer_limit, own.buffer_limit);
  set(settings.unexpected_messages, own.unexpected_messages);
  if (own.unexpected_messages == CAPSTAN_NO_BYTES) settings.unexpected_messages = Bytes{0};
  set(settings.schedules, own.schedules);
  set(settings.profile, own.profile);
  set(settings.save_profile, own.save_profile);
  settings.trust_long_proofs =
      settings.trust_long_proofs || own.proof_limit == CAPSTAN_PROOF_LIMIT_TRUST;
  if (own.proof_limit != CAPSTAN_PROOF_LIMIT_TRUST)
    set(settings.proof_limit, own.proof_limit, "proof_limit");
  set(settings.prove, own.prove, "prove");
  set(settings.device_executor, own.device_executor, "device_executor");
  set_kind(settings.reproducible, own.reproducible, Reproducible::rank_order, "reproducible");
  set_kind(settings.gpu_direct, own.gpu_direct, GpuDirectUse::never, "gpu_direct");
  return settings;
}

}  // namespace capstan::c
