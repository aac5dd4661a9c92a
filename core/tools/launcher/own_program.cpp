// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/own_program.hpp"

#include <sys/auxv.h>

#include <system_error>

namespace capstan::launcher {

std::filesystem::path own_program() {
  std::error_code absent;
  auto program = std::filesystem::read_symlink("/proc/self/exe", absent);
  const auto* const started_as = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (absent && started_as) program = started_as;
  return program;
}

}  // namespace capstan::launcher
