// SPDX-License-Identifier: Apache-2.0

// The functions of the MPI library whose mpi.h this is compiled with. See adapter_interface.hpp.

#include <mpi.h>
#if defined OPEN_MPI && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <cstring>

#include "capstan/message_info.hpp"
#include "capstan/types.hpp"
#include "core/extras/backends/mpi/adapter_interface.hpp"

namespace capstan {
namespace {

template <class Handle>
MpiHandle packed(Handle handle) {
  static_assert(sizeof handle <= sizeof(MpiHandle));
  MpiHandle result = 0;
  std::memcpy(&result, &handle, sizeof handle);
  return result;
}
template <class Handle>
Handle unpacked(MpiHandle handle) {
  Handle result;
  std::memcpy(&result, &handle, sizeof result);
  return result;
}
MPI_Comm comm(MpiHandle handle) {
  return unpacked<MPI_Comm>(handle);
}
MPI_Datatype type_of(MpiHandle handle) {
  return unpacked<MPI_Datatype>(handle);
}
MPI_Op op_of(MpiHandle handle) {
  return unpacked<MPI_Op>(handle);
}
const void* in_place(const void* in) {
  return in ? in : MPI_IN_PLACE;
}
int peer_of(int peer) {
  return peer == any_source ? MPI_ANY_SOURCE : peer;
}
int tag_of(int tag) {
  return tag == any_tag ? MPI_ANY_TAG : tag;
}

/// Calls start(&request) and hands the request over.
template <class Start>
int started(MpiHandle* request, const Start& start) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = start(&made);
  *request = packed(made);
  return code;
}

MpiStatus status_of(const MPI_Status& status) {
  MPI_Count bytes = 0;
  MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  return {status.MPI_SOURCE, status.MPI_TAG,
          bytes == MPI_UNDEFINED ? 0 : static_cast<std::uint64_t>(bytes)};
}

bool flag(int (*question)(int*)) {
  int value = 0;
  return question(&value) == MPI_SUCCESS && value != 0;
}

MPI_Datatype native_type(DataType type) {
  using enum DataType;
  switch (type) {
    case i8:
      return MPI_INT8_T;
    case u8:
      return MPI_UINT8_T;
    case i32:
      return MPI_INT32_T;
    case u32:
      return MPI_UINT32_T;
    case i64:
      return MPI_INT64_T;
    case u64:
      return MPI_UINT64_T;
    case f32:
      return MPI_FLOAT;
    case f64:
      return MPI_DOUBLE;
    case c64:
      return MPI_C_FLOAT_COMPLEX;
    case c128:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op native_operation(ReduceOp op) {
  using enum ReduceOp;
  switch (op) {
    case sum:
    case average:
      return MPI_SUM;
    case product:
      return MPI_PROD;
    case min:
      return MPI_MIN;
    case max:
      return MPI_MAX;
    case bit_and:
      return MPI_BAND;
    case bit_or:
      return MPI_BOR;
    case bit_xor:
      return MPI_BXOR;
    case logical_and:
      return MPI_LAND;
    case logical_or:
      return MPI_LOR;
    case logical_xor:
      return MPI_LXOR;
  }
  return MPI_OP_NULL;
}

/// Errors are returned instead of ending the job.
int with_errors_returned(int code, MPI_Comm made, MpiHandle* handle) {
  *handle = packed(made);
  return code == MPI_SUCCESS ? MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN) : code;
}

int duplicate(MpiHandle communicator, MpiHandle* made) {
  MPI_Comm copy = MPI_COMM_NULL;
  const int code = MPI_Comm_dup(comm(communicator), &copy);
  return with_errors_returned(code, copy, made);
}

/// By a split: Open MPI's MPI_Comm_create_group uses messages that a receive with any tag takes.
int make_group(MpiHandle communicator, bool is_member, int position, MpiHandle* made) {
  MPI_Comm group = MPI_COMM_NULL;
  const int code =
      MPI_Comm_split(comm(communicator), is_member ? 0 : MPI_UNDEFINED, position, &group);
  *made = packed(group);
  return is_member ? with_errors_returned(code, group, made) : code;
}

int free_communicator(MpiHandle handle) {
  MPI_Comm communicator = comm(handle);
  return MPI_Comm_free(&communicator);
}

int highest_tag(MpiHandle communicator) {
  int* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &found);
  (void)communicator;
  return found ? *value : 32767;  // what the standard promises
}

int committed(MPI_Datatype made, MpiHandle* handle) {
  const int code = MPI_Type_commit(&made);
  *handle = packed(made);
  return code;
}

/// Whole pieces of the longest count, and what is left.
int bytes_type(std::uint64_t bytes, int longest, MpiHandle* handle) {
  const auto piece = static_cast<std::uint64_t>(longest);
  MPI_Datatype whole, rest, made;
  if (bytes <= piece) {
    MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &made);
    return committed(made, handle);
  }
  MPI_Type_contiguous(longest, MPI_BYTE, &whole);
  MPI_Type_contiguous(static_cast<int>(bytes % piece), MPI_BYTE, &rest);
  const int counts[] = {static_cast<int>(bytes / piece), 1};
  const MPI_Aint offsets[] = {0, static_cast<MPI_Aint>(bytes / piece * piece)};
  const MPI_Datatype types[] = {whole, rest};
  const int code = MPI_Type_create_struct(2, counts, offsets, types, &made);
  MPI_Type_free(&whole);
  MPI_Type_free(&rest);
  return code == MPI_SUCCESS ? committed(made, handle) : code;
}

