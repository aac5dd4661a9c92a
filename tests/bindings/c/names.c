// SPDX-License-Identifier: Apache-2.0

/* Names of types, operations, collectives and states. */

#include <string.h>

#include "ranks.h"

void names(void) {
  int32_t major = -1, minor = -1, patch = -1;
  OK(capstan_version(&major, &minor, &patch));
  CHECK(major >= 0 && minor >= 0 && patch >= 0);
  OK(capstan_version(NULL, NULL, NULL));
  CHECK(strcmp(capstan_type_name(CAPSTAN_BF16), "bf16") == 0);
  CHECK(strcmp(capstan_op_name(CAPSTAN_LOGICAL_XOR), "logical_xor") == 0);
  CHECK(strcmp(capstan_collective_name(CAPSTAN_ALL_TO_ALL_V), "all_to_all_v") == 0);
  CHECK(strcmp(capstan_type_name(99), "unknown") == 0);
  CHECK(strcmp(capstan_op_name(-1), "unknown") == 0);
  CHECK(strcmp(capstan_status_name(CAPSTAN_OK), "ok") == 0);
  CHECK(strcmp(capstan_status_name(CAPSTAN_PEER_LOST), "peer_lost") == 0);
  CHECK(strcmp(capstan_status_name(501), "unknown") == 0);
  CHECK(capstan_type_size(CAPSTAN_C128) == 16 && capstan_type_size(14) == 0);
  CHECK(capstan_last_status() == CAPSTAN_OK && strcmp(capstan_last_error(), "") == 0);
}
