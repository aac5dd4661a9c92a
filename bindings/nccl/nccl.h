// SPDX-License-Identifier: Apache-2.0

/* Capstan under the names of NVIDIA's NCCL: programs written for NCCL compile against this header
 * and run with this library, also where there is no GPU. Values and layouts are those of NCCL 2.32.
 * docs/nccl.md says what is there, and what each function does differently. */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23203
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))

/* A stream of CUDA, by the name that its own headers give it: NVIDIA's, or the stand-in's. */
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif
#endif
#if !defined(__DRIVER_TYPES_H__)
typedef struct CUstream_st* cudaStream_t;
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclParamHandle* ncclParamHandle_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* operations that the program makes have this number or a higher one */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01

/* Made by NCCL_CONFIG_INITIALIZER. `blocking` and `netName` count, `commName` is part of errors;
 * the others tune GPUs and are ignored. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER \
  {sizeof(ncclConfig_t),        \
   NCCL_API_MAGIC,              \
   NCCL_VERSION_CODE,           \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   NULL,                        \
   INT_MIN,                     \
   INT_MIN,                     \
   NULL,                        \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN,                     \
   INT_MIN}

typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  struct CUevent_st* launchCompletionEvent; /* a cudaEvent_t */
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER \
  {sizeof(ncclCollConfig_t),        \
   NCCL_API_MAGIC,                  \
   NCCL_VERSION_CODE,               \
   NULL,                            \
   INT_MIN,                         \
   INT_MIN,                         \
   INT_MIN,                         \
   INT_MIN,                         \
   NULL,                            \
   1,                               \
   INT_MIN,                         \
   0,                               \
   NULL}

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  {sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT}

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                       \
  {sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_ENCRYPTION_MODE_NONE, \
   NULL}

/* Every function is there twice, as in NCCL: ncclX may be replaced by a profiler, which calls
 * pncclX. */
#define CAPSTAN_NCCL_BOTH(name, ...)    \
  ncclResult_t nccl##name(__VA_ARGS__); \
  ncclResult_t pnccl##name(__VA_ARGS__);

/* Communicators */
CAPSTAN_NCCL_BOTH(GetVersion, int* version)
CAPSTAN_NCCL_BOTH(GetUniqueId, ncclUniqueId* uniqueId)
CAPSTAN_NCCL_BOTH(CommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank)
CAPSTAN_NCCL_BOTH(CommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                  ncclConfig_t* config)
CAPSTAN_NCCL_BOTH(CommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank, int nId,
                  ncclUniqueId* commIds, ncclConfig_t* config)
CAPSTAN_NCCL_BOTH(CommInitAll, ncclComm_t* comm, int ndev, const int* devlist)
CAPSTAN_NCCL_BOTH(CommFinalize, ncclComm_t comm)
CAPSTAN_NCCL_BOTH(CommDestroy, ncclComm_t comm)
CAPSTAN_NCCL_BOTH(CommAbort, ncclComm_t comm)
CAPSTAN_NCCL_BOTH(CommRevoke, ncclComm_t comm, int revokeFlags)
CAPSTAN_NCCL_BOTH(CommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                  ncclConfig_t* config)
CAPSTAN_NCCL_BOTH(CommShrink, ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                  ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags)
CAPSTAN_NCCL_BOTH(CommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId)
CAPSTAN_NCCL_BOTH(CommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                  ncclComm_t* newcomm, ncclConfig_t* config)
CAPSTAN_NCCL_BOTH(CommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError)
CAPSTAN_NCCL_BOTH(CommCount, const ncclComm_t comm, int* count)
CAPSTAN_NCCL_BOTH(CommCuDevice, const ncclComm_t comm, int* device)
CAPSTAN_NCCL_BOTH(CommUserRank, const ncclComm_t comm, int* rank)
const char* ncclGetErrorString(ncclResult_t result);
const char* pncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
const char* pncclGetLastError(ncclComm_t comm);

/* Operations that the program makes */
CAPSTAN_NCCL_BOTH(RedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                  ncclScalarResidence_t residence, ncclComm_t comm)
CAPSTAN_NCCL_BOTH(RedOpDestroy, ncclRedOp_t op, ncclComm_t comm)

/* Collectives; counts are those of one rank's block */
CAPSTAN_NCCL_BOTH(AllReduce, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(Reduce, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                  cudaStream_t stream)
CAPSTAN_NCCL_BOTH(Broadcast, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(Bcast, void* buff, size_t count, ncclDataType_t datatype, int root,
                  ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(AllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(ReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(AlltoAll, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(Gather, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(Scatter, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)

/* Messages */
CAPSTAN_NCCL_BOTH(Send, const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                  ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(Recv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                  ncclComm_t comm, cudaStream_t stream)

/* Groups */
ncclResult_t ncclGroupStart(void);
ncclResult_t pncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t pncclGroupEnd(void);
CAPSTAN_NCCL_BOTH(GroupSimulateEnd, ncclSimInfo_t* simInfo)

/* Memory */
CAPSTAN_NCCL_BOTH(MemAlloc, void** ptr, size_t size)
CAPSTAN_NCCL_BOTH(MemFree, void* ptr)
CAPSTAN_NCCL_BOTH(CommRegister, const ncclComm_t comm, void* buff, size_t size, void** handle)
CAPSTAN_NCCL_BOTH(CommDeregister, const ncclComm_t comm, void* handle)
CAPSTAN_NCCL_BOTH(CommWindowRegister, ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                  int winFlags)
CAPSTAN_NCCL_BOTH(CommWindowDeregister, ncclComm_t comm, ncclWindow_t win)

/* These answer ncclInvalidUsage, and ncclGetLastError says why. */
CAPSTAN_NCCL_BOTH(AllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                  const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(BroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                  const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(ReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                  cudaStream_t stream, const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(AllGatherConfig, const void* sendbuff, void* recvbuff, size_t sendcount,
                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                  const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(ReduceScatterConfig, const void* sendbuff, void* recvbuff, size_t recvcount,
                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                  const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(AlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                  const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(GatherConfig, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                  const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(ScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
                  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                  const ncclCollConfig_t* config)
CAPSTAN_NCCL_BOTH(PutSignal, const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                  ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                  unsigned int flags, ncclComm_t comm, cudaStream_t stream)
CAPSTAN_NCCL_BOTH(Signal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                  cudaStream_t stream)
CAPSTAN_NCCL_BOTH(WaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                  cudaStream_t stream)
CAPSTAN_NCCL_BOTH(WinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr)
CAPSTAN_NCCL_BOTH(CommSuspend, ncclComm_t comm, int flags)
CAPSTAN_NCCL_BOTH(CommResume, ncclComm_t comm)
CAPSTAN_NCCL_BOTH(CommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value)
CAPSTAN_NCCL_BOTH(SetEncryption, const ncclEncryptionConfig_t* config)

void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

#undef CAPSTAN_NCCL_BOTH

#ifdef __cplusplus
}
#endif
#endif
