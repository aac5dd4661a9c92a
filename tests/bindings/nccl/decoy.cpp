// SPDX-License-Identifier: Apache-2.0

// Stands in for a libnccl.so.2 that a program is linked with, and is to be replaced.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 1;
  return 0;
}
