// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/world/store_exchange.hpp"
#include "core/engine/world/world.hpp"

namespace capstan {

/// The world of the ranks that meet in a store: they agree on the machine, exchange addresses and
/// connect. All of them call it with the same settings. Throws what the store throws, Mismatch for
/// settings that differ, SystemError.
Member build_world(StoreExchange exchange, const Settings& common);

/// Throws InvalidArgument for time limits that are none. Other settings that are out of range throw
/// where they are used.
void check_times(const Settings& settings);

}  // namespace capstan
