// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/tools/cli/simulate/scenario.hpp"

namespace capstan::cli {
namespace {

/// Readable in light and dark mode, and by the colour-blind (the palette of Okabe and Ito).
constexpr std::string_view picture_style =
    "<style>text{font:12px sans-serif;fill:#222}.head{font-size:15px}.work{fill:#0072b2}.send{fill:"
    "#009e73}.read{fill:#56b4e9}.wait{fill:#e69f00}.message{stroke:#999;stroke-width:.6}.critical{"
    "stroke:#d55e00;stroke-width:1.8}svg{background:#fff}@media(prefers-color-scheme:dark){svg{"
    "background:#1b1b1b}text{fill:#eee}.message{stroke:#777}}</style>\n";

/// Draws some ranks over time: all, or evenly spaced ones with the slowest rank.
class Picture {
 public:
  explicit Picture(const Scenario& scenario)
      : scenario_(scenario), run_(scenario.best().run), path_(scenario.critical_path()) {
    const int ranks = static_cast<int>(run_.events.size()),
              step = (ranks + most_rows - 1) / most_rows;
    for (int rank = 0; rank < ranks; rank += step) add_row(rank);
    add_row(run_.slowest.value());
    int next = 0;
    for (auto& [rank, place] : rows_) place = next++;
  }

  std::string draw() const {
    const int height = top + row * static_cast<int>(rows_.size()) + 60;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\n"
        "<title>{}</title>\n{}<text class=\"head\" x=\"12\" y=\"24\">{}</text>\n"
        "<text x=\"12\" y=\"44\">{}</text>\n",
        left + width + 40, height, title(), picture_style, title(),
        scenario_.cluster().fabric->description());
    for (const auto& [rank, place] : rows_) svg += lane(rank, place);
    return svg + messages() + axis(height - 38) + legend(height - 14) + "</svg>\n";
  }

 private:
  static constexpr int left = 96, top = 62, row = 18, bar = 12, most_rows = 48;
  static constexpr double width = 900;

  void add_row(int rank) { rows_.emplace(rank, 0); }
  double x(double time) const { return left + time / std::max(run_.time, 1.0) * width; }
  static int y(int place) { return top + row * place; }

  std::string title() const {
    const Way& way = scenario_.ways().front();
    return fmt::format("{} by {} on {} ranks: {:.2f} us", to_string(scenario_.call()),
                       way.call.algorithm->name, run_.classes.ranks, scenario_.best().time / 1000);
  }

  std::string bar_of(std::string_view kind, int place, double begin, double end,
                     const std::string& what) const {
    if (x(end) - x(begin) < 0.25) return {};
    return fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{}, {:.2f} "
        "to "
        "{:.2f} us</title></rect>\n",
        kind, x(begin), y(place), x(end) - x(begin), bar, what, begin / 1000, end / 1000);
  }

  std::string lane(int rank, int place) const {
    std::string svg =
        fmt::format("<text x=\"12\" y=\"{}\">rank {}</text>\n", y(place) + bar - 1, rank);
    for (const ClusterEvent& event : run_.events[static_cast<std::size_t>(rank)]) {
      svg += bar_of("work", place, event.begin - event.work, event.begin,
                    fmt::format("rank {}: works", rank));
      const std::string_view kind = event.is_wait ? "wait" : event.is_send ? "send" : "read";
      const std::string_view words = event.is_wait   ? "waits for"
                                     : event.is_send ? "sends to"
                                                     : "reads from";
      svg += bar_of(kind, place, event.begin, event.end,
                    fmt::format("rank {}: {} rank {}", rank, words, event.peer));
    }
    return svg;
  }

  std::string line(std::string_view kind, int from, int to, double begin, double end) const {
    return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\"/>\n",
                       kind, x(begin), y(from) + bar / 2, x(end), y(to) + bar / 2);
  }

  /// Messages between the ranks that are drawn, those of the critical path last.
  std::string messages() const {
    std::string svg;
    for (const auto& [rank, place] : rows_)
      for (const ClusterEvent& event : run_.events[static_cast<std::size_t>(rank)]) {
        const auto sender = rows_.find(run_.classes.like(Rank{event.peer}).value());
        if (!event.blocked || sender == rows_.end() || !run_.classes.all()) continue;
        const auto& sent = run_.events[static_cast<std::size_t>(sender->first)][event.sent];
        if (x(event.end) - x(sent.end) > 0.25)
          svg += line("message", sender->second, place, sent.end, event.end);
      }
    for (const PathHop& hop : path_.hops) {
      const auto from = rows_.find(hop.from.value()), to = rows_.find(hop.to.value());
      if (from != rows_.end() && to != rows_.end())
        svg += line("critical", from->second, to->second, hop.sent, hop.received);
    }
    return svg;
  }

  std::string axis(int at) const {
    std::string marks;
    for (int i = 0; i <= 5; ++i)
      marks += fmt::format("<text x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{:.2f} us</text>\n",
                           left + width * i / 5, at, run_.time / 5000 * i);
    return marks;
  }

  static std::string legend(int at) {
    constexpr std::pair<std::string_view, std::string_view> kinds[] = {
        {"work", "combines and copies"},
        {"send", "sends"},
        {"read", "reads from a rank of its host"},
        {"wait", "waits and receives"}};
    std::string marks;
    int place = left;
    for (const auto& [kind, words] : kinds) {
      marks += fmt::format(
          "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"12\"/><text x=\"{}\" "
          "y=\"{}\">{}</text>\n",
          kind, place, at - 11, place + 18, at, words);
      place += 44 + 7 * static_cast<int>(words.size());
    }
    return marks + fmt::format(
                       "<line class=\"critical\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>"
                       "<text x=\"{}\" y=\"{}\">critical path</text>\n",
                       place, at - 5, place + 24, at - 5, place + 30, at);
  }

  const Scenario& scenario_;
  const ClusterRun& run_;
  const CriticalPath path_;
  std::map<int, int> rows_;  // by rank: its place
};

}  // namespace

std::string picture(const Scenario& scenario) {
  return Picture{scenario}.draw();
}

}  // namespace capstan::cli
