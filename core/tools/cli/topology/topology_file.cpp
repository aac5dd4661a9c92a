// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/topology/topology_file.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "core/tools/cli/topology/xml.hpp"

namespace capstan::cli {

TopologyFile topology_from_text(const std::string& text, const std::string& path) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos)
    throw InvalidArgument(
        fmt::format("{}:1:1: the file is empty: write one as docs/simulation.md says", path));
  if (text[first] != '<' && !is_wide(text)) return read_cluster_json(text, path);
  const auto elements = xml_elements(text, path);
  const XmlElement& root = elements.front();
  if (root.name == "system") return read_nccl_host(elements, path);
  if (root.name == "topology") return read_hwloc_host(elements, path);
  root.refuse(path, fmt::format("<{}> is neither NCCL's <system> nor hwloc's <topology>: write the "
                                "file by NCCL_TOPO_DUMP_FILE=FILE or lstopo FILE.xml",
                                root.name));
}

}  // namespace capstan::cli
