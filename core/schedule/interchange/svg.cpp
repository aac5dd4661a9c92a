// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "core/base/palette.hpp"
#include "core/base/xml_text.hpp"
#include "core/schedule/interchange/formats.hpp"

namespace capstan {
namespace {

constexpr int column = 26, row = 44, left = 80, top = 56, box = 18;

/// Readable in light and dark mode.
std::string style() {
  return fmt::format(
      "<style>text{{font:12px sans-serif;fill:#222}}.rank{{stroke:#bbb}}.message{{stroke:#888;"
      "stroke-width:1.2}}.copy{{fill:{}}}.reduce{{fill:{}}}.put{{fill:{}}}.signal{{fill:{}}}"
      ".wait{{fill:{}}}svg{{background:#fff}}@media(prefers-color-scheme:dark){{svg{{"
      "background:#1b1b1b}}text{{fill:#eee}}.rank{{stroke:#555}}.message{{stroke:#aaa}}}}</"
      "style>\n",
      palette::copy, palette::reduce, palette::put, palette::signal, palette::wait);
}

int x_of(int time) {
  return left + time * column;
}
int y_of(Rank rank) {
  return top + rank.value() * row;
}

std::string legend(int y) {
  std::string text;
  int x = left;
  for (const Verb verb : {Verb::copy, Verb::reduce, Verb::put, Verb::signal, Verb::wait}) {
    text += fmt::format(
        "<rect class=\"{0}\" x=\"{1}\" y=\"{2}\" width=\"12\" height=\"12\"/><text x=\"{3}\" "
        "y=\"{4}\">{0}</text>\n",
        name_of(verb), x, y, x + 16, y + 11);
    x += 72;
  }
  return text;
}

std::string lane(const Schedule& schedule, const std::vector<int>& times, int width) {
  const int y = y_of(schedule.self());
  std::string text = fmt::format(
      "<text x=\"12\" y=\"{}\">rank {}</text><line class=\"rank\" x1=\"{}\" y1=\"{}\" x2=\"{}\" "
      "y2=\"{}\"/>\n",
      y + 4, schedule.self().value(), left - 12, y, width - 12, y);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Step& step = schedule.steps()[i];
    text += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"><title>{}: {}"
        "</title></rect>\n",
        name_of(step.verb), x_of(times[i]), y - box / 2, box, box, i,
        xml_text(to_string(schedule, step)));
  }
  return text;
}

}  // namespace

std::string to_svg(const ScheduleSet& set) {
  const auto times = step_times(set.schedules);
  int last = 0;
  for (const auto& of_rank : times)
    if (!of_rank.empty()) last = std::max(last, of_rank.back());
  const int width = std::max(x_of(last + 1) + 24, left + 400);
  const int height = y_of(Rank{set.schedules.size()}) + 24;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n{3}<text x=\"12\" y=\"22\">{2}</text>\n",
      width, height, xml_text(title_of(set)), style());
  for (const MatchedMessage& message : matched_messages(set.schedules))
    text += fmt::format(
        "<line class=\"message\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"><title>{} elements"
        "</title></line>\n",
        x_of(times[message.from][message.signal]) + box, y_of(message.from),
        x_of(times[message.to][message.wait]), y_of(message.to), message.length.value());
  for (const Schedule& schedule : set.schedules)
    text += lane(schedule, times[schedule.self()], width);
  return text + legend(height - 28) + "</svg>\n";
}

}  // namespace capstan
