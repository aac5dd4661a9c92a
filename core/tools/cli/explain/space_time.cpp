// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/palette.hpp"
#include "core/base/xml_text.hpp"
#include "core/tools/cli/explain/report.hpp"

namespace capstan::cli {
namespace {

/// The name and the colour of a kind of operation.
struct Look {
  std::string_view name, colour;
};
Look look_of(OpCode code) {
  switch (code) {
    case OpCode::gather:
      return {"copy or reduce", palette::reduce};
    case OpCode::push:
      return {"push to another host", palette::put};
    case OpCode::flush:
    case OpCode::notify:
      return {"flush or notify", palette::notify};
    case OpCode::signal:
      return {"signal", palette::signal};
    case OpCode::wait:
      break;
  }
  return {"wait", palette::wait};
}

/// Readable in light and in dark mode, alone and in a page.
constexpr const char* light_or_dark =
    "<style>.space-time{color:#1c1c1c;background:#ffffff}"
    "@media screen and (prefers-color-scheme:dark)"
    "{.space-time{color:#ececec;background:#181818}}</style>\n";

/// Draws the spans of one call.
class SpaceTime {
 public:
  explicit SpaceTime(const Predictor::Timeline& line) : line_(line) {
    if (line.spans.empty()) return;  // one rank that has nothing to do
    match_messages();
    find_critical_path();
    begin_ = std::ranges::min(line.spans, {}, &SimulatedSpan::begin).begin;
    end_ = std::max(std::ranges::max(line.spans, {}, &SimulatedSpan::end).end, begin_ + 1);
  }

  std::string draw(const std::string& title) {
    const int height = top + row * line_.programs.size() + 70;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"space-time\" viewBox=\"0 0 {} {}\" "
        "font-family=\"sans-serif\" "
        "fill=\"currentColor\" font-size=\"12\">\n{}"
        "<text x=\"{}\" y=\"20\" font-size=\"15\">{}</text>\n",
        left + width + 30, height, light_or_dark, left, xml_text(title));
    for (const Rank rank : all_ranks(line_.programs.size()))
      svg +=
          fmt::format("<text x=\"10\" y=\"{}\">rank {}</text>\n", y(rank) + bar - 4, rank.value());
    for (const SimulatedSpan& span : line_.spans) svg += rectangle(span);
    return svg + arrows() + axis(height - 50) + legend(height - 14) + "</svg>\n";
  }

 private:
  static constexpr int left = 70, top = 56, row = 30, bar = 18;
  static constexpr double width = 900;

  double x(double time) const { return left + (time - begin_) / (end_ - begin_) * width; }
  static int y(Rank rank) { return top + row * rank.value(); }
  const Op& op(const SimulatedSpan& span) const { return line_.programs[span.rank].ops[span.op]; }

  std::string rectangle(const SimulatedSpan& span) const {
    const bool critical = critical_.contains(&span);
    return fmt::format(
        "<rect class=\"step\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"{}>"
        "<title>rank {}, {:.2f} to {:.2f} us: {}</title></rect>\n",
        x(span.begin), y(span.rank), std::max(1.0, x(span.end) - x(span.begin)), bar,
        look_of(op(span).code).colour,
        critical ? " stroke=\"currentColor\" stroke-width=\"2\"" : "", span.rank.value(),
        (span.begin - begin_) / 1000, (span.end - begin_) / 1000,
        xml_text(to_string(line_.programs[span.rank], op(span))));
  }

  /// Each signal and the wait that it ends: the n-th of a pair of ranks and the n-th.
  void match_messages() {
    using Pair = std::pair<Rank, Rank>;
    std::map<Pair, std::vector<const SimulatedSpan*>> signals, waits;
    for (const SimulatedSpan& span : line_.spans) {
      if (op(span).code == OpCode::signal) signals[{span.rank, op(span).peer}].push_back(&span);
      if (op(span).code == OpCode::wait) waits[{op(span).peer, span.rank}].push_back(&span);
    }
    for (const auto& [pair, sent] : signals)
      for (std::size_t i = 0; i < std::min(sent.size(), waits[pair].size()); ++i)
        ended_by_[waits[pair][i]] = sent[i];
  }

  std::string arrows() const {
    std::string lines;
    for (const auto& [wait, signal] : ended_by_)
      lines += fmt::format(
          "<line class=\"message\" x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\" "
          "stroke=\"{}\" stroke-width=\"{}\"/>\n",
          x(signal->end), y(signal->rank) + bar / 2, x(wait->end), y(wait->rank) + bar / 2,
          critical_messages_.contains(wait) ? "currentColor" : "#808080",
          critical_messages_.contains(wait) ? 2.0 : 0.8);
    return lines;
  }

  /// Backwards from the operation that ends last: before a wait came the signal that ended it, if
  /// it came after the wait had begun, and before any other the operation before it on its rank.
  void find_critical_path() {
    std::map<const SimulatedSpan*, const SimulatedSpan*> before;
    std::map<Rank, const SimulatedSpan*> last;
    for (const SimulatedSpan& span : line_.spans) {
      before[&span] = last[span.rank];
      last[span.rank] = &span;
    }
    const SimulatedSpan* span = &*std::ranges::max_element(line_.spans, {}, &SimulatedSpan::end);
    while (span && critical_.insert(span).second) {
      const auto ended = ended_by_.find(span);
      const bool message = ended != ended_by_.end() && ended->second->end > span->begin;
      if (message) critical_messages_.insert(span);
      span = message ? ended->second : before[span];
    }
  }

  std::string axis(int at) const {
    std::string marks;
    for (int i = 0; i <= 5; ++i)
      marks += fmt::format("<text x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{:.2f} us</text>\n",
                           left + width * i / 5, at, (end_ - begin_) / 5000 * i);
    return marks;
  }

  static std::string legend(int at) {
    constexpr int spacing = 155;
    std::string marks;
    int i = 0;
    for (const OpCode code :
         {OpCode::gather, OpCode::signal, OpCode::wait, OpCode::push, OpCode::notify}) {
      const int place = left + spacing * i++;
      marks += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" "
          "y=\"{}\">{}</text>\n",
          place, at - 11, look_of(code).colour, place + 18, at, look_of(code).name);
    }
    const int place = left + spacing * i;
    marks += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"none\" stroke=\"currentColor\" "
        "stroke-width=\"2\"/><text x=\"{}\" y=\"{}\">critical path</text>\n",
        place, at - 11, place + 18, at);
    return marks;
  }

  const Predictor::Timeline& line_;
  double begin_ = 0, end_ = 1;
  std::map<const SimulatedSpan*, const SimulatedSpan*> ended_by_;  // waits, and their signals
  std::set<const SimulatedSpan*> critical_, critical_messages_;    // the latter: waits
};

}  // namespace

std::string space_time_svg(const Question& question, const Choice& choice) {
  Predictor predictor{*choice.algorithm, question.hosts(), typical(question.call),
                      question.selection.links};
  const auto line = predictor.timeline(choice.protocol);
  return SpaceTime{line}.draw(fmt::format("{} by {}, {}: one of many calls, as predicted",
                                          to_string(question.call), choice.algorithm->name,
                                          name_of(choice.protocol)));
}

}  // namespace capstan::cli
