// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/setting_table.hpp"

#include "core/engine/run/machine_view.hpp"

namespace capstan {
namespace {

using S = Settings;
using Text = Setting::Text;
using Switch = Setting::Switch;

constexpr Bytes gib(std::uint64_t number) {
  return Bytes{number << 30};
}

const Setting table[] = {
    {"timeout", Setting::Seconds{&S::timeout},
     "how long an operation waits for a peer that is alive"},
    {"join_timeout", Setting::Seconds{&S::join_timeout}, "how long start-up waits for all ranks"},
    {"algorithm", Text{&S::algorithm}, "rules that choose algorithms instead of the selector"},
    {"profile", Text{&S::profile}, "a file that capstan tune has written, or none"},
    {"save_profile", Text{&S::save_profile},
     "the profile to which the autotuner's times are added"},
    {"schedules", Text{&S::schedules}, "files of schedules, or folders of them"},
    {"progress_thread", Switch{&S::progress_thread},
     "operations progress while the program computes"},
    {"single_copy", Switch{&S::single_copy}, "long data are read from the memory of their owner"},
    {"prove", Switch{&S::prove}, "plans of built-in algorithms are proven before they first run"},
    {"proof_limit", Setting::ProofLimit{}, "the longest proof of one plan; trust: no proof beyond",
     "a time in seconds, for example 5, or trust"},
    {"reproducible", Setting::Choice<Reproducible, 5>{&S::reproducible, reproducible_names},
     "what the bits of sums do not depend on"},
    {"autotune", Switch{&S::autotune}, "calls are timed with several candidates"},
    {"huge_pages", Switch{&S::huge_pages}, "long buffers in repeated use move into huge pages"},
    {"chunk", Setting::Size{&S::chunk, Bytes{4 << 10}, Bytes{64 << 20}},
     "the largest staged block; 0: from the caches", "a size from 4k to 64m, for example 256k"},
    {"pinned_memory", Setting::Size{&S::pinned_memory, Bytes{4 << 10}, gib(1 << 10)},
     "the most page-locked memory for buffers on devices",
     "a size from 4k to 1024g, for example 4g"},
    {"gpu_direct", Setting::Choice<GpuDirectUse, 3>{&S::gpu_direct, {"detect", "always", "never"}},
     "whether network cards access memory of devices"},
    {"device_executor", Switch{&S::device_executor}, "collectives in streams run in kernels"},
    {"buffer_limit", Setting::Size{&S::buffer_limit, Bytes{4 << 10}, gib(1 << 16)},
     "the most bytes from allocate(); 0: half of the memory", "a size from 4k on, for example 8g"},
    {"unexpected_messages", Setting::Size{&S::unexpected_messages, Bytes{0}, gib(1 << 16)},
     "the most bytes of messages that no receive has asked for",
     "a size, for example 64m, or 0: every send waits"},
    {"interface", Text{&S::interface}, "the interface that other hosts reach"},
    {"network", Setting::Choice<Network, 4>{&S::network, network_names},
     "the transport between hosts"},
    {"tcp_congestion", Text{&S::tcp_congestion}, "the congestion control of connections"},
    {"provider", Text{&S::provider}, "libfabric's provider"},
    {"rdma_devices", Text{&S::rdma_devices}, "the devices that carry data to other hosts"},
    {"wire", Setting::Choice<Wire, 3>{&S::wire, wire_names},
     "the protection of data between hosts"},
    {"rails", Setting::Number{&S::rails, 1, 8}, "connections for long data to one peer",
     "a number from 1 to 8"},
    {"virtual_hosts", Setting::Number{&S::virtual_hosts, 0, 1 << 30},
     "pretended hosts, to try several on one; 0: the real ones", "a number from 0 on"},
    {"faults", Text{&S::faults}, "faults to inject, for tests"},
    {"bootstrap", Setting::Choice<Bootstrap, 4>{&S::bootstrap, {"auto", "tcp", "pmix", "pmi"}},
     "how hosts find each other"},
    {"secret", Text{&S::secret, true}, "what ranks share when they meet"},
};

}  // namespace

std::span<const Setting> setting_table() {
  return table;
}

}  // namespace capstan
