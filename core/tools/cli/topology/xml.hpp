// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/cli/topology/topology_file.hpp"

namespace capstan::cli {

/// An element of an XML document, with its place for messages.
struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::size_t line = 0, column = 0;
  int depth = 0;  ///< 0: the root

  /// Null if there is none.
  const std::string* find(std::string_view attribute) const;
  /// Throws InvalidArgument that names the place.
  [[noreturn]] void refuse(const std::string& path, std::string_view what) const;
};

/// The elements of a document in the order in which they open. Throws InvalidArgument where the
/// text is not well-formed, defines entities, or is deeper or longer than machines are.
std::vector<XmlElement> xml_elements(const std::string& text, const std::string& path);

/// Whether a document is in UTF-16, as editors mark it, whatever encoding it names itself.
bool is_wide(std::string_view text);

/// Reads the elements of hwloc's description of a host: a rank on each core.
TopologyFile read_hwloc_host(const std::vector<XmlElement>& elements, const std::string& path);

/// Reads the elements of NCCL's description of a host.
TopologyFile read_nccl_host(const std::vector<XmlElement>& elements, const std::string& path);

}  // namespace capstan::cli
