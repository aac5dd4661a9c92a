#pragma once

#include <cstdint>
#include <vector>

namespace capstan::fuzz {

/// What the code that is tested tells while it runs: it is compiled with
/// -fsanitize-coverage=trace-pc,trace-cmp, which calls the functions in coverage.cpp.
struct Coverage {
  /// Code has run that never ran before; whoever looks resets it.
  static bool reached_new_code;
  /// Constants that data have been compared with, such as format numbers: worth trying.
  static std::vector<std::uint64_t> constants;
};

}  // namespace capstan::fuzz
