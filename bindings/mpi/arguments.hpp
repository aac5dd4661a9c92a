// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>

#include "bindings/mpi/mpi.hpp"

namespace capstan::mpi {

/// The collectives of names.hpp, in its order.
enum class Kind : int {
#define COUNTLESS(Name, name, text) name,
#define COLLECTIVE(Name, name, text) name,
#define FUNCTION(Name)
#include "bindings/mpi/names.hpp"
#undef COUNTLESS
#undef COLLECTIVE
#undef FUNCTION
  count
};

/// Counts or offsets of a program, in either width.
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(const int* narrow) : narrow_(narrow) {}
  template <class Wide>
  explicit Numbers(const Wide* wide) : wide_(wide) {
    static_assert(sizeof(Wide) == sizeof(long long));
  }

  explicit operator bool() const { return narrow_ || wide_; }
  /// Whether they are the same array.
  bool are(const Numbers& others) const {
    return narrow_ == others.narrow_ && wide_ == others.wide_;
  }
  MPI_Count operator[](int i) const {
    if (narrow_) return narrow_[i];
    long long value = 0;
    std::memcpy(&value,
                static_cast<const char*>(wide_) + sizeof value * static_cast<std::size_t>(i),
                sizeof value);
    return static_cast<MPI_Count>(value);
  }

 private:
  const int* narrow_ = nullptr;
  const void* wide_ = nullptr;
};

/// The sending or the receiving half of a call. `count` and `type`, or `counts`, `offsets` and, for
/// an alltoallw, `types` and offsets in bytes.
struct Side {
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
  Numbers counts{}, offsets{};
  const MPI_Datatype* types = nullptr;

  bool in_place() const { return buffer == MPI_IN_PLACE; }
};

/// The arguments of any collective. Reductions have their count and type in `receive`.
struct Arguments {
  Kind kind{};
  MPI_Comm comm{};
  Side send{}, receive{};
  MPI_Op op{};
  int root = 0;
};

bool has_root(Kind kind);
bool reduces(Kind kind);
const char* name_of(Kind kind);

