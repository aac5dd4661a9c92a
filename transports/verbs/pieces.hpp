// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/platform/memory/registration/registration_cache.hpp"
#include "transports/verbs/handles.hpp"

namespace capstan::verbs {

/// Memory that is registered piece by piece, when a piece is first used. The device pins registered
/// memory, so a large segment costs nothing until it is used.
class Pieces {
 public:
  /// `access` as for ibv_reg_mr(3). The memory outlives this object.
  Pieces(ibv_pd* domain, std::byte* memory, Bytes size, Bytes piece, int access);

  std::uint64_t count() const { return regions_.size(); }
  std::uint64_t piece_of(std::uint64_t offset) const { return offset / piece_; }
  std::uint64_t end_of(std::uint64_t piece) const { return (piece + 1) * piece_; }
  std::byte* memory() const { return memory_; }
  /// The region of a piece, registered now if it is not yet. Throws SystemError.
  const ibv_mr& at(std::uint64_t piece);

 private:
  ibv_pd* domain_;
  std::byte* memory_;
  std::uint64_t size_;
  std::uint64_t piece_;
  int access_;
  std::vector<MemoryRegion> regions_;
};

/// Registers memory of callers.
class CallerRegistrar final : public Registrar {
 public:
  /// `access` as for ibv_reg_mr(3).
  CallerRegistrar(ibv_pd* domain, int access) : domain_(domain), access_(access) {}
  MemoryKeys register_memory(AddressRange range) override;
  void deregister_memory(const MemoryKeys& keys) noexcept override;

 private:
  ibv_pd* domain_;
  int access_;
};

/// Registers memory. Throws SystemError that says what limits pinned memory.
ibv_mr* pin(ibv_pd* domain, void* memory, std::uint64_t size, int access);

}  // namespace capstan::verbs
