// SPDX-License-Identifier: Apache-2.0
#include "capstan/backends/config.hpp"

#include <fmt/format.h>

#include <charconv>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"

namespace capstan {
namespace {

[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view wanted) {
  throw InvalidArgument(fmt::format("{}='{}': pass {}", key, value, wanted));
}

int integer(std::string_view key, std::string_view value, int least) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < least)
    refuse(key, value, fmt::format("an integer from {} on", least));
  return number;
}

Device device_named(std::string_view value) {
  const std::string_view kind = value.substr(0, value.find(':'));
  const int index =
      kind.size() == value.size() ? 0 : integer("device", value.substr(kind.size() + 1), 0);
  if (kind == "cpu") return {};
  if (kind == "cuda") return {DeviceType::cuda, index};
  if (kind == "rocm") return {DeviceType::rocm, index};
  refuse("device", value, "cpu, cuda:0 or rocm:0");
}

std::chrono::milliseconds seconds(std::string_view key, const std::string& value) {
  double number = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, number);
  const auto limit = time_limit_of(error == std::errc{} && end == last ? number : -1);
  if (!limit) refuse(key, value, "seconds, for example 30 or 0.5");
  return *limit;
}

}  // namespace

BackendConfig BackendConfig::from_keys(const std::map<std::string, std::string>& keys) {
  BackendConfig config;
  for (const auto& [key, value] : keys) {
    if (key == "world_size")
      config.world_size = integer(key, value, 1);
    else if (key == "rank")
      config.rank = integer(key, value, 0);
    else if (key == "device")
      config.device = device_named(value);
    else if (key == "unique_id")
      config.unique_id = value;
    else if (key == "timeout")
      config.timeout = seconds(key, value);
    else
      config.options.emplace(key, value);
  }
  return config;
}

std::string to_string(const Device& device) {
  switch (device.type) {
    case DeviceType::cuda:
      return fmt::format("cuda:{}", device.index);
    case DeviceType::rocm:
      return fmt::format("rocm:{}", device.index);
    case DeviceType::cuda_managed:
      return fmt::format("managed memory of cuda:{}", device.index);
    default:
      return "cpu";
  }
}

}  // namespace capstan
