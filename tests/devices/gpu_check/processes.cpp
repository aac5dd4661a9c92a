// SPDX-License-Identifier: Apache-2.0

// Ranks in processes of their own: results, and deaths.

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "capstan/error.hpp"
#include "core/platform/device/device_kernels.hpp"
#include "tests/devices/gpu_check/check.hpp"

namespace capstan::gpu_check {
namespace {

struct Output {
  int status = -1;
  std::string text;
};

Output run(const std::string& command) {
  Output output;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return output;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe)) output.text += part.data();
  output.status = ::pclose(pipe);
  return output;
}

int occurrences(const std::string& text, std::string_view of) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(of, at)) != std::string::npos; at += of.size()) ++found;
  return found;
}

/// The line that has this text.
std::string line_of(const std::string& text, std::string_view part) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

struct Process {
  Gpu gpu;
  Communicator world;
  perf::DeviceCalls calls{world, vendor_of(gpu), 0};
  std::shared_ptr<std::byte> memory = calls.allocate(20'000);
  std::span<float> data{reinterpret_cast<float*>(memory.get()), 5000};
  Request request = request::in_place(Collective::all_reduce, data);

  explicit Process(const Settings& settings = Settings::from_environment())
      : world(Communicator::from_environment(settings)) {}

  void call() {
    calls.run(request);
    calls.finish();
  }
};

int right() {
  Process process{bounded_settings()};
  const std::string trouble =
      trouble_with_calls(process.world, vendor_of(process.gpu), Bytes{256 << 20});
  if (!trouble.empty()) return fmt::print("trouble: {}\n", trouble), 1;
  process.call();
  if (process.world.rank() == 0) fmt::print("way: {}\n", process.calls.explain(process.request));
  return 0;
}

/// Rank 1 ends in the middle of calls; the others must get an error that names it.
int survive(const std::function<void(Process&)>& end) {
  Process process;
  for (int i = 0; i < 20; ++i) process.call();
  if (process.world.rank() == 1) end(process);
  try {
    for (int i = 0; i < 20; ++i) process.call();
  } catch (const Error& error) {
    fmt::print("survivor: {}\n", error.what());
    std::fflush(stdout);
    std::_Exit(0);
  }
  return 1;
}

/// A kernel that writes where nothing is: CUDA ends the whole context of the process.
void lose_device(Process& process) {
  void* const nowhere[] = {reinterpret_cast<void*>(std::uintptr_t{1} << 46)};
  const void* const source[] = {process.memory.get()};
  DeviceKernels::at(process.calls.where())
      .reduce(DataType::f32, ReduceOp::sum, {nowhere, source, 1000}, process.calls.stream());
}

}  // namespace

int run_process(const std::string& task) {
  if (task.starts_with("nccl")) return compare_with_nccl_here(std::stoi(task.substr(4)));
  if (task == "right") return right();
  if (task == "killed") return survive([](Process&) { ::raise(SIGKILL); });
  if (task == "stopped") return survive([](Process&) { ::raise(SIGSTOP); });
  if (task == "lost") return survive(lose_device);
  return fmt::print("no task is called {}\n", task), 2;
}

void check_processes(const std::string& launcher, const std::string& self, Rows& rows) {
  const auto of = [&](int ranks, const std::string& task, int seconds) {
    return fmt::format(
        "env -u CUDA_DEVICE_MAX_CONNECTIONS -u GPU_MAX_HW_QUEUES {} run -n {} "
        "--timeout {} -- sh -c '{} --process {}; true'",
        launcher, ranks, seconds, self, task);
  };
  for (const int ranks : {2, 4, 8}) {
    const auto begin = Clock::now();
    const Output output = run(of(ranks, "right", 100));
    const bool is_right = output.status == 0 && occurrences(output.text, "way: ") == 1;
    rows.add(Row::of(fmt::format("collectives, messages: {} processes", ranks),
                     is_right ? "" : output.text,
                     fmt::format("8 B to 256 MiB, {:.1f} s; {}", seconds_since(begin),
                                 line_of(output.text, "way: "))));
  }
  for (const char* task : {"killed", "stopped", "lost"}) {
    const Output output = run("CAPSTAN_TIMEOUT=3 " + of(3, task, 15));
    const int told = occurrences(output.text, "survivor: ");
    const int expected = std::string_view{task} == "lost" ? 3 : 2;
    rows.add(Row::of(fmt::format("a process is {}", task), told == expected ? "" : output.text,
                     line_of(output.text, "survivor: ")));
  }
}

}  // namespace capstan::gpu_check
