#include "tests/fuzz/coverage.hpp"

#include <algorithm>
#include <array>

namespace capstan::fuzz {

bool Coverage::reached_new_code = false;
std::vector<std::uint64_t> Coverage::constants;

namespace {

std::array<bool, 1 << 16> seen;
std::uint64_t place_before = 0;

/// Pairs of places, so that another way to the same place is new.
void reach(std::uint64_t place) {
  bool& known = seen[((place * 0x9e37'79b9'7f4a'7c15) >> 48) ^ (place_before >> 1)];
  place_before = (place * 0x9e37'79b9'7f4a'7c15) >> 48;
  if (known) return;
  known = Coverage::reached_new_code = true;
}

void compare_with(std::uint64_t constant) {
  constexpr std::size_t most = 512;
  auto& all = Coverage::constants;
  if (all.size() < most && std::ranges::find(all, constant) == all.end()) all.push_back(constant);
}

}  // namespace
}  // namespace capstan::fuzz

// Names that the compiler chose. NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void __sanitizer_cov_trace_pc() {
  capstan::fuzz::reach(reinterpret_cast<std::uint64_t>(__builtin_return_address(0)));
}
void __sanitizer_cov_trace_const_cmp1(std::uint8_t a, std::uint8_t) {
  capstan::fuzz::compare_with(a);
}
void __sanitizer_cov_trace_const_cmp2(std::uint16_t a, std::uint16_t) {
  capstan::fuzz::compare_with(a);
}
void __sanitizer_cov_trace_const_cmp4(std::uint32_t a, std::uint32_t) {
  capstan::fuzz::compare_with(a);
}
void __sanitizer_cov_trace_const_cmp8(std::uint64_t a, std::uint64_t) {
  capstan::fuzz::compare_with(a);
}
void __sanitizer_cov_trace_cmp1(std::uint8_t, std::uint8_t) {}
void __sanitizer_cov_trace_cmp2(std::uint16_t, std::uint16_t) {}
void __sanitizer_cov_trace_cmp4(std::uint32_t, std::uint32_t) {}
void __sanitizer_cov_trace_cmp8(std::uint64_t, std::uint64_t) {}
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
void __sanitizer_cov_trace_switch(std::uint64_t, std::uint64_t* cases) {
  for (std::uint64_t i = 0; i < cases[0]; ++i) capstan::fuzz::compare_with(cases[2 + i]);
}
}
// NOLINTEND(bugprone-reserved-identifier)
