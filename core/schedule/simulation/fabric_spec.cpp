// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "capstan/error.hpp"
#include "core/schedule/simulation/fabric.hpp"

namespace capstan {
namespace {

struct RealKey {
  std::string_view name;
  double FabricSpec::* member;
};
struct CountKey {
  std::string_view name;
  int FabricSpec::* member;
};

constexpr RealKey real_keys[] = {{"bandwidth", &FabricSpec::bandwidth},
                                 {"latency", &FabricSpec::latency},
                                 {"switch-bandwidth", &FabricSpec::switch_bandwidth},
                                 {"switch-latency", &FabricSpec::switch_latency},
                                 {"global-latency", &FabricSpec::global_latency},
                                 {"oversubscription", &FabricSpec::oversubscription}};
constexpr CountKey count_keys[] = {{"radix", &FabricSpec::radix},
                                   {"routers", &FabricSpec::routers},
                                   {"hosts", &FabricSpec::hosts}};

/// Reads a description from the left to the right.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  FabricSpec read() {
    FabricSpec spec;
    spec.kind = until(":");
    if (std::ranges::find(kinds_, spec.kind) == kinds_.end())
      refuse(0, fmt::format("no network is called '{}': there are {}", spec.kind,
                            fmt::join(kinds_, ", ")));
    while (at_ < text_.size()) read_entry(spec);
    return spec;
  }

 private:
  void read_entry(FabricSpec& spec) {
    const std::size_t begin = at_;
    const std::string key = until("=");
    const std::size_t value_begin = at_;
    const std::string value = until(",");
    if (std::ranges::find(read_, key) != read_.end())
      refuse(begin, fmt::format("'{}' stands here a second time: leave one of the two out", key));
    read_.push_back(key);
    for (const RealKey& known : real_keys)
      if (key == known.name) return void(spec.*known.member = real(value, value_begin));
    for (const CountKey& known : count_keys)
      if (key == known.name) return void(spec.*known.member = count(value, value_begin));
    if (key == "dims") return void(spec.dims = dims(value, value_begin));
    std::vector<std::string_view> names{"dims"};
    for (const RealKey& known : real_keys) names.push_back(known.name);
    for (const CountKey& known : count_keys) names.push_back(known.name);
    refuse(begin, fmt::format("'{}' is no property of a network: there are {}", key,
                              fmt::join(names, ", ")));
  }

  std::string until(std::string_view separator) {
    const std::size_t end = std::min(text_.find(separator, at_), text_.size());
    std::string part = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    return part;
  }

  double real(const std::string& text, std::size_t column) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() ||
        !(value >= least_property && value <= most_property))
      refuse(column, fmt::format("'{}' is not a number from {:g} to {:g}", text, least_property,
                                 most_property));
    return value;
  }

  int count(const std::string& text, std::size_t column) const {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > 1 << 20)
      refuse(column, fmt::format("'{}' is not a whole number from 1 on", text));
    return value;
  }

  std::vector<int> dims(const std::string& text, std::size_t column) const {
    std::vector<int> all;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('x', at), text.size());
      all.push_back(count(text.substr(at, end - at), column + at));
      at = end + 1;
    }
    return all;
  }

  [[noreturn]] void refuse(std::size_t column, const std::string& what) const {
    throw InvalidArgument(fmt::format("'{}', column {}: {}", text_, column + 1, what));
  }

  const std::string& text_;
  const std::vector<std::string> kinds_ = fabric_kinds();
  std::size_t at_ = 0;
  std::vector<std::string> read_;  // properties
};

}  // namespace

FabricSpec parse_fabric(const std::string& text) {
  return Reader{text}.read();
}

}  // namespace capstan
