// SPDX-License-Identifier: Apache-2.0

// A picture of steps over time.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "capstan/observe/exports.hpp"
#include "core/base/palette.hpp"
#include "core/base/xml_text.hpp"
#include "core/extras/observe/times.hpp"

namespace capstan {
namespace {

constexpr int left = 70, top = 50, row = 30, bar = 18, width = 900;

/// Kinds of steps with their colours.
struct Look {
  std::string_view step, colour;
};
constexpr std::array<Look, 8> looks{{{"copy", palette::copy},
                                     {"reduce", palette::reduce},
                                     {"push", palette::put},
                                     {"signal", palette::signal},
                                     {"wait", palette::wait},
                                     {"slot", palette::slot},
                                     {"flush", palette::notify},
                                     {"notify", palette::notify}}};

Look look_of(std::string_view step) {
  const auto found = std::ranges::find(looks, step, &Look::step);
  return found == looks.end() ? Look{step, palette::other} : *found;
}

/// Draws steps whose times count from the first of them.
class Picture {
 public:
  explicit Picture(std::span<const StepProfile> steps) : steps_(steps) {
    if (steps.empty()) return;
    begin_ = std::ranges::min(steps, {}, &StepProfile::began).began;
    for (const StepProfile& step : steps) {
      length_ = std::max(length_, microseconds(step.began + step.duration - begin_));
      rows_.try_emplace(step.rank);
    }
    int next = 0;
    for (auto& [rank, number] : rows_) number = next++;
  }

  std::string draw(const std::string& title) const {
    const int height = top + row * static_cast<int>(rows_.size()) + 60;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"{}\" y=\"20\" font-size=\"15\">{}</text>\n",
        left + width + 30, height, left, xml_text(title));
    for (const auto& [rank, number] : rows_)
      svg += fmt::format("<text x=\"10\" y=\"{}\">rank {}</text>\n", top + row * number + bar - 4,
                         rank);
    for (const StepProfile& step : steps_) svg += rectangle(step);
    return svg + axis(height - 45) + legend(height - 12) + "</svg>\n";
  }

 private:
  double x(double time) const { return left + time / length_ * width; }

  std::string rectangle(const StepProfile& step) const {
    const double begin = microseconds(step.began - begin_), time = microseconds(step.duration);
    std::string what =
        fmt::format("rank {}, {:.2f} to {:.2f} us: {}", step.rank, begin, begin + time, step.step);
    if (step.peer >= 0) what += fmt::format(", rank {}", step.peer);
    if (step.bytes > Bytes{0}) what += fmt::format(", {} bytes", step.bytes.value());
    return fmt::format(
        "<rect class=\"step\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" "
        "fill=\"{}\"><title>{}, block {}, step {}</title></rect>\n",
        x(begin), top + row * rows_.at(step.rank), std::max(0.8, time / length_ * width), bar,
        look_of(step.step).colour, xml_text(what), step.block, step.number);
  }

  std::string axis(int y) const {
    constexpr int marks = 5;
    std::string svg =
        fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#000000\"/>\n", left,
                    y - 14, left + width, y - 14);
    for (int i = 0; i <= marks; ++i)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.1f} us</text>\n",
                         x(length_ * i / marks), y, length_ * i / marks);
    return svg;
  }

  std::string legend(int y) const {
    std::set<std::string_view> used;
    for (const StepProfile& step : steps_) used.insert(step.step);
    std::string svg;
    int at = left;
    for (const Look& look : looks) {
      if (!used.contains(look.step)) continue;
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
          "<text x=\"{}\" y=\"{}\">{}</text>\n",
          at, y - 10, look.colour, at + 17, y, look.step);
      at += 90;
    }
    return svg;
  }

  std::span<const StepProfile> steps_;
  std::chrono::system_clock::time_point begin_{};
  double length_ = 1e-3;  // microseconds
  std::map<int, int> rows_;
};

}  // namespace

std::string to_picture(std::span<const StepProfile> steps, const std::string& title) {
  return Picture{steps}.draw(title);
}

}  // namespace capstan
