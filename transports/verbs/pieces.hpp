#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/memory/registration/registration_cache.hpp"
#include "transports/verbs/handles.hpp"

namespace capstan::verbs {

/// Memory that the device is given piece by piece, when a piece is first used: so a large segment
/// costs nothing until touched, although the device pins what it is given.
class Pieces {
 public:
  /// `access` as of ibv_reg_mr. The memory outlives this object.
  Pieces(ibv_pd* domain, std::byte* memory, Bytes size, Bytes piece, int access);

  std::uint64_t count() const { return regions_.size(); }
  std::uint64_t piece_of(std::uint64_t offset) const { return offset / piece_; }
  std::uint64_t end_of(std::uint64_t piece) const { return (piece + 1) * piece_; }
  std::byte* memory() const { return memory_; }
  /// Gives it to the device if that has not been done. Throws SystemError.
  const ibv_mr& at(std::uint64_t piece);

 private:
  ibv_pd* domain_;
  std::byte* memory_;
  std::uint64_t size_;
  std::uint64_t piece_;
  int access_;
  std::vector<MemoryRegion> regions_;
};

/// Gives the device memory of the caller's, to read from.
class SourceRegistrar final : public Registrar {
 public:
  explicit SourceRegistrar(ibv_pd* domain) : domain_(domain) {}
  MemoryKeys register_memory(AddressRange range) override;
  void deregister_memory(const MemoryKeys& keys) noexcept override;

 private:
  ibv_pd* domain_;
};

/// Throws SystemError that says what limits pinned memory.
ibv_mr* pin(ibv_pd* domain, void* memory, std::uint64_t size, int access);

}  // namespace capstan::verbs
