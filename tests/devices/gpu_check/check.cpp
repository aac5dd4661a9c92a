// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/gpu_check/check.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace capstan::gpu_check {

void Rows::add(const Row& row) {
  fmt::print("{:<44} {:<10} {}\n", row.name, row.result, row.detail);
  std::fflush(stdout);
  failed_ += row.result == "FAILED";
}

void Rows::check(const std::string& name, const std::function<Row()>& check) {
  try {
    add(check());
  } catch (const std::exception& error) {
    add(Row::failed(name, error.what()));
  }
}

std::string vendor_of(const Gpu& gpu) {
  return gpu.where().driver->name() == "HIP" ? "hip" : "cuda";
}

void take_many_queues() {
  for (const char* queues : {"CUDA_DEVICE_MAX_CONNECTIONS", "GPU_MAX_HW_QUEUES"})
    ::setenv(queues, "32", 0);
}

Settings bounded_settings() {
  Settings settings = Settings::from_environment();
  settings.timeout = std::chrono::seconds{20};
  return settings;
}

std::string text_of(const std::function<std::string()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string on_ranks(int ranks, const Settings& settings,
                     const std::function<std::string(Communicator&)>& body) {
  auto world = Communicator::local_world(ranks, settings);
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (auto& communicator : world)
      threads.emplace_back([&] {
        texts[static_cast<std::size_t>(communicator.rank())] =
            text_of([&] { return body(communicator); });
      });
  }
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty()) return fmt::format("rank {}: {}", rank, texts[rank]);
  return "";
}

}  // namespace capstan::gpu_check
