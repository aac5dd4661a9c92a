// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/base/palette.hpp"
#include "core/tools/cli/simulate/scenario.hpp"

namespace capstan::cli {
namespace {

/// Readable in light and dark mode.
std::string style_of_picture() {
  return fmt::format(
      "<style>text{{font:12px sans-serif;fill:#222}}.head{{font-size:15px}}.work{{fill:{}}}"
      ".send{{fill:{}}}.read{{fill:{}}}.wait{{fill:{}}}.message{{stroke:#999;stroke-width:.6}}"
      ".critical{{stroke:{};stroke-width:1.8}}svg{{background:#fff}}"
      "@media(prefers-color-scheme:dark){{svg{{background:#1b1b1b}}text{{fill:#eee}}"
      ".message{{stroke:#777}}.critical{{stroke:{}}}}}</style>\n",
      palette::reduce, palette::put, palette::copy, palette::wait, palette::critical,
      palette::critical_in_the_dark);
}

/// The actions of a rank, in the order in which they are drawn and explained.
enum class Kind : std::uint8_t { work, send, read, wait };
constexpr std::array<std::string_view, 4> class_of = {"work", "send", "read", "wait"};

struct Action {
  Kind kind;
  double begin, end;
  int peer;
};

std::string words_of(const Action& action, int rank) {
  constexpr std::array<std::string_view, 4> verbs = {"works", "sends to", "reads from",
                                                     "waits for"};
  const auto verb = verbs[static_cast<std::size_t>(action.kind)];
  if (action.kind == Kind::work) return fmt::format("rank {}: {}", rank, verb);
  return fmt::format("rank {}: {} rank {}", rank, verb, action.peer);
}

std::vector<Action> actions_of(const ClusterRun& run, std::size_t rank) {
  std::vector<Action> actions;
  for (const ClusterEvent& event : run.events[rank]) {
    actions.push_back({Kind::work, event.begin - event.work, event.begin, 0});
    actions.push_back({event.is_wait   ? Kind::wait
                       : event.is_send ? Kind::send
                                       : Kind::read,
                       event.begin, event.end, event.peer});
  }
  actions.push_back({Kind::work, run.finished[rank] - run.last_work[rank], run.finished[rank], 0});
  return actions;
}

/// Actions that are too short to be drawn one by one: their shares stand one above the other.
class Strip {
 public:
  bool empty() const { return times_.empty(); }
  double begin() const { return begin_; }
  double end() const { return end_; }

  void add(const Action& action) {
    if (empty()) times_.assign(class_of.size(), 0), begin_ = action.begin;
    times_[static_cast<std::size_t>(action.kind)] += action.end - action.begin;
    end_ = action.end;
  }
  /// The share of a kind in all that the rank did.
  double share(std::size_t kind) const {
    const double all = std::accumulate(times_.begin(), times_.end(), 0.0);
    return all > 0 ? times_[kind] / all : 0;
  }
  void clear() { times_.clear(); }

 private:
  std::vector<double> times_;  // by kind
  double begin_ = 0, end_ = 0;
};

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

  /// Actions below `narrowest` pixels are put together.
  std::string draw(double narrowest) {
    narrowest_ = narrowest;
    const int height = top + row * static_cast<int>(rows_.size()) + 60;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\n"
        "<title>{}</title>\n{}<text class=\"head\" x=\"12\" y=\"24\">{}</text>\n"
        "<text x=\"12\" y=\"44\">{}</text>\n",
        left + width + 40, height, title(), style_of_picture(), title(),
        scenario_.cluster().fabric->description());
    for (const auto& [rank, place] : rows_) svg += lane(rank, place);
    return svg + messages() + critical() + axis(height - 38) + legend(height - 14) + "</svg>\n";
  }

 private:
  static constexpr int left = 96, top = 62, row = 18, bar = 12, most_rows = 48;
  static constexpr double width = 900;
  double widest_strip() const { return 2.5 * narrowest_; }

  void add_row(int rank) { rows_.emplace(rank, 0); }
  double x(double time) const { return left + time / std::max(run_.time, 1.0) * width; }
  static int y(int place) { return top + row * place; }

  std::string title() const {
    const Way& way = scenario_.ways().front();
    return fmt::format("{} by {} on {} ranks: {:.2f} us", to_string(scenario_.call()),
                       way.call.algorithm->name, run_.classes.ranks, scenario_.best().time / 1000);
  }