/// From the parameters of each function of MPI to its arguments. Count is int or MPI_Count, Offset
/// int or MPI_Aint.
namespace from {

inline void* address(const void* buffer) {
  return const_cast<void*>(buffer);
}

template <class Count, class Offset>
Arguments barrier(MPI_Comm comm) {
  return {.kind = Kind::barrier, .comm = comm};
}

template <class Count, class Offset>
Arguments bcast(void* buffer, Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  const Side side{.buffer = buffer, .count = count, .type = type};
  return {.kind = Kind::bcast, .comm = comm, .send = side, .receive = side, .root = root};
}

template <Kind kind, class Count>
Arguments reduction(const void* send, void* receive, Count count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm) {
  return {.kind = kind,
          .comm = comm,
          .send = {.buffer = address(send), .count = count, .type = type},
          .receive = {.buffer = receive, .count = count, .type = type},
          .op = op};
}

template <class Count, class Offset>
Arguments reduce(const void* send, void* receive, Count count, MPI_Datatype type, MPI_Op op,
                 int root, MPI_Comm comm) {
  Arguments made = reduction<Kind::reduce>(send, receive, count, type, op, comm);
  made.root = root;
  return made;
}

template <class Count, class Offset>
Arguments allreduce(const void* send, void* receive, Count count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm) {
  return reduction<Kind::allreduce>(send, receive, count, type, op, comm);
}

template <class Count, class Offset>
Arguments scan(const void* send, void* receive, Count count, MPI_Datatype type, MPI_Op op,
               MPI_Comm comm) {
  return reduction<Kind::scan>(send, receive, count, type, op, comm);
}

template <class Count, class Offset>
Arguments exscan(const void* send, void* receive, Count count, MPI_Datatype type, MPI_Op op,
                 MPI_Comm comm) {
  return reduction<Kind::exscan>(send, receive, count, type, op, comm);
}

template <class Count, class Offset>
Arguments reduce_scatter_block(const void* send, void* receive, Count count, MPI_Datatype type,
                               MPI_Op op, MPI_Comm comm) {
  return reduction<Kind::reduce_scatter_block>(send, receive, count, type, op, comm);
}

template <class Count, class Offset>
Arguments reduce_scatter(const void* send, void* receive, const Count counts[], MPI_Datatype type,
                         MPI_Op op, MPI_Comm comm) {
  Arguments made = reduction<Kind::reduce_scatter>(send, receive, 0, type, op, comm);
  made.receive.counts = Numbers{counts};
  return made;
}

template <Kind kind, class Count>
Arguments blocks(const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                 Count receive_count, MPI_Datatype receive_type, MPI_Comm comm, int root = 0) {
  return {.kind = kind,
          .comm = comm,
          .send = {.buffer = address(send), .count = send_count, .type = send_type},
          .receive = {.buffer = receive, .count = receive_count, .type = receive_type},
          .root = root};
}

template <class Count, class Offset>
Arguments gather(const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                 Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
  return blocks<Kind::gather>(send, send_count, send_type, receive, receive_count, receive_type,
                              comm, root);
}

template <class Count, class Offset>
Arguments scatter(const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                  Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
  return blocks<Kind::scatter>(send, send_count, send_type, receive, receive_count, receive_type,
                               comm, root);
}

template <class Count, class Offset>
Arguments allgather(const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                    Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  return blocks<Kind::allgather>(send, send_count, send_type, receive, receive_count, receive_type,
                                 comm);
}

template <class Count, class Offset>
Arguments alltoall(const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                   Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  return blocks<Kind::alltoall>(send, send_count, send_type, receive, receive_count, receive_type,
                                comm);
}

template <class Count, class Offset>
Arguments allgatherv(const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                     const Count counts[], const Offset offsets[], MPI_Datatype receive_type,
                     MPI_Comm comm) {
  Arguments made =
      blocks<Kind::allgatherv, Count>(send, send_count, send_type, receive, 0, receive_type, comm);
  made.receive.counts = Numbers{counts}, made.receive.offsets = Numbers{offsets};
  return made;
}

template <class Count, class Offset>
Arguments gatherv(const void* send, Count send_count, MPI_Datatype send_type, void* receive,
                  const Count counts[], const Offset offsets[], MPI_Datatype receive_type, int root,
                  MPI_Comm comm) {
  Arguments made = blocks<Kind::gatherv, Count>(send, send_count, send_type, receive, 0,
                                                receive_type, comm, root);
  made.receive.counts = Numbers{counts}, made.receive.offsets = Numbers{offsets};
  return made;
}

template <class Count, class Offset>
Arguments scatterv(const void* send, const Count counts[], const Offset offsets[],
                   MPI_Datatype send_type, void* receive, Count receive_count,
                   MPI_Datatype receive_type, int root, MPI_Comm comm) {
  Arguments made = blocks<Kind::scatterv, Count>(send, 0, send_type, receive, receive_count,
                                                 receive_type, comm, root);
  made.send.counts = Numbers{counts}, made.send.offsets = Numbers{offsets};
  return made;
}

template <class Count, class Offset>
Arguments alltoallv(const void* send, const Count send_counts[], const Offset send_offsets[],
                    MPI_Datatype send_type, void* receive, const Count receive_counts[],
                    const Offset receive_offsets[], MPI_Datatype receive_type, MPI_Comm comm) {
  Arguments made =
      blocks<Kind::alltoallv, Count>(send, 0, send_type, receive, 0, receive_type, comm);
  made.send.counts = Numbers{send_counts}, made.send.offsets = Numbers{send_offsets};
  made.receive.counts = Numbers{receive_counts}, made.receive.offsets = Numbers{receive_offsets};
  return made;
}

template <class Count, class Offset>
Arguments alltoallw(const void* send, const Count send_counts[], const Offset send_offsets[],
                    const MPI_Datatype send_types[], void* receive, const Count receive_counts[],
                    const Offset receive_offsets[], const MPI_Datatype receive_types[],
                    MPI_Comm comm) {
  Arguments made =
      alltoallv<Count, Offset>(send, send_counts, send_offsets, MPI_DATATYPE_NULL, receive,
                               receive_counts, receive_offsets, MPI_DATATYPE_NULL, comm);
  made.kind = Kind::alltoallw;
  made.send.types = send_types, made.receive.types = receive_types;
  return made;
}

}  // namespace from

}  // namespace capstan::mpi
