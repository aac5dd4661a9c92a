// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/factories.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace capstan {

Seat seat_of(std::string_view backend, const BackendConfig& config) {
  const Seat seat{config.world_size.value_or(1), config.rank.value_or(0)};
  if (seat.world_size < 1)
    throw InvalidArgument(
        fmt::format("{}: world_size={}: pass 1 or more", backend, seat.world_size));
  if (seat.rank < 0 || seat.rank >= seat.world_size)
    throw InvalidArgument(fmt::format("{}: rank={}: pass 0 to {}, for a world_size of {}", backend,
                                      seat.rank, seat.world_size - 1, seat.world_size));
  return seat;
}

void require_known_options(std::string_view backend, const BackendConfig& config,
                           std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : config.options)
    if (std::ranges::find(known, key) == known.end())
      throw InvalidArgument(fmt::format(
          "{}: unknown key '{}': it has world_size, rank, device, unique_id, timeout{}{}", backend,
          key, known.size() == 0 ? "" : ", ", fmt::join(known, ", ")));
}

}  // namespace capstan
