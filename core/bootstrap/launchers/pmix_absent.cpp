// SPDX-License-Identifier: Apache-2.0
#include "capstan/error.hpp"
#include "core/bootstrap/launchers/pmix.hpp"

namespace capstan::pmix {
namespace {

[[noreturn]] void refuse() {
  throw BootstrapError(obstacle());
}

}  // namespace

std::string obstacle() {
  return "this build of Capstan has no PMIx: install libpmix-dev and build it again, or set "
         "CAPSTAN_STORE and CAPSTAN_SECRET for all ranks";
}

void put(const std::string&, const std::string&) {
  refuse();
}

std::string get(int, const std::string&, Deadline) {
  refuse();
}

void meet(Deadline) {
  refuse();
}

}  // namespace capstan::pmix
