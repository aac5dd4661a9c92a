// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace capstan {

/// Text as it is written in XML: "->" as "-&gt;".
inline std::string xml_text(std::string_view text) {
  std::string safe;
  for (const char c : text)
    safe += c == '>'   ? "&gt;"
            : c == '<' ? "&lt;"
            : c == '&' ? "&amp;"
            : c == '"' ? "&quot;"
                       : std::string{c};
  return safe;
}

}  // namespace capstan
