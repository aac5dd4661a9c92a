// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/nccl/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "capstan/backends/errors.hpp"
#include "capstan/backends/nccl.hpp"

namespace capstan {
namespace {

// Versions are major * 10000 + minor * 100 + patch, from 2.9 on.
constexpr int oldest = 2700;        // 2.7: the first that sends and receives
constexpr int newest = 29999;       // the end of major version 2
constexpr int with_bf16 = 21000;    // 2.10: also averages
constexpr int with_float8 = 22400;  // 2.24

/// The symbol that Capstan's own libnccl.so.2 exports beside NCCL's functions (bindings/nccl).
constexpr const char* mark_of_capstan = "ncclIsCapstan";

struct Names {
  const char* title;
  std::vector<std::string> files;
};

Names names_of(NcclLibrary::Kind kind) {
  if (kind == NcclLibrary::Kind::nccl) return {"NCCL", {"libnccl.so.2"}};
  return {"RCCL", {"librccl.so.1"}};
}

std::string_view name_of(NcclLibrary::Kind kind) {
  return kind == NcclLibrary::Kind::nccl ? "nccl" : "rccl";
}

}  // namespace

std::string to_text(const NcclUniqueId& id) {
  std::string text;
  for (const char byte : id.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}

NcclUniqueId nccl_unique_id_from(std::string_view backend, std::string_view text) {
  NcclUniqueId id{};
  bool good = text.size() == 2 * id.bytes.size();
  for (std::size_t i = 0; good && i < id.bytes.size(); ++i) {
    unsigned value = 0;
    const char* const begin = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    good = error == std::errc{} && end == begin + 2;
    id.bytes[i] = static_cast<char>(value);
  }
  if (!good)
    throw InvalidArgument(
        fmt::format("{}: unique_id: this is none: one rank makes it by "
                    "create_{}_unique_id(), and passes it to the others",
                    backend, backend));
  return id;
}

std::shared_ptr<const NcclLibrary> NcclLibrary::load(Kind kind, const std::string& path) {
  const Names names = names_of(kind);
  std::string errors;
  for (const std::string& file : path.empty() ? names.files : std::vector{path}) {
    if (void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
      return std::shared_ptr<const NcclLibrary>{new NcclLibrary{kind, library}};
    const char* const error = ::dlerror();
    errors += fmt::format("{}{}", errors.empty() ? "" : "; ", error ? error : file);
  }
  throw NotSupported(name_of(kind),
                     fmt::format("{}: {} cannot be loaded: {}: install {}, or name its file by the "
                                 "key library",
                                 name_of(kind), names.title, errors, names.title));
}

NcclLibrary::NcclLibrary(Kind kind, void* library) : kind_(kind) {
  if (::dlsym(library, mark_of_capstan))
    refuse(
        "what was loaded is Capstan under NCCL's name: use the backend capstan, or name the "
        "vendor's file by the key library");
  find_functions(library);
  require(functions_.get_version(&version_), "nccl: ncclGetVersion", nullptr);
  if (version_ < oldest || version_ > newest)
    refuse(fmt::format("its version {} is not one of 2.7 to 2.99: install another", version_));
}

void NcclLibrary::refuse(const std::string& reason) const {
  throw NotSupported(backend(), fmt::format("{}: {}", backend(), reason));
}

void NcclLibrary::find_functions(void* library) {
  const auto find = [&](auto*& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
  };
  const auto need = [&](auto*& function, const char* name) {
    find(function, name);
    if (!function) refuse(fmt::format("the library has no {}: install another version", name));
  };
  need(functions_.get_version, "ncclGetVersion");
  need(functions_.get_unique_id, "ncclGetUniqueId");
  need(functions_.init_rank, "ncclCommInitRank");
  need(functions_.destroy, "ncclCommDestroy");
  need(functions_.abort, "ncclCommAbort");
  need(functions_.async_error, "ncclCommGetAsyncError");
  need(functions_.all_reduce, "ncclAllReduce");
  need(functions_.broadcast, "ncclBroadcast");
  need(functions_.reduce, "ncclReduce");
  need(functions_.all_gather, "ncclAllGather");
  need(functions_.reduce_scatter, "ncclReduceScatter");
  need(functions_.send, "ncclSend");
  need(functions_.receive, "ncclRecv");
  need(functions_.error_text, "ncclGetErrorString");
  find(functions_.split, "ncclCommSplit");
  find(functions_.last_error, "ncclGetLastError");
}

void NcclLibrary::require(int result, const std::string& call, Communicator communicator) const {
  constexpr int in_progress = 7;
  if (result == 0 || result == in_progress) return;
  std::string text = functions_.error_text(result);
  if (functions_.last_error)
    if (const char* last = functions_.last_error(communicator); last && *last)
      text += fmt::format(" ({})", last);
  throw BackendError(backend(), result,
                     fmt::format("{}: {} says: {}", call, names_of(kind_).title, text));
}

int NcclLibrary::type(DataType type) const {
  using enum DataType;
  switch (type) {
    case i8:
      return 0;
    case u8:
      return 1;
    case i32:
      return 2;
    case u32:
      return 3;
    case i64:
      return 4;
    case u64:
      return 5;
    case f16:
      return 6;
    case f32:
      return 7;
    case f64:
      return 8;
    case bf16:
      return version_ >= with_bf16 ? 9 : -1;
    case f8_e4m3:
      return version_ >= with_float8 ? 10 : -1;
    case f8_e5m2:
      return version_ >= with_float8 ? 11 : -1;
    default:
      return -1;
  }
}

int NcclLibrary::operation(ReduceOp op) const {
  using enum ReduceOp;
  switch (op) {
    case sum:
      return 0;
    case product:
      return 1;
    case max:
      return 2;
    case min:
      return 3;
    case average:
      return version_ >= with_bf16 ? 4 : -1;
    default:
      return -1;
  }
}

namespace {

std::string create_id(NcclLibrary::Kind kind, const std::string& path) {
  const auto library = NcclLibrary::load(kind, path);
  NcclUniqueId id{};
  library->require(library->call().get_unique_id(&id),
                   fmt::format("{}: ncclGetUniqueId", library->backend()), nullptr);
  return to_text(id);
}

}  // namespace

std::string create_nccl_unique_id(const std::string& library) {
  return create_id(NcclLibrary::Kind::nccl, library);
}
std::string create_rccl_unique_id(const std::string& library) {
  return create_id(NcclLibrary::Kind::rccl, library);
}
int nccl_version(const std::string& library) {
  return NcclLibrary::load(NcclLibrary::Kind::nccl, library)->version();
}
int rccl_version(const std::string& library) {
  return NcclLibrary::load(NcclLibrary::Kind::rccl, library)->version();
}

}  // namespace capstan
