// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "capstan/tensor.hpp"

namespace capstan {

/// NCCL's ncclUniqueId.
struct NcclUniqueId {
  std::array<char, 128> bytes;
};
/// 256 hexadecimal digits.
std::string to_text(const NcclUniqueId& id);
/// Throws InvalidArgument.
NcclUniqueId nccl_unique_id_from(std::string_view backend, std::string_view text);

/// A library with NCCL's interface, loaded at run time: NVIDIA's NCCL, or AMD's RCCL. The functions
/// and numbers are declared here as the versions from 2.7 to the end of 2 have them.
class NcclLibrary {
 public:
  enum class Kind { nccl, rccl };
  using Communicator = void*;
  using Stream = void*;

  /// `path` names a file instead of libnccl.so.2 or librccl.so.1. Throws NotSupported: no such
  /// library, another version, or Capstan under NCCL's name.
  static std::shared_ptr<const NcclLibrary> load(Kind kind, const std::string& path = {});

  int version() const { return version_; }
  std::string_view backend() const { return kind_ == Kind::nccl ? "nccl" : "rccl"; }
  DeviceType device() const { return kind_ == Kind::nccl ? DeviceType::cuda : DeviceType::rocm; }
  /// Throws BackendError for a result that is no success, with the library's text and the last
  /// error of the communicator, which may be null. `call` is "rank 1: nccl: all_reduce(...)".
  void require(int result, const std::string& call, Communicator communicator) const;
  /// The number of a type or operation; -1 where this version has none.
  int type(DataType type) const;
  int operation(ReduceOp op) const;

  struct Functions {
    int (*get_version)(int*);
    int (*get_unique_id)(NcclUniqueId*);
    int (*init_rank)(Communicator*, int ranks, NcclUniqueId, int rank);
    int (*destroy)(Communicator);
    int (*abort)(Communicator);
    int (*async_error)(Communicator, int* result);
    int (*split)(Communicator, int colour, int key, Communicator*, void* config);  ///< may be null
    int (*all_reduce)(const void*, void*, std::size_t, int type, int op, Communicator, Stream);
    int (*broadcast)(const void*, void*, std::size_t, int type, int root, Communicator, Stream);
    int (*reduce)(const void*, void*, std::size_t, int type, int op, int root, Communicator,
                  Stream);
    int (*all_gather)(const void*, void*, std::size_t, int type, Communicator, Stream);
    int (*reduce_scatter)(const void*, void*, std::size_t, int type, int op, Communicator, Stream);
    int (*send)(const void*, std::size_t, int type, int peer, Communicator, Stream);
    int (*receive)(void*, std::size_t, int type, int peer, Communicator, Stream);
    const char* (*error_text)(int);
    const char* (*last_error)(Communicator);  ///< may be null
  };
  const Functions& call() const { return functions_; }

 private:
  NcclLibrary(Kind kind, void* library);
  void find_functions(void* library);
  [[noreturn]] void refuse(const std::string& reason) const;

  Kind kind_;
  int version_ = 0;
  Functions functions_{};
};

}  // namespace capstan
