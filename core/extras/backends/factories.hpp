// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "capstan/backends/factory.hpp"

namespace capstan {

std::shared_ptr<const BackendFactory> capstan_factory();
std::shared_ptr<const BackendFactory> mpi_factory();
std::shared_ptr<const BackendFactory> nccl_factory();
std::shared_ptr<const BackendFactory> rccl_factory();
std::shared_ptr<const BackendFactory> mock_factory();

inline std::vector<std::shared_ptr<const BackendFactory>> own_factories() {
  return {capstan_factory(), nccl_factory(), rccl_factory(), mpi_factory(), mock_factory()};
}

/// A world's size and this rank, with the defaults of one rank.
struct Seat {
  int world_size, rank;
};
/// Throws InvalidArgument for a rank that the world does not have.
Seat seat_of(std::string_view backend, const BackendConfig& config);

/// Throws InvalidArgument for an option that is none of these.
void require_known_options(std::string_view backend, const BackendConfig& config,
                           std::initializer_list<std::string_view> known);

}  // namespace capstan
