// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "capstan/export.hpp"
#include "capstan/tensor.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The configuration of a backend. Every member has a default.
struct BackendConfig {
  /// "world_size" and "rank". Without them mock, nccl and rccl make a world of one rank; capstan
  /// and mpi take what the launcher says, and refuse with InvalidArgument what differs from it.
  std::optional<int> world_size{};
  std::optional<int> rank{};
  /// "device": "cpu", "cuda:1", "rocm:0". nccl and rccl use device 0 of their kind if it is "cpu".
  Device device{};
  /// "unique_id": what the ranks of one world share. Of capstan a UniqueId as text, of nccl and
  /// rccl what create_nccl_unique_id() gave, of mock any text. mpi has none.
  std::string unique_id{};
  /// "timeout", in seconds: how long an operation waits for other ranks.
  std::chrono::milliseconds timeout = std::chrono::seconds{300};
  /// All other keys, which backends define: docs/backends.md lists them. A backend refuses those
  /// that it does not know.
  std::map<std::string, std::string> options{};

  /// From the keys named above: {{"world_size", "4"}, {"rank", "0"}}. Throws InvalidArgument that
  /// names the key, its value and what it should look like.
  static BackendConfig from_keys(const std::map<std::string, std::string>& keys);
};

/// "cpu", "cuda:1".
std::string to_string(const Device& device);

}  // namespace CAPSTAN_EXPORT capstan
