// SPDX-License-Identifier: Apache-2.0

// Usage: gpu_check [--kernels] [--only PART]... [--launcher FILE] [--library FILE]
//
// Checks on a GPU what only a GPU can show, and prints a table. `scripts/gpu-check` runs it.
//
//   --kernels        single kernels alone: for tools that run one kernel at a time
//   --only PART      kernels, order, graphs, ranks, profile, ends, processes, speed or nccl; may be
//                    repeated
//   --launcher FILE  capstan, which starts ranks as processes; without it they are left out
//   --library FILE   loads a driver from a file first: the stand-in of the tests. Leaves out
//                    figures, and kernels that wait for each other

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <string_view>

#include "capstan/error.hpp"
#include "kernels/device/images.hpp"
#include "tests/devices/gpu_check/check.hpp"

namespace capstan::gpu_check {
namespace {

struct Options {
  std::set<std::string> only;
  std::string launcher;
  bool stand_in = false;

  bool wants(const char* part) const { return only.empty() || only.contains(part); }
};

std::string own_path() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

int run(const Options& options) {
  std::unique_ptr<Gpu> gpu;
  try {
    gpu = std::make_unique<Gpu>();
  } catch (const Error& error) {
    fmt::print("gpu-check: nothing was checked: {}\n", error.what());
    return 0;
  }
  Rows rows;
  const auto begin = Clock::now();
  const auto part = [&](const char* name, const std::function<void()>& check) {
    if (!options.wants(name)) return;
    try {
      check();
    } catch (const std::exception& error) {
      rows.add(Row::failed(name, error.what()));
    }
  };
  const bool meet = !options.stand_in;
  part("kernels", [&] { check_kernels(*gpu, rows); });
  part("order", [&] { check_order(*gpu, meet, rows); });
  if (meet) {
    part("graphs", [&] { check_graphs(*gpu, rows); });
    part("ranks", [&] { check_ranks(*gpu, Bytes{256 << 20}, rows); });
    part("profile", [&] { check_profile(*gpu, rows); });
    part("ends", [&] { check_ends(*gpu, rows); });
    if (!options.launcher.empty())
      part("processes", [&] { check_processes(options.launcher, own_path(), rows); });
    part("speed", [&] { measure_kernels(*gpu, rows); });
    part("speed", [&] { measure_small_calls(*gpu, rows); });
    part("nccl", [&] { compare_with_nccl(own_path()); });
  }
  fmt::print("{} failed, {:.0f} s\n", rows.failed(), seconds_since(begin));
  return rows.failed() == 0 ? 0 : 1;
}

constexpr const char* usage_text =
    "Usage: gpu_check [--kernels] [--only PART]... [--launcher FILE] [--library FILE]\n";

int usage() {
  return fmt::print(stderr, usage_text), 2;
}

}  // namespace
}  // namespace capstan::gpu_check

int main(int count, char** arguments) {
  using namespace capstan::gpu_check;
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--kernels") {
      options.only.insert("kernels");
      continue;
    }
    if (argument == "--help") return fmt::print(usage_text), 0;
    if (++i == count) return usage();
    if (argument == "--process") return run_process(arguments[i]);
    if (argument == "--only") {
      options.only.insert(arguments[i]);
    } else if (argument == "--launcher") {
      options.launcher = arguments[i];
    } else if (argument == "--library") {
      options.stand_in = true;
      if (!::dlopen(arguments[i], RTLD_NOW | RTLD_NODELETE)) {
        fmt::print(stderr, "gpu-check: {} cannot be loaded: {}\n", arguments[i], ::dlerror());
        return 2;
      }
      static constexpr std::byte image[1]{};
      capstan::kernels::device::stand_in_for_missing_images(image);
    } else {
      return usage();
    }
  }
  take_many_queues();
  return run(options);
}
