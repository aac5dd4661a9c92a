// SPDX-License-Identifier: Apache-2.0

// Prints the version of the libnccl.so.2 that it gets, and has a child do the same.
// Usage: audited [child]

#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int ncclGetVersion(int* version);

int main(int argc, char** argv) {
  int version = 0;
  if (ncclGetVersion(&version) != 0) return 1;
  const char* const audit = std::getenv("LD_AUDIT");
  std::printf("%s %d, LD_AUDIT=%s\n", argc == 1 ? "program" : "child", version, audit ? audit : "");
  std::fflush(stdout);
  return argc == 1 ? std::system((std::string{argv[0]} + " child").c_str()) : 0;
}