int free_type(MpiHandle handle) {
  MPI_Datatype type = type_of(handle);
  return MPI_Type_free(&type);
}

bool cuda_aware() {
#if defined OPEN_MPI && defined MPIX_CUDA_AWARE_SUPPORT || defined MPICH_VERSION
  return flag(MPI_Initialized) && !flag(MPI_Finalized) && MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

/// While it exists, errors that belong to no communicator are returned. MPICH reports those of
/// requests that have ended so, and would end the job.
class ErrorsReturned {
 public:
  ErrorsReturned() {
    for (Saved& each : saved_) {
      MPI_Comm_get_errhandler(each.communicator, &each.handler);
      MPI_Comm_set_errhandler(each.communicator, MPI_ERRORS_RETURN);
    }
  }
  ~ErrorsReturned() {
    for (Saved& each : saved_) {
      MPI_Comm_set_errhandler(each.communicator, each.handler);
      MPI_Errhandler_free(&each.handler);
    }
  }
  ErrorsReturned(const ErrorsReturned&) = delete;

 private:
  struct Saved {
    MPI_Comm communicator;
    MPI_Errhandler handler;
  };
  Saved saved_[2] = {{MPI_COMM_WORLD, MPI_ERRHANDLER_NULL}, {MPI_COMM_SELF, MPI_ERRHANDLER_NULL}};
};

int test(MpiHandle* request, bool* ended, MpiStatus* status) {
#ifdef MPICH_VERSION
  const ErrorsReturned returned;
#endif
  auto native = unpacked<MPI_Request>(*request);
  MPI_Status found;
  int done = 0;
  const int code = MPI_Test(&native, &done, &found);
  *request = packed(native);
  *ended = done != 0;
  if (done) *status = status_of(found);
  return code;
}

int probe(int peer, int tag, MpiHandle communicator, bool* found, MpiStatus* status) {
  MPI_Status seen;
  int done = 0;
  const int code = MPI_Iprobe(peer_of(peer), tag_of(tag), comm(communicator), &done, &seen);
  *found = done != 0;
  if (done) *status = status_of(seen);
  return code;
}

int matched_probe(int peer, int tag, MpiHandle communicator, bool* found, MpiHandle* message,
                  MpiStatus* status) {
  MPI_Status seen;
  MPI_Message taken = MPI_MESSAGE_NULL;
  int done = 0;
  const int code =
      MPI_Improbe(peer_of(peer), tag_of(tag), comm(communicator), &done, &taken, &seen);
  *found = done != 0;
  *message = packed(taken);
  if (done) *status = status_of(seen);
  return code;
}

int error_class(int code) {
  int found = code;
  MPI_Error_class(code, &found);
  return found;
}

constexpr MpiAdapter make_adapter() {
  MpiAdapter a{};
  a.version = MpiAdapter::current_version;
#ifdef OPEN_MPI
  a.library = "Open MPI";
#else
  a.library = "MPICH";
#endif
  a.initialized = [] { return flag(MPI_Initialized); };
  a.finalized = [] { return flag(MPI_Finalized); };
  a.init = [](int level, int* got) {
    constexpr int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                              MPI_THREAD_MULTIPLE};
    return MPI_Init_thread(nullptr, nullptr, levels[level], got);
  };
  a.finalize = [] { return MPI_Finalize(); };
  a.thread_level = [] {
    int level = 0;
    MPI_Query_thread(&level);
    return level;
  };
  a.cuda_aware = cuda_aware;
  a.version_text = [](char* text) {
    int length = 0;
    MPI_Get_library_version(text, &length);
  };
  a.error_text = [](int code, char* text) {
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) *text = '\0';
  };
  a.error_class = error_class;
  a.is_truncation = [](int code) { return error_class(code) == MPI_ERR_TRUNCATE; };
  a.world = [] { return packed(MPI_COMM_WORLD); };
  a.communicator_at = [](const void* address) {
    return packed(*static_cast<const MPI_Comm*>(address));
  };
  a.duplicate = duplicate;
  a.make_group = make_group;
  a.free_communicator = free_communicator;
  a.rank = [](MpiHandle c) {
    int rank = 0;
    MPI_Comm_rank(comm(c), &rank);
    return rank;
  };
  a.size = [](MpiHandle c) {
    int size = 0;
    MPI_Comm_size(comm(c), &size);
    return size;
  };
  a.highest_tag = highest_tag;
  a.type = [](int type, MpiHandle* found) {
    const MPI_Datatype native = native_type(static_cast<DataType>(type));
    *found = packed(native);
    return native != MPI_DATATYPE_NULL;
  };
  a.operation = [](int op, MpiHandle* found) {
    const MPI_Op native = native_operation(static_cast<ReduceOp>(op));
    *found = packed(native);
    return native != MPI_OP_NULL;
  };
  a.bytes_type = bytes_type;
  a.free_type = free_type;
  a.barrier = [](MpiHandle c, MpiHandle* request) {
    return started(request, [&](MPI_Request* made) { return MPI_Ibarrier(comm(c), made); });
  };
  a.broadcast = [](void* data, MpiHandle type, int root, MpiHandle c, MpiHandle* request) {
    return started(request, [&](MPI_Request* made) {
      return MPI_Ibcast(data, 1, type_of(type), root, comm(c), made);
    });
  };
  a.reduce = [](const void* in, void* out, int count, MpiHandle type, MpiHandle op, int root,
                MpiHandle c, MpiHandle* request) {
    return started(request, [&](MPI_Request* made) {
      return MPI_Ireduce(in_place(in), out, count, type_of(type), op_of(op), root, comm(c), made);
    });
  };
  a.all_reduce = [](const void* in, void* out, int count, MpiHandle type, MpiHandle op, MpiHandle c,
                    MpiHandle* request) {
    return started(request, [&](MPI_Request* made) {
      return MPI_Iallreduce(in_place(in), out, count, type_of(type), op_of(op), comm(c), made);
    });
  };
  a.all_gather = [](const void* in, void* out, MpiHandle type, MpiHandle c, MpiHandle* request) {
    return started(request, [&](MPI_Request* made) {
      return MPI_Iallgather(in_place(in), in ? 1 : 0, type_of(type), out, 1, type_of(type), comm(c),
                            made);
    });
  };
  a.reduce_scatter = [](const void* in, void* out, int count, MpiHandle type, MpiHandle op,
                        MpiHandle c, MpiHandle* request) {
    return started(request, [&](MPI_Request* made) {
      return MPI_Ireduce_scatter_block(in, out, count, type_of(type), op_of(op), comm(c), made);
    });
  };
  a.send = [](const void* data, MpiHandle type, int peer, int tag, MpiHandle c,
              MpiHandle* request) {
    return started(request, [&](MPI_Request* made) {
      return MPI_Isend(data, 1, type_of(type), peer, tag, comm(c), made);
    });
  };
  a.receive = [](void* data, MpiHandle type, int peer, int tag, MpiHandle c, MpiHandle* request) {
    return started(request, [&](MPI_Request* made) {
      return MPI_Irecv(data, 1, type_of(type), peer_of(peer), tag_of(tag), comm(c), made);
    });
  };
  a.receive_matched = [](void* data, MpiHandle type, MpiHandle* message, MpiHandle* request) {
    auto taken = unpacked<MPI_Message>(*message);
    return started(request, [&](MPI_Request* made) {
      return MPI_Imrecv(data, 1, type_of(type), &taken, made);
    });
  };
  a.test = test;
  a.probe = probe;
  a.matched_probe = matched_probe;
  return a;
}

}  // namespace
}  // namespace capstan

extern "C" __attribute__((visibility("default"))) const capstan::MpiAdapter* capstan_mpi_adapter() {
  static constexpr capstan::MpiAdapter adapter = capstan::make_adapter();
  return &adapter;
}
