// SPDX-License-Identifier: Apache-2.0
#ifdef __SANITIZE_ADDRESS__
// The library of PMIx keeps what it has fetched. Nothing is said of it: tests read what is printed.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libpmix.so";
}
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_options() {
  return "print_suppressions=0";
}
// NOLINTEND(bugprone-reserved-identifier)
#endif
