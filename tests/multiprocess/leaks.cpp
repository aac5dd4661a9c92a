#ifdef __SANITIZE_ADDRESS__
// The library of PMIx keeps what it has fetched. NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libpmix.so";
}
#endif
