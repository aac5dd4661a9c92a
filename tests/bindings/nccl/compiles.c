// SPDX-License-Identifier: Apache-2.0

/* The headers are C, and the layouts are those of NCCL 2.32 on 64-bit machines. */
#include "bindings/nccl/nccl.h"
#include "bindings/nccl/nccl_device.h"

_Static_assert(sizeof(ncclUniqueId) == 128, "");
_Static_assert(sizeof(ncclConfig_t) == 120, "");
_Static_assert(offsetof(ncclConfig_t, netName) == 32, "");
_Static_assert(offsetof(ncclConfig_t, commName) == 48, "");
_Static_assert(offsetof(ncclConfig_t, nvlsHostMode) == 112, "");
_Static_assert(sizeof(ncclSimInfo_t) == 24, "");
_Static_assert(offsetof(ncclCollConfig_t, algSelection) == 40, "");
_Static_assert(offsetof(ncclCollConfig_t, userProfilerTag) == 56, "");
_Static_assert(sizeof(ncclCollConfig_t) == 72, "");
_Static_assert(sizeof(ncclWaitSignalDesc_t) == 16, "");

int main(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclCollConfig_t call = NCCL_COLLCONFIG_INITIALIZER;
  ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  ncclComm_t comm;
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  ncclDevCommRequirements_t requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  ncclDevComm_t device;
  float data = 3;
  if (ncclCommInitAll(&comm, 1, NULL) != ncclSuccess) return 1;
  if (ncclAllReduce(&data, &data, 1, ncclFloat, ncclAvg, comm, NULL) != ncclSuccess) return 2;
  if (ncclCommQueryProperties(comm, &properties) != ncclInvalidUsage) return 4;
  if (ncclDevCommCreate(comm, &requirements, &device) != ncclInvalidUsage) return 5;
  if (ncclCommDestroy(comm) != ncclSuccess || data != 3) return 3;
  return config.blocking != INT_MIN || call.forceAlgSelection != 1 || encryption.psk;
}
