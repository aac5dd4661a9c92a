// SPDX-License-Identifier: Apache-2.0

// Sums of scaled inputs, memory, and what is accepted without effect.

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "bindings/nccl/comm.hpp"
#include "bindings/nccl/cuda.hpp"
#include "bindings/nccl/result.hpp"
#include "capstan/async/devices.hpp"

namespace capstan::nccl {
namespace {

template <class T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// A float of `exponent_bits` and `fraction_bits`, as stored.
double small_float(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (exponent_bits + fraction_bits) & 1) != 0 ? -1 : 1;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp(fraction + (1U << fraction_bits), exponent - bias - fraction_bits);
  return sign * magnitude;
}

double scalar_of(const void* from, ncclDataType_t type) {
  std::uint64_t copy = 0;  // as large as any
  if (is_device_memory(from)) {
    if (!cuda().read_device)
      throw InvalidArgument("a scalar on a device needs NVIDIA's driver: pass one of the host");
    require_cuda(cuda().read_device(&copy, from, size_of(type_of(type)).value()), "cuMemcpyDtoH");
    from = &copy;
  }
  switch (type) {
    case ncclInt8:
      return read<std::int8_t>(from);
    case ncclUint8:
      return read<std::uint8_t>(from);
    case ncclInt32:
      return read<std::int32_t>(from);
    case ncclUint32:
      return read<std::uint32_t>(from);
    case ncclInt64:
      return static_cast<double>(read<std::int64_t>(from));
    case ncclUint64:
      return static_cast<double>(read<std::uint64_t>(from));
    case ncclFloat16:
      return small_float(read<std::uint16_t>(from), 5, 10);
    case ncclBfloat16:
      return small_float(read<std::uint16_t>(from), 8, 7);
    case ncclFloat8e4m3:
      return small_float(read<std::uint8_t>(from), 4, 3);
    case ncclFloat8e5m2:
      return small_float(read<std::uint8_t>(from), 5, 2);
    case ncclFloat32:
      return read<float>(from);
    case ncclFloat64:
      return read<double>(from);
    default:
      throw InvalidArgument(fmt::format("there is no data type {}", static_cast<int>(type)));
  }
}

ncclResult_t make_scaled_sum(ncclRedOp_t* op, const void* scalar, ncclDataType_t type,
                             ncclScalarResidence_t residence, ncclComm_t handle) {
  const auto comm = comm_of(handle);
  if (!op || !scalar)
    throw InvalidArgument("ncclRedOpCreatePreMulSum: `op` and `scalar` are not null");
  const double now = scalar_of(scalar, type);  // checks the type, too
  if (residence == ncclScalarHostImmediate)
    *op = comm->add_factor([now] { return now; });
  else if (residence == ncclScalarDevice)
    *op = comm->add_factor([scalar, type] { return scalar_of(scalar, type); });
  else
    throw InvalidArgument("ncclRedOpCreatePreMulSum: unknown residence");
  return ncclSuccess;
}

/// Memory of the thread's device, of NVIDIA's or of the stand-in. Null where the thread has none.
void* allocate_on_device(std::size_t size) {
  constexpr std::size_t granule = std::size_t{2} << 20;  // CUDA then begins at a page
  constexpr int out_of_memory = 2;
  if (!cuda().is_stand_in() && (!look_for_devices() || !cuda().malloc)) return nullptr;
  if (!cuda().is_stand_in()) size = (size + granule - 1) / granule * granule;
  void* memory = nullptr;
  if (cuda().malloc(&memory, size) == out_of_memory)
    throw LimitReached(fmt::format("ncclMemAlloc: {} bytes are not to be had", size));
  return memory;
}

/// In whole pages, as NCCL's windows ask for.
ncclResult_t allocate(void** to, std::size_t size) {
  if (!to) throw InvalidArgument("ncclMemAlloc: `ptr` is null");
  constexpr std::size_t page = NCCL_WIN_REQUIRED_ALIGNMENT;
  *to = nullptr;
  if (size > SIZE_MAX / 2) throw LimitReached("ncclMemAlloc: more than any memory");
  *to = allocate_on_device(size);
  if (!*to && !cuda().is_stand_in())
    *to = std::aligned_alloc(page, (size + page - 1) / page * page);
  if (!*to && size > 0)
    throw LimitReached(fmt::format("ncclMemAlloc: {} bytes are not to be had", size));
  return ncclSuccess;
}

ncclResult_t release(void* memory) {
  if (!cuda().is_stand_in() && !is_device_memory(memory))
    std::free(memory);
  else if (cuda().free(memory) != 0)
    throw InvalidArgument("ncclMemFree: this memory is not from ncclMemAlloc, or has been freed");
  return ncclSuccess;
}

}  // namespace
}  // namespace capstan::nccl

using namespace capstan::nccl;

extern "C" {

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded([&] { return make_scaled_sum(op, scalar, type, residence, comm); });
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guarded([&] {
    comm_of(comm)->remove_factor(op);
    return ncclSuccess;
  });
}

ncclResult_t pncclMemAlloc(void** to, size_t size) {
  return guarded([&] { return allocate(to, size); });
}

ncclResult_t pncclMemFree(void* memory) {
  return guarded([&] { return release(memory); });
}

// Capstan finds out by itself which memory is used again: registering changes nothing.
ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buffer, size_t, void** handle) {
  return guarded([&] {
    comm_of(comm);
    if (handle) *handle = buffer;
    return ncclSuccess;
  });
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void*) {
  return guarded([&] {
    comm_of(comm);
    return ncclSuccess;
  });
}

// A null window means that there is none: the buffer is used like any other.
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void*, size_t, ncclWindow_t* window, int) {
  return guarded([&] {
    comm_of(comm);
    if (!window) throw capstan::InvalidArgument("ncclCommWindowRegister: `win` is null");
    *window = nullptr;
    return ncclSuccess;
  });
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  return guarded([&] {
    comm_of(comm);
    return ncclSuccess;
  });
}
}

CAPSTAN_NCCL_EXPORT(RedOpCreatePreMulSum);
CAPSTAN_NCCL_EXPORT(RedOpDestroy);
CAPSTAN_NCCL_EXPORT(MemAlloc);
CAPSTAN_NCCL_EXPORT(MemFree);
CAPSTAN_NCCL_EXPORT(CommRegister);
CAPSTAN_NCCL_EXPORT(CommDeregister);
CAPSTAN_NCCL_EXPORT(CommWindowRegister);
CAPSTAN_NCCL_EXPORT(CommWindowDeregister);
