// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace capstan {

/// A handle of MPI: a pointer or an int.
using MpiHandle = std::uintptr_t;

struct MpiStatus {
  int source;
  int tag;
  std::uint64_t bytes;
};

/// The functions of one MPI library, behind types that do not depend on it: the part of a backend
/// that is compiled once for each mpi.h, into a library that is loaded at run time. An int that is
/// returned is MPI's error code; 0 is success. DataType and ReduceOp pass as their numbers.
struct MpiAdapter {
  static constexpr int current_version = 1;
  static constexpr int text_length = 8192;  ///< of buffers for texts

  int version;
  const char* library;

  bool (*initialized)();
  bool (*finalized)();
  int (*init)(int level, int* got);
  int (*finalize)();
  int (*thread_level)();
  bool (*cuda_aware)();
  void (*version_text)(char* text);
  void (*error_text)(int code, char* text);
  int (*error_class)(int code);
  bool (*is_truncation)(int code);

  MpiHandle (*world)();
  MpiHandle (*communicator_at)(const void* address);
  int (*duplicate)(MpiHandle communicator, MpiHandle* made);
  /// All ranks call it; those that are no members get nothing. Others are in the order of position.
  int (*make_group)(MpiHandle communicator, bool is_member, int position, MpiHandle* made);
  int (*free_communicator)(MpiHandle communicator);
  int (*rank)(MpiHandle communicator);
  int (*size)(MpiHandle communicator);
  int (*highest_tag)(MpiHandle communicator);

  /// False where MPI has no such type or operation.
  bool (*type)(int type, MpiHandle* found);
  bool (*operation)(int op, MpiHandle* found);
  /// A type of so many bytes, made of counts of at most `longest`.
  int (*bytes_type)(std::uint64_t bytes, int longest, MpiHandle* made);
  int (*free_type)(MpiHandle type);

  // Each starts an operation. `in` is null for "in place".
  int (*barrier)(MpiHandle comm, MpiHandle* request);
  int (*broadcast)(void* data, MpiHandle type, int root, MpiHandle comm, MpiHandle* request);
  int (*reduce)(const void* in, void* out, int count, MpiHandle type, MpiHandle op, int root,
                MpiHandle comm, MpiHandle* request);
  int (*all_reduce)(const void* in, void* out, int count, MpiHandle type, MpiHandle op,
                    MpiHandle comm, MpiHandle* request);
  int (*all_gather)(const void* in, void* out, MpiHandle type, MpiHandle comm, MpiHandle* request);
  int (*reduce_scatter)(const void* in, void* out, int count, MpiHandle type, MpiHandle op,
                        MpiHandle comm, MpiHandle* request);
  int (*send)(const void* data, MpiHandle type, int peer, int tag, MpiHandle comm,
              MpiHandle* request);
  int (*receive)(void* data, MpiHandle type, int peer, int tag, MpiHandle comm, MpiHandle* request);
  int (*receive_matched)(void* data, MpiHandle type, MpiHandle* message, MpiHandle* request);

  int (*test)(MpiHandle* request, bool* ended, MpiStatus* status);
  int (*probe)(int peer, int tag, MpiHandle comm, bool* found, MpiStatus* status);
  /// The message is this caller's alone.
  int (*matched_probe)(int peer, int tag, MpiHandle comm, bool* found, MpiHandle* message,
                       MpiStatus* status);
};

/// The one function that such a library exports.
constexpr const char* mpi_adapter_symbol = "capstan_mpi_adapter";

}  // namespace capstan
