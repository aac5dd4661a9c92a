// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/soundness.hpp"

#include <string>

#include "bindings/mpi/types.hpp"

namespace capstan::mpi {
namespace {

bool is_gather(Kind kind) {
  return kind == Kind::gather || kind == Kind::gatherv;
}
bool is_scatter(Kind kind) {
  return kind == Kind::scatter || kind == Kind::scatterv;
}

bool is_sound(const Side& side, const Place& place) {
  if (side.in_place()) return true;
  if (side.types || side.counts) {
    for (int peer = 0; peer < place.size; ++peer)
      if (side.counts[peer] < 0 || (side.types && side.types[peer] == MPI_DATATYPE_NULL))
        return false;
    return side.types || side.type != MPI_DATATYPE_NULL;
  }
  if (side.type == MPI_DATATYPE_NULL || side.count < 0) return false;
  return side.buffer || side.count == 0 || !layout_of(side.type).predefined;
}

/// MPI_IN_PLACE stands for the shorter side, and with roots on the root alone.
bool is_in_place_where_allowed(const Arguments& a, bool is_root) {
  if (a.kind == Kind::bcast) return !a.send.in_place();
  if (is_scatter(a.kind)) return !a.send.in_place() && (is_root || !a.receive.in_place());
  return !a.receive.in_place() && (is_root || !has_root(a.kind) || !a.send.in_place());
}

/// Whether MPI refuses buffers that begin at the same address: MPICH and its kin always.
bool refuses_aliases() {
#ifdef OPEN_MPI
  return false;
#else
  static const bool refuses = [] {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    require(calls.Get_library_version(version, &length));
    const std::string text = version;
    return text.find("MPICH") != std::string::npos ||
           text.find("Intel(R) MPI") != std::string::npos;
  }();
  return refuses;
#endif
}

/// Open MPI refuses them here alone.
bool is_alias_for_open_mpi(const Arguments& a, bool is_root) {
#ifdef OPEN_MPI
  if (a.send.buffer != a.receive.buffer || a.send.in_place()) return false;
  return (a.kind == Kind::allreduce && a.receive.count > 1) ||
         (a.kind == Kind::reduce && is_root && a.receive.count > 0);
#else
  static_cast<void>(a), static_cast<void>(is_root);
  return false;
#endif
}

MPI_Count reduced_elements(const Arguments& a, const Place& place) {
  if (!a.receive.counts) return a.receive.count;
  MPI_Count all = 0;
  for (int peer = 0; peer < place.size; ++peer) all += a.receive.counts[peer];
  return all;
}

/// Whether one side is this rank's block of the other one, as MPICH finds it.
bool is_own_block(const Side& one, const Side& all, int rank) {
  if (one.type != all.type || one.count == 0) return false;
  if (all.counts ? all.counts[rank] == 0 : all.count != one.count) return false;
  const MPI_Count before = all.counts ? all.offsets[rank] : all.count * rank;
  return static_cast<const std::byte*>(one.buffer) ==
         static_cast<const std::byte*>(all.buffer) +
             before * static_cast<std::ptrdiff_t>(layout_of(all.type).size);
}

bool is_aliased(const Arguments& a, const Place& place, bool is_root) {
  const Side &send = a.send, &receive = a.receive;
  if (a.kind == Kind::bcast || send.in_place() || receive.in_place()) return false;
  if (has_root(a.kind) && !is_root) return false;
  if (is_scatter(a.kind)) return is_own_block(receive, send, place.rank);
  if (is_gather(a.kind) || a.kind == Kind::allgather || a.kind == Kind::allgatherv)
    return is_own_block(send, receive, place.rank);
  if (send.buffer != receive.buffer) return false;
  if (reduces(a.kind)) return reduced_elements(a, place) > 0;
  if (a.kind == Kind::alltoall)
    return send.type == receive.type && send.count == receive.count && send.count != 0;
  return send.counts.are(receive.counts) && send.types == receive.types &&
         send.type == receive.type;
}

}  // namespace

bool is_sound(const Arguments& a, Place place) {
  if (a.kind == Kind::barrier) return true;
  if (has_root(a.kind) && (a.root < 0 || a.root >= place.size)) return false;
  const bool is_root = a.root == place.rank;
  if (!is_in_place_where_allowed(a, is_root)) return false;
  if (reduces(a.kind)) {
    if (a.op == MPI_OP_NULL || a.receive.type == MPI_DATATYPE_NULL || a.receive.count < 0)
      return false;
    for (int peer = 0; a.receive.counts && peer < place.size; ++peer)
      if (a.receive.counts[peer] < 0) return false;
  } else if (!((is_scatter(a.kind) && !is_root) || is_sound(a.send, place)) ||
             !((is_gather(a.kind) && !is_root) || is_sound(a.receive, place))) {
    return false;
  }
  if (is_alias_for_open_mpi(a, is_root)) return false;
  return !(refuses_aliases() && is_aliased(a, place, is_root));
}

}  // namespace capstan::mpi
