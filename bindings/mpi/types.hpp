// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bindings/mpi/mpi.hpp"
#include "capstan/types.hpp"

namespace capstan::mpi {

/// A handle of MPI as a number: a pointer or an int.
template <class Handle>
std::uintptr_t number_of(Handle handle) {
  if constexpr (sizeof(Handle) == sizeof(std::uintptr_t))
    return reinterpret_cast<std::uintptr_t>(handle);
  else
    return static_cast<std::uintptr_t>(static_cast<unsigned>(handle));
}

/// The operations that MPI defines for a predefined type depend on its class alone.
enum class TypeClass : std::uint8_t {
  none,
  signed_integer,
  unsigned_integer,
  other_signed,  ///< integers of Fortran, and those that languages share
  real,
  complex,
  logical,
  byte,
  pair
};

/// A datatype, as far as the door has to know it.
struct Layout {
  MPI_Datatype type{};
  std::size_t size = 0;       ///< bytes of data in an element: alike where type signatures are
  std::ptrdiff_t extent = 0;  ///< from one element to the next
  std::ptrdiff_t offset = 0;  ///< from a buffer's address to its first byte
  bool direct = false;        ///< elements lie one after another, in the order of their data
  bool predefined = false;
  TypeClass type_class = TypeClass::none;
  std::optional<DataType> element{};  ///< Capstan's own type, where it has it
};

/// Throws Failed for what is no datatype.
Layout layout_of(MPI_Datatype type);

/// Whether the type is MPI's own; also what is no datatype.
bool is_predefined_type(MPI_Datatype type) noexcept;

/// Plain bytes.
Layout bytes_layout();

/// Copies elements out of a program's buffer, one after another, and back.
void pack(const void* from, MPI_Count count, const Layout& layout, std::byte* to);
void unpack(const std::byte* from, void* to, MPI_Count count, const Layout& layout);

/// The address of a buffer's first byte, where the layout is direct.
inline std::byte* first_byte(const void* buffer, const Layout& layout) {
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + layout.offset;
}

}  // namespace capstan::mpi
