// SPDX-License-Identifier: Apache-2.0

// The functions that AMD's RCCL has beside those of NCCL: librccl.so.1 alone exports them.

#include <cstddef>

#include "bindings/nccl/comm.hpp"
#include "bindings/nccl/group.hpp"
#include "bindings/nccl/result.hpp"

namespace capstan::nccl {
namespace {

/// One side of an exchange with all ranks: counts and distances in elements, by rank.
struct Side {
  const std::size_t* counts;
  const std::size_t* distances;
};

/// Messages without elements are left out, as both sides know of them.
ncclResult_t exchange(const void* send, Side sent, void* receive, Side received,
                      ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  const auto size = static_cast<int>(size_of(type_of(type)).value());
  const int ranks = comm_of(comm)->size();
  if (!sent.counts || !sent.distances || !received.counts || !received.distances)
    throw InvalidArgument("ncclAllToAllv: counts and displacements are not null");
  const auto at = [&](const void* base, std::size_t element) {
    return static_cast<const std::byte*>(base) + element * static_cast<std::size_t>(size);
  };
  for (int peer = 0; peer < ranks; ++peer) {
    ncclResult_t result = ncclSuccess;
    if (sent.counts[peer] != 0)
      result =
          pncclSend(at(send, sent.distances[peer]), sent.counts[peer], type, peer, comm, stream);
    if (result == ncclSuccess && received.counts[peer] != 0)
      result = pncclRecv(const_cast<std::byte*>(at(receive, received.distances[peer])),
                         received.counts[peer], type, peer, comm, stream);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

}  // namespace
}  // namespace capstan::nccl

extern "C" {

ncclResult_t ncclAllToAll(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclAllToAllv(const void*, const size_t*, const size_t*, void*, const size_t*,
                           const size_t*, ncclDataType_t, ncclComm_t, cudaStream_t);

/// RCCL's name of ncclAlltoAll.
ncclResult_t pncclAllToAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return pncclAlltoAll(send, receive, count, type, comm, stream);
}

ncclResult_t pncclAllToAllv(const void* send, const size_t* sent, const size_t* send_distances,
                            void* receive, const size_t* received, const size_t* receive_distances,
                            ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  using namespace capstan::nccl;
  ncclResult_t result = pncclGroupStart();
  if (result != ncclSuccess) return result;
  result = guarded([&] {
    return exchange(send, {sent, send_distances}, receive, {received, receive_distances}, type,
                    comm, stream);
  });
  const ncclResult_t ended = pncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}
}

CAPSTAN_NCCL_EXPORT(AllToAll);
CAPSTAN_NCCL_EXPORT(AllToAllv);
