// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "kernels/cpu/composed.hpp"
#include "kernels/cpu/instruction_set.hpp"

namespace capstan::kernels {
namespace {

/// The kernels of one target that this machine runs.
struct Target {
  std::int64_t bit;
  ReduceLookup bytes, integers, float16s, floats;
  CopyKernel copy;
};

template <class Function>
Function function_of(const TargetTable<Function>& table, std::int64_t target) {
  const auto found = std::ranges::find(table, target, &TargetEntry<Function>::target);
  return found == table.end() ? nullptr : found->function;
}

/// Whether this machine has the instructions for which Highway compiles a target. Highway's own
/// function lies in a library that takes each process 4 ms at its start.
bool runs_here(std::int64_t target) {
#if HWY_ARCH_X86
  const auto has_sse4 = [] {
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("aes");
  };
  const auto has_avx2 = [&] {
    return has_sse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
  };
  if (target == HWY_SSE4) return has_sse4();
  if (target == HWY_AVX2) return has_avx2();
  if (target == HWY_AVX3)
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#endif
  return target == HWY_STATIC_TARGET;
}

std::vector<Target> find_targets() {
  std::vector<Target> targets;
  for (const auto& [bit, integers] : integer_reductions) {
    const bool seen = std::ranges::find(targets, bit, &Target::bit) != targets.end();
    if (integers == nullptr || !runs_here(bit) || seen) continue;
    targets.push_back({bit, function_of(byte_reductions, bit), integers,
                       function_of(float16_reductions, bit), function_of(float_reductions, bit),
                       function_of(copies, bit)});
  }
  return targets;
}

const std::vector<Target>& targets() {
  static const auto& found = *new std::vector<Target>{find_targets()};
  return found;
}

const Target& target_named(std::string_view name) {
  const auto names = available_targets();
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return targets()[static_cast<std::size_t>(found - names.begin())];
  throw InvalidArgument(
      fmt::format("kernels: instruction-set target '{}' does not run here; choose one of: {}", name,
                  fmt::join(names, ", ")));
}

ReduceKernel kernel_of(const Target& target, DataType type, ReduceOp op) {
  if (!supports(type, op))
    throw InvalidArgument(fmt::format("{} is not defined for {}: choose another operation or type",
                                      name_of(op), name_of(type)));
  switch (type) {
    case DataType::i8:
    case DataType::u8:
      return target.bytes(type, op);
    case DataType::f8_e4m3:
    case DataType::f8_e5m2:
      return find_float8_kernel(type, op);
    case DataType::c64:
    case DataType::c128:
      return find_complex_kernel(type, op);
    case DataType::f16:
    case DataType::bf16:
      return target.float16s(type, op);
    case DataType::f32:
    case DataType::f64:
      return target.floats(type, op);
    default:
      return target.integers(type, op);
  }
}

}  // namespace

std::string_view instruction_set(std::string_view highway_name) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"AVX10_2", "AVX10.2"},
      {"AVX3_SPR", "AVX-512 (Sapphire Rapids)"},
      {"AVX3_ZEN4", "AVX-512 (Zen 4)"},
      {"AVX3_DL", "AVX-512 (Ice Lake)"},
      {"AVX3", "AVX-512"},
      {"SSE4", "SSE4.2"},
      {"EMU128", "scalar"},
      {"SCALAR", "scalar"},
  };
  const auto* found =
      std::ranges::find(names, highway_name, [](const auto& entry) { return entry.first; });
  return found == std::end(names) ? highway_name : found->second;
}

std::span<const std::string_view> available_targets() {
  static const auto& names = *[] {
    auto* const result = new std::vector<std::string_view>;
    for (const Target& target : targets())
      result->push_back(instruction_set(hwy::TargetName(target.bit)));
    return result;
  }();
  return names;
}

std::string_view active_target() {
  return available_targets().front();
}

ReduceKernel reduce_kernel(DataType type, ReduceOp op) {
  return kernel_of(targets().front(), type, op);
}

ReduceKernel reduce_kernel_for(std::string_view target, DataType type, ReduceOp op) {
  return kernel_of(target_named(target), type, op);
}

CopyKernel copy_kernel_for(std::string_view target) {
  return target_named(target).copy;
}

void copy(void* destination, const void* source, std::size_t bytes, bool stream) {
  static const CopyKernel best = targets().front().copy;
  best(destination, source, bytes, stream);
}

}  // namespace capstan::kernels
