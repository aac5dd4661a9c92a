// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace capstan::report {

/// A value of a line, with the quartiles between which it spread; both 0 where these are unknown.
struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;
  std::string note{};  ///< beside the value under the pointer
};

/// The role of a line: the subject of the page is drawn thick, a bound dashed and grey.
enum class Role { subject, other, bound };

struct Line {
  std::string name;
  std::vector<Point> points{};
  Role role = Role::other;
  bool shown = true;  ///< false: switched off at first
};

/// Lines over sizes. `unit` is "microseconds" or "GB/s"; both axes are logarithmic.
struct Diagram {
  std::string title, unit;
  std::vector<Line> lines{};
};

/// The choice at a size, such as an algorithm. Neighbours with one name become a stretch.
struct Taken {
  double x = 0;
  std::string name;
};

/// Diagrams over the same sizes, with one legend that switches lines on and off in all of them.
struct Figure {
  std::string title;
  std::vector<Diagram> diagrams{};
  std::vector<Taken> taken{};
};

/// A table of numbers as colours: from -1 (worst, orange) over 0 to 1 (best, blue).
struct HeatMap {
  struct Cell {
    std::string text;
    double shade = 0;
    std::string note{};
  };
  struct Row {
    std::string name;
    std::vector<std::optional<Cell>> cells{};  ///< one for each column
  };
  std::string title, legend;
  std::vector<std::string> columns{};
  std::vector<Row> rows{};
};

/// Bars that consist of parts, one below the other, and a second bar where there is a value to
/// compare with. Values are in `unit`.
struct Bars {
  struct Bar {
    std::string name;
    std::vector<double> parts{};  ///< one for each name in Bars::parts
    std::optional<double> compared{};
    std::string note{};
  };
  std::string title, unit;
  std::vector<std::string> parts{};
  std::string compared{};  ///< what Bar::compared is: "measured"
  std::vector<Bar> bars{};
};

struct Table {
  std::string title;
  std::vector<std::string> head{};
  std::vector<std::vector<std::string>> rows{};
};

/// A drawing in SVG.
struct Drawing {
  std::string title, svg;
};

/// A page that shows what a command has found: one HTML file that needs no other and no network.
/// Any text may hold any characters. Parts appear in the order in which they were added.
class Page {
 public:
  Page(std::string title, std::string lead);

  /// A line of the page's head, such as the machine or the command.
  void add_fact(std::string name, std::string value);
  void add_facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void add(const Figure& figure);
  void add(const HeatMap& map);
  void add(const Bars& bars);
  void add(const Table& table);
  void add(const Drawing& drawing);

  std::string html() const;

 private:
  std::string title_;
  nlohmann::json document_;
};

/// Throws InvalidArgument, with what to install, where the program was built without Chart.js.
/// `option` is what the user asked for: "--chart".
void require_charts(const std::string& option);

}  // namespace capstan::report
