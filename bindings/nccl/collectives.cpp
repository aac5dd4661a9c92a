// SPDX-License-Identifier: Apache-2.0

// Collectives and messages: each becomes a request of Capstan.

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "bindings/nccl/group.hpp"
#include "bindings/nccl/result.hpp"

namespace capstan::nccl {

DataType type_of(ncclDataType_t type) {
  static constexpr std::array types = {DataType::i8,   DataType::u8,      DataType::i32,
                                       DataType::u32,  DataType::i64,     DataType::u64,
                                       DataType::f16,  DataType::f32,     DataType::f64,
                                       DataType::bf16, DataType::f8_e4m3, DataType::f8_e5m2};
  const auto index = static_cast<std::size_t>(type);
  if (index >= types.size())
    throw InvalidArgument(fmt::format("there is no data type {}", static_cast<int>(type)));
  return types[index];
}

namespace {

/// One call, by the counts of NCCL: `block` elements for each rank.
struct Arguments {
  Collective collective;
  const void* send;
  void* receive;
  std::size_t send_count, receive_count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

ncclResult_t call(ncclComm_t handle, cudaStream_t stream, const Arguments& arguments) {
  const auto comm = comm_of(handle);
  Request request;
  request.collective = arguments.collective;
  request.type = type_of(arguments.type);
  request.input = arguments.send;
  request.input_count = Elements{arguments.send_count};
  request.output = arguments.receive;
  request.output_count = Elements{arguments.receive_count};
  request.root = arguments.root;
  if (reduces(arguments.collective)) request.reducer = comm->reducer(arguments.op);
  return submit(comm, stream, request);
}

std::size_t of_all(ncclComm_t handle, std::size_t block) {
  return block * static_cast<std::size_t>(comm_of(handle)->size());
}

ncclResult_t message(ncclComm_t handle, cudaStream_t stream, bool sends, void* data,
                     std::size_t count, ncclDataType_t type, int peer) {
  const auto comm = comm_of(handle);
  if (peer < 0 || peer >= comm->size())
    throw InvalidArgument(fmt::format("rank {}: {} rank {}: ranks are 0 to {}", comm->rank(),
                                      sends ? "ncclSend to" : "ncclRecv from", peer,
                                      comm->size() - 1));
  return submit(
      comm, stream,
      Message{sends, peer, 0, type_of(type), count == 0 ? nullptr : data, Elements{count}});
}

}  // namespace
}  // namespace capstan::nccl

using namespace capstan::nccl;
using capstan::Collective;

extern "C" {

ncclResult_t pncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return call(comm, stream, {Collective::all_reduce, send, receive, count, count, type, op});
  });
}

ncclResult_t pncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return call(comm, stream, {Collective::reduce, send, receive, count, count, type, op, root});
  });
}

ncclResult_t pncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return call(comm, stream,
                {Collective::broadcast, send, receive, count, count, type, ncclSum, root});
  });
}

ncclResult_t pncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return pncclBroadcast(data, data, count, type, root, comm, stream);
}

ncclResult_t pncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                            ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return call(comm, stream,
                {Collective::all_gather, send, receive, count, of_all(comm, count), type});
  });
}

ncclResult_t pncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return call(comm, stream,
                {Collective::reduce_scatter, send, receive, of_all(comm, count), count, type, op});
  });
}

ncclResult_t pncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    const std::size_t all = of_all(comm, count);
    return call(comm, stream, {Collective::all_to_all, send, receive, all, all, type});
  });
}

ncclResult_t pncclGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return call(
        comm, stream,
        {Collective::gather, send, receive, count, of_all(comm, count), type, ncclSum, root});
  });
}

ncclResult_t pncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                          int root, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return call(
        comm, stream,
        {Collective::scatter, send, receive, of_all(comm, count), count, type, ncclSum, root});
  });
}

ncclResult_t pncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return guarded(
      [&] { return message(comm, stream, true, const_cast<void*>(data), count, type, peer); });
}

ncclResult_t pncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return guarded([&] { return message(comm, stream, false, data, count, type, peer); });
}
}

CAPSTAN_NCCL_EXPORT(AllReduce);
CAPSTAN_NCCL_EXPORT(Reduce);
CAPSTAN_NCCL_EXPORT(Broadcast);
CAPSTAN_NCCL_EXPORT(Bcast);
CAPSTAN_NCCL_EXPORT(AllGather);
CAPSTAN_NCCL_EXPORT(ReduceScatter);
CAPSTAN_NCCL_EXPORT(AlltoAll);
CAPSTAN_NCCL_EXPORT(Gather);
CAPSTAN_NCCL_EXPORT(Scatter);
CAPSTAN_NCCL_EXPORT(Send);
CAPSTAN_NCCL_EXPORT(Recv);
