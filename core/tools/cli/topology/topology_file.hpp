// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/schedule/simulation/cluster.hpp"

namespace capstan::cli {

/// The description of a cluster in a file: its hosts, and the network between them.
struct TopologyFile {
  std::string summary;        ///< "8 GPUs with 25 GB/s ..."
  std::string network_place;  ///< where the network stands, for messages: "FILE:LINE:COLUMN"
  int ranks_per_host = 1;
  bool ranks_have_ports = false;  ///< else a host has one for all its ranks
  FabricSpec network{};
  RankCosts costs{};
  LinkClass memory{"memory", 70, 0.06};

  /// The switches of rails join ports of ranks.
  bool port_per_rank() const { return ranks_have_ports || network.kind == "rail"; }
};

/// Reads a cluster as docs/topology-file.schema.json describes it, a host as NCCL writes it
/// (NCCL_TOPO_DUMP_FILE), or a machine as hwloc writes it (lstopo FILE.xml). Throws InvalidArgument
/// that names file, line, column and what to do. "here" is what `capstan calibrate` has measured.
TopologyFile read_topology(const std::string& path);

/// Reads the text of such a file; `path` is for messages.
TopologyFile topology_from_text(const std::string& text, const std::string& path);

/// Reads Capstan's own form.
TopologyFile read_cluster_json(const std::string& text, const std::string& path);

}  // namespace capstan::cli