  std::string bar_of(const Action& action, int rank, int place) const {
    return fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{}, {:.2f} "
        "to {:.2f} us</title></rect>\n",
        class_of[static_cast<std::size_t>(action.kind)], x(action.begin), y(place),
        x(action.end) - x(action.begin), bar, words_of(action, rank), action.begin / 1000,
        action.end / 1000);
  }

  /// Adds the shares of a strip to the outlines of their kinds.
  void draw(Strip& strip, int place, std::array<std::string, 4>& outlines) const {
    if (strip.empty()) return;
    const double from = x(strip.begin()), across = x(strip.end()) - from;
    double down = y(place);
    for (std::size_t kind = 0; kind < outlines.size(); ++kind) {
      const double high = bar * strip.share(kind);
      if (high > 0)
        outlines[kind] +=
            fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}", from, down, across, high, across);
      down += high;
    }
    strip.clear();
  }

  std::string lane(int rank, int place) const {
    std::string svg =
        fmt::format("<text x=\"12\" y=\"{}\">rank {}</text>\n", y(place) + bar - 1, rank);
    std::array<std::string, 4> outlines;
    Strip strip;
    for (const Action& action : actions_of(run_, static_cast<std::size_t>(rank))) {
      if (x(action.end) - x(action.begin) >= narrowest_) {
        draw(strip, place, outlines);
        svg += bar_of(action, rank, place);
        continue;
      }
      strip.add(action);
      if (x(strip.end()) - x(strip.begin()) >= widest_strip()) draw(strip, place, outlines);
    }
    draw(strip, place, outlines);
    for (std::size_t kind = 0; kind < outlines.size(); ++kind)
      if (!outlines[kind].empty())
        svg += fmt::format(
            "<path class=\"{0}\" d=\"{1}\"><title>rank {2}: many short steps; the share of {0} in "
            "them is as high as it stands</title></path>\n",
            class_of[kind], outlines[kind], rank);
    return svg;
  }

  std::string line(int from, int to, double begin, double end) const {
    return fmt::format(
        "<line class=\"message\" x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\"/>\n", x(begin),
        y(from) + bar / 2, x(end), y(to) + bar / 2);
  }

  /// The middle of a rank's row, or where it would be between the rows of its neighbours.
  double middle_of(Rank rank) const {
    const auto next = rows_.lower_bound(rank.value());
    double place = static_cast<double>(rows_.size()) - 1;
    if (next != rows_.end()) {
      place = next->second;
      if (next->first != rank.value() && next != rows_.begin()) {
        const auto before = std::prev(next);
        place -= static_cast<double>(next->first - rank.value()) / (next->first - before->first);
      }
    }
    return top + row * place + bar / 2.0;
  }

  /// The messages of the critical path, in one stroke each. Of a path of very many, those that
  /// reach no farther than a pixel go together.
  std::string critical() const {
    constexpr std::size_t most_strokes = 5000;
    const bool every = path_.hops.size() <= most_strokes;
    std::string outline;
    double last_x = -2, last_y = -2;
    const auto add = [&](char stroke, double to_x, double to_y) {
      if (!every && std::abs(to_x - last_x) < 1 && std::abs(to_y - last_y) < 1) return;
      outline += fmt::format("{}{:.1f} {:.1f}", stroke, to_x, to_y);
      last_x = to_x, last_y = to_y;
    };
    for (const PathHop& hop : path_.hops) {
      add('M', x(hop.sent), middle_of(hop.from));
      add('L', x(hop.received), middle_of(hop.to));
    }
    return fmt::format("<path class=\"critical\" d=\"{}\"/>\n", outline);
  }

  /// Messages between the ranks that are drawn.
  std::string messages() const {
    std::string svg;
    for (const auto& [rank, place] : rows_)
      for (const ClusterEvent& event : run_.events[static_cast<std::size_t>(rank)]) {
        const auto sender = rows_.find(run_.classes.like(Rank{event.peer}).value());
        if (!event.blocked || sender == rows_.end() || !run_.classes.all()) continue;
        const auto& sent = run_.events[static_cast<std::size_t>(sender->first)][event.sent];
        if (x(event.end) - x(sent.end) > narrowest_ / 8)
          svg += line(sender->second, place, sent.end, event.end);
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
  double narrowest_ = 0;
};

}  // namespace

std::string picture(const Scenario& scenario) {
  constexpr std::size_t most_bytes = 400'000;  // a page with it stays below a megabyte
  constexpr double first = 2, last = 64;       // pixels
  Picture drawn{scenario};
  std::string svg = drawn.draw(first);
  for (double narrowest = 2 * first; svg.size() > most_bytes && narrowest <= last; narrowest *= 2)
    svg = drawn.draw(narrowest);
  return svg;
}

}  // namespace capstan::cli
