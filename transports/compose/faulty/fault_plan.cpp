// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/faulty/fault_plan.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <set>

#include "capstan/error.hpp"

namespace capstan {
namespace {

struct Probability {
  std::string_view key;
  double FaultPlan::* value;
};
struct Count {
  std::string_view key;
  std::uint64_t FaultPlan::* value;
};
constexpr std::array probabilities = {
    Probability{"delay", &FaultPlan::delay},       Probability{"reorder", &FaultPlan::reorder},
    Probability{"partial", &FaultPlan::partial},   Probability{"drop", &FaultPlan::drop},
    Probability{"spurious", &FaultPlan::spurious}, Probability{"early", &FaultPlan::early}};
constexpr std::array counts = {Count{"seed", &FaultPlan::seed},
                               Count{"delay_calls", &FaultPlan::delay_calls},
                               Count{"resend_calls", &FaultPlan::resend_calls}};
constexpr std::string_view known =
    "seed=NUMBER, a probability from 0 to 1 for delay, reorder, partial, drop, spurious or early, "
    "delay_calls=CALLS, resend_calls=CALLS, stop=RANK@PUSHES:CALLS, reset=RANK-RANK@PUSHES, "
    "death=RANK@PUSHES";

template <class Value>
std::optional<Value> number(std::string_view text) {
  Value value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Reads one setting of a plan.
class Setting {
 public:
  explicit Setting(std::string_view text) : text_(text) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) fail("lacks its value");
    key_ = text.substr(0, equals);
    rest_ = text.substr(equals + 1);
  }

  /// `known_keys`: the keys of the settings before.
  void apply_to(FaultPlan& plan, std::set<std::string_view>& known_keys) {
    const bool has_one_value = key_ != "stop" && key_ != "reset" && key_ != "death";
    if (has_one_value && !known_keys.insert(key_).second) fail("stands there a second time");
    for (const auto& [key, value] : probabilities) {
      if (key == key_) return void(plan.*value = probability());
    }
    for (const auto& [key, value] : counts) {
      if (key == key_) return void(plan.*value = count_up_to(""));
    }
    if (key_ == "stop") {
      const Rank rank = rank_up_to("@");
      const std::uint64_t after = count_up_to(":");
      plan.stops.push_back({rank, after, count_up_to("")});
    } else if (key_ == "reset") {
      const Rank one = rank_up_to("-");
      const Rank other = rank_up_to("@");
      if (one == other) fail("breaks a connection of a rank with itself");
      plan.resets.push_back({one, other, count_up_to("")});
    } else if (key_ == "death") {
      const Rank rank = rank_up_to("@");
      plan.deaths.push_back({rank, count_up_to("")});
    } else {
      fail("is not known");
    }
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InvalidArgument(fmt::format("faults: '{}' {}; known are: {}", text_, what, known));
  }

  /// The text before `mark`, or all the rest when the mark is empty.
  std::string_view up_to(std::string_view mark) {
    const auto end = mark.empty() ? rest_.size() : rest_.find(mark);
    if (end == std::string_view::npos) fail(fmt::format("lacks a '{}'", mark));
    const std::string_view part = rest_.substr(0, end);
    rest_.remove_prefix(end + mark.size());
    return part;
  }
  double probability() {
    const auto value = number<double>(up_to(""));
    if (!value || !(*value >= 0 && *value <= 1)) fail("is no probability from 0 to 1");
    return *value;
  }
  std::uint64_t count_up_to(std::string_view mark) {
    const std::string_view part = up_to(mark);
    const auto value = number<std::uint64_t>(part);
    if (!value) fail(fmt::format("has '{}' where a whole number belongs", part));
    return *value;
  }
  Rank rank_up_to(std::string_view mark) {
    const std::string_view part = up_to(mark);
    const auto value = number<std::int32_t>(part);
    if (!value || *value < 0) fail(fmt::format("has '{}' where a rank belongs", part));
    return Rank{*value};
  }

  std::string_view text_, key_, rest_;
};

}  // namespace

FaultPlan FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  std::set<std::string_view> known_keys;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    Setting{text.substr(0, end)}.apply_to(plan, known_keys);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (plan.delay > 0 && plan.delay_calls == 0)
    throw InvalidArgument("faults: with a delay, delay_calls is 1 at least");
  return plan;
}

std::string FaultPlan::to_string() const {
  const FaultPlan usual;
  std::string text = fmt::format("seed={}", seed);
  const auto append = std::back_inserter(text);
  for (const auto& [key, value] : probabilities) {
    if (this->*value != usual.*value) fmt::format_to(append, ",{}={}", key, this->*value);
  }
  for (const auto& [key, value] : counts) {
    if (key != "seed" && this->*value != usual.*value)
      fmt::format_to(append, ",{}={}", key, this->*value);
  }
  for (const Stop& stop : stops)
    fmt::format_to(append, ",stop={}@{}:{}", stop.rank.value(), stop.after, stop.calls);
  for (const Reset& reset : resets)
    fmt::format_to(append, ",reset={}-{}@{}", reset.one.value(), reset.other.value(), reset.after);
  for (const Death& death : deaths)
    fmt::format_to(append, ",death={}@{}", death.rank.value(), death.after);
  return text;
}

}  // namespace capstan
