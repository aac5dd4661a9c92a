// SPDX-License-Identifier: Apache-2.0

/* The names that programs with kernels of their own for NCCL's device interface use, nccl-tests
 * among them. They compile by nvcc, and run as long as they leave those kernels alone. Capstan has
 * no windows and no device communicators: ncclDevCommCreate() and ncclCommQueryProperties() answer
 * ncclInvalidUsage, and a kernel that calls one of these functions all the same traps. */
#ifndef CAPSTAN_NCCL_DEVICE_H_
#define CAPSTAN_NCCL_DEVICE_H_

#include <stdbool.h>

#include "nccl.h"

typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;
typedef unsigned ncclGinSignal_t;
typedef struct ncclLsaBarrierHandle {
  unsigned index;
} ncclLsaBarrierHandle_t;

typedef enum { NCCL_GIN_TYPE_NONE = 0 } ncclGinType_t;
typedef enum { NCCL_GIN_CONNECTION_NONE = 0, NCCL_GIN_CONNECTION_FULL = 1 } ncclGinConnectionType_t;

typedef struct ncclCommProperties {
  int rank, nRanks, cudaDev, nvmlDev;
  bool deviceApiSupport, multimemSupport;
  ncclGinType_t ginType;
  char reserved[512]; /* NVIDIA's library, should it run instead, writes more */
} ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER {0}

typedef struct ncclDevCommRequirements {
  int lsaBarrierCount, barrierCount, railGinBarrierCount, ginSignalCount, ginCounterCount;
  bool lsaMultimem, ginForceEnable;
  ncclGinConnectionType_t ginConnectionType;
  char reserved[512];
} ncclDevCommRequirements_t;
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER {0}

typedef struct ncclDevComm {
  int rank, nRanks, lsaRank, lsaSize;
  ncclLsaBarrierHandle_t lsaBarrier;
  char reserved[2048];
} ncclDevComm_t;

#ifdef __cplusplus
extern "C" {
#endif
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* properties);
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t* requirements,
                               ncclDevComm_t* device);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t* device);
#ifdef __cplusplus
}

/* No other rank's memory can be loaded from: a rank is alone in its team. */
static inline ncclTeam ncclTeamLsa(ncclComm_t) {
  return {1, 0, 1};
}
#endif

#ifdef __CUDACC__
#include <cuda/atomic>

#define CAPSTAN_NCCL_TRAPS \
  {                        \
    __trap();              \
  }
struct ncclTeamTagLsa {};
struct ncclTeamTagWorld {};
struct ncclCoopCta {};
enum class ncclGinFenceLevel { Relaxed };
struct ncclGin_SignalInc {
  ncclGinSignal_t signal;
};

static __device__ inline ncclTeam ncclTeamLsa(const ncclDevComm& device) {
  return {device.lsaSize, device.lsaRank, 1};
}
static __device__ inline ncclTeam ncclTeamWorld(const ncclDevComm& device) {
  return {device.nRanks, device.rank, 1};
}
static __device__ inline int ncclTeamRankToWorld(const ncclDevComm&, ncclTeam, int rank) {
  return rank;
}
template <class... Arguments>
__device__ inline void* ncclGetLsaPointer(Arguments...) {
  __trap();
  return nullptr;
}
template <class... Arguments>
__device__ inline void* ncclGetLocalPointer(Arguments...) {
  __trap();
  return nullptr;
}
template <class... Arguments>
__device__ inline void* ncclGetLsaMultimemPointer(Arguments...) {
  __trap();
  return nullptr;
}

struct ncclGin {
  __device__ ncclGin(const ncclDevComm&, int) CAPSTAN_NCCL_TRAPS __device__ uint64_t
      readSignal(ncclGinSignal_t) const {
    return 0;
  }
  template <class... Arguments>
  __device__ void put(Arguments...) const CAPSTAN_NCCL_TRAPS template <class... Arguments>
  __device__ void waitSignal(Arguments...) const CAPSTAN_NCCL_TRAPS template <class... Arguments>
  __device__ void flush(Arguments...) const CAPSTAN_NCCL_TRAPS
};
template <class Coop>
struct ncclLsaBarrierSession {
  template <class... Arguments>
  __device__ ncclLsaBarrierSession(Arguments...) CAPSTAN_NCCL_TRAPS template <class... Arguments>
  __device__ void sync(Arguments...) CAPSTAN_NCCL_TRAPS
};
template <class Coop>
struct ncclBarrierSession {
  template <class... Arguments>
  __device__ ncclBarrierSession(Arguments...) CAPSTAN_NCCL_TRAPS template <class... Arguments>
  __device__ void sync(Arguments...) CAPSTAN_NCCL_TRAPS
};
#undef CAPSTAN_NCCL_TRAPS
#endif

#endif
