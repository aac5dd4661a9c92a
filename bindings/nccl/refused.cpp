// SPDX-License-Identifier: Apache-2.0

// Names of NCCL that Capstan does not serve. They are there, as programs that look up all names
// when they load would fail otherwise; each answers ncclInvalidUsage, and ncclGetLastError says
// why. The header is not included here: arguments do not matter.

#include <string>

namespace capstan::nccl {
int refuse(const char* name, const char* reason);
}

#define CAPSTAN_NCCL_REFUSED(name, reason)                              \
  extern "C" __attribute__((visibility("default"))) int pnccl##name() { \
    return capstan::nccl::refuse("nccl" #name, reason);                 \
  }                                                                     \
  extern "C" __attribute__((weak, alias("pnccl" #name), visibility("default"))) int nccl##name();

#define CAPSTAN_NCCL_GPU(name) CAPSTAN_NCCL_REFUSED(name, "it is for kernels on a GPU")
#define CAPSTAN_NCCL_PARAMETER(name) \
  CAPSTAN_NCCL_REFUSED(name, "Capstan has settings of its own, capstan/settings.hpp")

CAPSTAN_NCCL_REFUSED(CommSuspend, "there is no memory of a GPU to give back")
CAPSTAN_NCCL_REFUSED(CommResume, "there is no memory of a GPU to give back")
CAPSTAN_NCCL_REFUSED(CommMemStats, "there is no memory of a GPU")
CAPSTAN_NCCL_REFUSED(CommQueryProperties, "there are no properties of a GPU")
CAPSTAN_NCCL_REFUSED(SetEncryption, "use CAPSTAN_SECRET and the settings of Capstan")
CAPSTAN_NCCL_REFUSED(PutSignal, "there are no windows: send messages")
CAPSTAN_NCCL_REFUSED(Signal, "there are no windows: send messages")
CAPSTAN_NCCL_REFUSED(WaitSignal, "there are no windows: receive messages")
CAPSTAN_NCCL_REFUSED(WinGetUserPtr, "there are no windows")
CAPSTAN_NCCL_REFUSED(AllReduceConfig, "choose by CAPSTAN_ALGORITHM, and call ncclAllReduce")
CAPSTAN_NCCL_REFUSED(BroadcastConfig, "choose by CAPSTAN_ALGORITHM, and call ncclBroadcast")
CAPSTAN_NCCL_REFUSED(ReduceConfig, "choose by CAPSTAN_ALGORITHM, and call ncclReduce")
CAPSTAN_NCCL_REFUSED(AllGatherConfig, "choose by CAPSTAN_ALGORITHM, and call ncclAllGather")
CAPSTAN_NCCL_REFUSED(ReduceScatterConfig, "choose by CAPSTAN_ALGORITHM, call ncclReduceScatter")
CAPSTAN_NCCL_REFUSED(AlltoAllConfig, "choose by CAPSTAN_ALGORITHM, and call ncclAlltoAll")
CAPSTAN_NCCL_REFUSED(GatherConfig, "choose by CAPSTAN_ALGORITHM, and call ncclGather")
CAPSTAN_NCCL_REFUSED(ScatterConfig, "choose by CAPSTAN_ALGORITHM, and call ncclScatter")

CAPSTAN_NCCL_PARAMETER(ParamBind)
CAPSTAN_NCCL_PARAMETER(ParamDumpAll)
CAPSTAN_NCCL_PARAMETER(ParamGet)
CAPSTAN_NCCL_PARAMETER(ParamGetAllParameterKeys)
CAPSTAN_NCCL_PARAMETER(ParamGetI16)
CAPSTAN_NCCL_PARAMETER(ParamGetI32)
CAPSTAN_NCCL_PARAMETER(ParamGetI64)
CAPSTAN_NCCL_PARAMETER(ParamGetI8)
CAPSTAN_NCCL_PARAMETER(ParamGetParameter)
CAPSTAN_NCCL_PARAMETER(ParamGetStr)
CAPSTAN_NCCL_PARAMETER(ParamGetU16)
CAPSTAN_NCCL_PARAMETER(ParamGetU32)
CAPSTAN_NCCL_PARAMETER(ParamGetU64)
CAPSTAN_NCCL_PARAMETER(ParamGetU8)

CAPSTAN_NCCL_GPU(DevCommCreate)
CAPSTAN_NCCL_GPU(DevCommDestroy)
CAPSTAN_NCCL_GPU(GetCftDeviceLeInfo)
CAPSTAN_NCCL_GPU(GetLsaDevicePointer)
CAPSTAN_NCCL_GPU(GetLsaMultimemDevicePointer)
CAPSTAN_NCCL_GPU(GetMultimemDeviceLeInfo)
CAPSTAN_NCCL_GPU(GetMultimemDevicePointer)
CAPSTAN_NCCL_GPU(GetPeerDeviceLeInfo)
CAPSTAN_NCCL_GPU(GetPeerDevicePointer)
CAPSTAN_NCCL_GPU(GinBarrierCreateRequirement)
CAPSTAN_NCCL_GPU(GinInboxA2ACreateRequirement)
CAPSTAN_NCCL_GPU(GinOutboxCreateRequirement)
CAPSTAN_NCCL_GPU(LLA2ACalcSlots)
CAPSTAN_NCCL_GPU(LLA2ACreateRequirement)
CAPSTAN_NCCL_GPU(LsaBarrierCreateRequirement)
CAPSTAN_NCCL_GPU(TeamCft)
CAPSTAN_NCCL_GPU(TeamCftMultimem)
CAPSTAN_NCCL_GPU(TeamLsa)
CAPSTAN_NCCL_GPU(TeamRail)
CAPSTAN_NCCL_GPU(TeamRankToLsa)
CAPSTAN_NCCL_GPU(TeamRankToWorld)
CAPSTAN_NCCL_GPU(TeamWorld)
