#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/cli/explain/report.hpp"

namespace capstan::cli {
namespace {

constexpr int left = 70, top = 56, row = 30, bar = 18;
constexpr double width = 900;

/// The name and the colour (Okabe and Ito's, which the colour-blind tell apart) of a kind of
/// operation.
struct Look {
  std::string_view name, colour;
};
Look look_of(OpCode code) {
  switch (code) {
    case OpCode::gather:
      return {"copy or reduce", "#0072b2"};
    case OpCode::push:
      return {"push to another host", "#009e73"};
    case OpCode::flush:
    case OpCode::notify:
      return {"flush or notify", "#cc79a7"};
    case OpCode::signal:
      return {"signal", "#d55e00"};
    case OpCode::wait:
      break;
  }
  return {"wait", "#e69f00"};
}

/// Draws the spans of one call.
class Drawing {
 public:
  explicit Drawing(const Predictor::Timeline& line) : line_(line) {
    begin_ = std::ranges::min(line.spans, {}, &SimulatedSpan::begin).begin;
    end_ = std::max(std::ranges::max(line.spans, {}, &SimulatedSpan::end).end, begin_ + 1);
  }

  std::string draw(const std::string& title) {
    const int height = top + row * line_.programs.size() + 70;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
        "font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"{}\" y=\"20\" font-size=\"15\">{}</text>\n",
        left + width + 30, height, left, title);
    for (const Rank rank : all_ranks(line_.programs.size()))
      svg +=
          fmt::format("<text x=\"10\" y=\"{}\">rank {}</text>\n", y(rank) + bar - 4, rank.value());
    for (const SimulatedSpan& span : line_.spans) svg += rectangle(span);
    return svg + arrows() + axis(height - 50) + legend(height - 14) + "</svg>\n";
  }

 private:
  double x(double time) const { return left + (time - begin_) / (end_ - begin_) * width; }
  static int y(Rank rank) { return top + row * rank.value(); }
  const Op& op(const SimulatedSpan& span) const { return line_.programs[span.rank].ops[span.op]; }

  std::string rectangle(const SimulatedSpan& span) const {
    return fmt::format(
        "<rect class=\"step\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">"
        "<title>rank {}, {:.2f} to {:.2f} us: {}</title></rect>\n",
        x(span.begin), y(span.rank), std::max(1.0, x(span.end) - x(span.begin)), bar,
        look_of(op(span).code).colour, span.rank.value(), (span.begin - begin_) / 1000,
        (span.end - begin_) / 1000, escaped(to_string(line_.programs[span.rank], op(span))));
  }

  /// "->" as XML wants it.
  static std::string escaped(const std::string& text) {
    std::string safe;
    for (const char c : text)
      safe += c == '>' ? "&gt;" : c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string{c};
    return safe;
  }

  /// From each signal to the wait that it ends: the n-th of a pair of ranks to the n-th.
  std::string arrows() const {
    using Pair = std::pair<Rank, Rank>;
    std::map<Pair, std::vector<const SimulatedSpan*>> signals, waits;
    for (const SimulatedSpan& span : line_.spans) {
      if (op(span).code == OpCode::signal) signals[{span.rank, op(span).peer}].push_back(&span);
      if (op(span).code == OpCode::wait) waits[{op(span).peer, span.rank}].push_back(&span);
    }
    std::string lines;
    for (const auto& [pair, sent] : signals)
      for (std::size_t i = 0; i < std::min(sent.size(), waits[pair].size()); ++i)
        lines += fmt::format(
            "<line class=\"message\" x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\" "
            "stroke=\"#444444\" stroke-width=\"0.8\"/>\n",
            x(sent[i]->end), y(pair.first) + bar / 2, x(waits[pair][i]->end),
            y(pair.second) + bar / 2);
    return lines;
  }

  std::string axis(int at) const {
    std::string marks;
    for (int i = 0; i <= 5; ++i)
      marks += fmt::format("<text x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{:.2f} us</text>\n",
                           left + width * i / 5, at, (end_ - begin_) / 5000 * i);
    return marks;
  }

  static std::string legend(int at) {
    std::string marks;
    int i = 0;
    for (const OpCode code :
         {OpCode::gather, OpCode::signal, OpCode::wait, OpCode::push, OpCode::notify}) {
      const int place = left + 175 * i++;
      marks += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" "
          "y=\"{}\">{}</text>\n",
          place, at - 11, look_of(code).colour, place + 18, at, look_of(code).name);
    }
    return marks;
  }

  const Predictor::Timeline& line_;
  double begin_ = 0, end_ = 0;
};

}  // namespace

std::string space_time_svg(const Question& question, const Choice& choice) {
  Predictor predictor{*choice.algorithm, question.hosts(), typical(question.call), question.model};
  const auto line = predictor.timeline(choice.protocol);
  return Drawing{line}.draw(fmt::format("{} by {}, {}: one of many calls, as predicted",
                                        to_string(question.call), choice.algorithm->name,
                                        name_of(choice.protocol)));
}

}  // namespace capstan::cli
