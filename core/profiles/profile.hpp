// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/memory_kind.hpp"
#include "core/schedule/selection/measured_times.hpp"
#include "core/schedule/selection/model_scale.hpp"
#include "topology/machine.hpp"

namespace capstan {

/// A machine as far as it decides which candidate is the fastest.
struct Fingerprint {
  std::string id;           ///< 16 hexadecimal digits of the description
  std::string description;  ///< "AMD EPYC, 1 package, 1 NUMA node, 4 cores, L2 512 KiB, ..."

  static Fingerprint of(const Machine& machine);
};

/// Cells that were measured together.
struct MeasuredGroup {
  int ranks = 0, hosts = 1;
  std::string network{};     ///< between hosts: "tcp", "ofi" or "verbs"; empty on one host
  std::string date{};        ///< UTC, as 2026-11-25T06:00:00Z
  std::string under_load{};  ///< the command that ran beside; empty: none
  std::vector<MeasuredCell> cells{};
  std::optional<ModelScale> model{};  ///< fitted to what was measured; none: nothing was fitted
  std::string command{};              ///< that measured the last cell
  std::string commit{};               ///< of its program; empty: unknown
  std::string machine{};              ///< MachineState::text() meanwhile
  /// The farthest link between the devices whose memory the calls lay in; none: memory of the host.
  std::optional<DeviceLink> devices{};

  /// Whether the calls of both groups run alike.
  bool is_like(const MeasuredGroup& other) const {
    return ranks == other.ranks && hosts == other.hosts && network == other.network &&
           devices == other.devices;
  }
  /// The cell of these calls; null if there is none.
  const MeasuredCell* find(Collective collective, Bytes bytes) const;
  /// Adds a cell in the place of the one of the same calls, if there is one. One that decides does
  /// not give way to one that does not. Returns whether the cell was added.
  bool put(MeasuredCell cell);
};

/// "4 ranks on 1 host", "4 ranks on 2 hosts over tcp", "4 ranks on 1 host, in memory of devices
/// over NVLink or xGMI".
std::string name_of(const MeasuredGroup& group);

/// The measurements of `capstan tune` on one machine. docs/profile.schema.json describes the file.
struct Profile {
  static constexpr int format = 1;

  std::string version;  ///< of Capstan
  Fingerprint machine;
  std::vector<MeasuredGroup> groups{};

  /// The group, or a new one.
  MeasuredGroup& group(int ranks, int hosts, const std::string& network,
                       std::optional<DeviceLink> devices = {});
};

/// Reads a profile. Throws InvalidArgument: "FILE:LINE:COLUMN: what is wrong; remedy".
Profile parse_profile(std::string_view text, const std::string& file);
std::string to_json(const Profile& profile);

/// The times in a profile of calls between hosts over this network, and on one host; or of calls on
/// memory of devices with such links. `file` is named in explanations.
MeasuredTimes measured_times(const Profile& profile, const std::string& network,
                             const std::string& file, std::optional<DeviceLink> devices = {});

/// The scales of the model in a profile, for the same calls.
ModelScales model_scales(const Profile& profile, const std::string& network,
                         std::optional<DeviceLink> devices = {});

/// Why a profile says nothing about this machine and this version; empty: it does.
std::string mismatch(const Profile& profile, const Fingerprint& machine);

}  // namespace capstan
