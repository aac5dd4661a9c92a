// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/store_address.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"

namespace capstan {
namespace {

constexpr std::string_view refusal = "! ";

}  // namespace

std::string to_text(const StoreAddress& address) {
  if (!address.refusal.empty()) return fmt::format("{}{}", refusal, address.refusal);
  return fmt::format("{} {}", to_string(address.endpoint), address.secret);
}

StoreAddress parse_store_address(std::string_view text) {
  if (text.starts_with(refusal) && text.size() > refusal.size())
    return {.refusal = std::string{text.substr(refusal.size())}};
  const auto blank = text.find(' ');
  if (blank == text.npos || blank + 1 == text.size())
    throw BootstrapError(
        "what rank 0 left for the others is no address and secret: use the same release of "
        "Capstan on all ranks");
  try {
    return {.endpoint = parse_endpoint(text.substr(0, blank), "what rank 0 left for the others"),
            .secret = std::string{text.substr(blank + 1)}};
  } catch (const InvalidArgument& error) {
    throw BootstrapError(error.what());
  }
}

}  // namespace capstan
