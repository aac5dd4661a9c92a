// SPDX-License-Identifier: Apache-2.0

// The HTML pages of `--chart`, as headless Chromium shows them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "perf/report/origin.hpp"
#include "perf/report/page.hpp"
#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

/// Chromium, by whichever name it is installed; empty: it is not.
std::string browser() {
  for (const char* name : {"chromium-headless-shell", "chromium", "chromium-shell"})
    if (const std::string path = fmt::format("/usr/bin/{}", name);
        ::access(path.c_str(), X_OK) == 0)
      return path;
  return {};
}

void expect_readable(const json& seen) {
  EXPECT_THAT(seen["problems"], IsEmpty()) << seen["problems"].dump(1);
  EXPECT_GT(seen["boxes"], 10);
  EXPECT_GE(seen["contrast"], 4.5) << "of texts";
  EXPECT_EQ(seen["printedGround"], "rgb(255, 255, 255)");
}

class Reports : public ::testing::Test {
 protected:
  void SetUp() override {
    if (browser().empty()) GTEST_SKIP() << "no Chromium: apt-get install chromium-headless-shell";
    try {
      require_charts("--chart");
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::string file(const std::string& name) const { return folder_ / name; }

  /// Nothing is painted, and so the browser has no frames to wait for.
  static constexpr const char* frames_by_clock =
      "<script>requestAnimationFrame = (then) => setTimeout(() => then(performance.now()), 1);"
      "</script>";

  /// The report of tests/processes/report_probe.js about a page.
  json look(const std::string& html, int width = 1280, bool dark = false) const {
    const std::string page = folder_ / "page.html";
    std::string text = html;
    const std::size_t end = text.rfind("</body>");
    EXPECT_NE(end, std::string::npos) << "no whole page: " << text.substr(0, 200);
    if (end == std::string::npos) return {};
    text.insert(end, fmt::format("<script>{}</script>", read(REPORT_PROBE)));
    text.insert(text.find("<title>"), frames_by_clock);
    std::ofstream{page} << text;
    const auto result =
        run_command({browser(), "--headless", "--no-sandbox", "--disable-gpu", "--log-level=3",
                     "--virtual-time-budget=2000", "--user-data-dir=" + file("profile"),
                     fmt::format("--window-size={},1000", width),
                     fmt::format("--blink-settings=preferredColorScheme={}", dark ? 0 : 1),
                     "--dump-dom", "file://" + page});
    const std::size_t first = result.output.find("SEEN{"), last = result.output.rfind("}SEEN");
    EXPECT_NE(first, std::string::npos) << "the page's script has not ended";
    if (first == std::string::npos) return {};
    json seen = json::parse(unescaped(result.output.substr(first + 4, last + 1 - first - 4)));
    EXPECT_TRUE(seen.contains("title")) << seen["problems"];
    return seen;
  }

  /// The answer of a command as JSON, and what is seen on the page that it writes beside.
  std::pair<json, json> answer_and_page(std::vector<std::string> command) const {
    command.insert(command.begin(), CAPSTAN_PROGRAM);
    command.insert(command.end(), {"--json", "--chart", file("chart.html")});
    const auto result = run_command(command, {{"CAPSTAN_PROFILE", "none"}});
    EXPECT_EQ(result.status, 0) << result.output;
    if (result.status != 0) return {};
    const std::string html = read(file("chart.html"));
    expect_readable(look(html, 480));
    const json seen = look(html);
    expect_readable(seen);
    return {json::parse(result.output), seen};
  }

  /// Chromium writes characters of texts as entities.
  static std::string unescaped(std::string text) {
    for (std::size_t at = 0; (at = text.find("&nbsp;", at)) != std::string::npos;)
      text.replace(at, 6, "\u00a0");
    return text;
  }

  const test::TemporaryFolder folder_;
};

Line line(const std::string& name, double factor, Role role = Role::other) {
  Line result{.name = name, .role = role};
  for (double bytes = 8; bytes <= 1 << 20; bytes *= 8) {
    const double time = factor * (1 + bytes / 1000);
    result.points.push_back({bytes, time, 0.9 * time, 1.2 * time, "of " + name});
  }
  return result;
}

/// A page with everything that a page may have.
Page page_of_all(const std::string& name) {
  Page page{name, "Lead of " + name};
  page.add_facts(origin({"perf", name}, ""));
  page.add_fact(name, name);
  std::vector<Taken> taken;
  for (const Point& point : line(name, 1).points)
    taken.push_back({point.x, point.x < 1000 ? "flat" : name});
  page.add(Figure{.title = "Figure " + name,
                  .diagrams = {{.title = "time",
                                .unit = "microseconds",
                                .lines = {line(name, 1, Role::subject), line("other", 3),
                                          line("bound", 0.5, Role::bound)}}},
                  .taken = taken});
  page.add(HeatMap{.title = "Heat",
                   .legend = name,
                   .columns = {"8", "64"},
                   .rows = {{name, {HeatMap::Cell{"1.50", 0.5, name}, std::nullopt}}}});
  page.add(Bars{.title = "Bars",
                .unit = "microseconds",
                .parts = {"latency", "waiting"},
                .compared = "measured",
                .bars = {{name, {1, 2}, 2.5, name}, {"second", {3, 4}, std::nullopt, ""}}});
  page.add(Table{.title = "Table", .head = {"one", "two"}, .rows = {{name, "text"}}});
  page.add(Drawing{.title = "Drawing",
                   .svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 20\"><text "
                          "x=\"2\" y=\"14\">drawn</text></svg>"});
  return page;
}

/// The pages of every command, for `scripts/test` without a browser.
TEST(Pages, OfEveryCommandAreWhole) {
  try {
    require_charts("--chart");
  } catch (const std::exception& error) {
    GTEST_SKIP() << error.what();
  }
  const test::TemporaryFolder folder;
  const std::string page = folder / "page.html";
  const std::pair<const char*, const char*> commands[] = {
      {"perf all_reduce -n 2 -b 8 -e 32K -f 64 --rounds 2 --seconds 0.002", "all_reduce, 2 ranks"},
      {"explain all_reduce --bytes 64k -n 4", "critical path"},
      {"simulate all_reduce -n 16 -b 1M --fabric fat-tree:radix=8", "rank 15"},
      {"perf all -n 2 -e 1K --seconds 0.001 --rounds 1 --patience 0", "all_to_all_v, 2 ranks"},
      {"explain all_to_all --bytes 64M -n 16", "critical path"},
      {"simulate all_reduce -n 1024 -b 64M --fabric fat-tree", "rank 990"},
      {"tune all_reduce -n 2 --sizes 64 --seconds 0.01 --output $1.json", "all_reduce"}};
  for (const auto& [command, contained] : commands) {
    const auto result = run_command(
        {"sh", "-c", fmt::format("{} {} --chart $1", CAPSTAN_PROGRAM, command), "sh", page},
        {{"CAPSTAN_PROFILE", "none"}});
    EXPECT_EQ(result.status, 0) << command << ": " << result.output;
    EXPECT_THAT(read(page), AllOf(HasSubstr(contained), HasSubstr("</html>"))) << command;
    EXPECT_LT(fs::file_size(page), 1U << 20) << command;
    fs::remove(page);
  }
  EXPECT_THAT(page_of_all("<b>").html(), AllOf(HasSubstr("<title>&lt;b"), HasSubstr("</html>")));
}

/// The column `sum` of a page is the time that the text tells, and no part is less than nothing.
TEST(Pages, PartsOfATimeAddUp) {
  const auto candidates = [](std::vector<std::string> words) {
    words.insert(words.begin(), CAPSTAN_PROGRAM);
    return json::parse(run_command(words, {{"CAPSTAN_LOG", "error"}}).output)["candidates"];
  };
  const auto expect_sum = [](const json& parts, double total) {
    double sum = 0;
    for (const auto& [name, part] : parts.items()) {
      if (name == "total") continue;
      EXPECT_GE(part.get<double>(), -1e-9) << name;
      sum += part.get<double>();
    }
    EXPECT_NEAR(sum, total, 1e-3 * total);
  };
  for (const char* bytes : {"8", "64K", "16M"}) {
    for (const json& each :
         candidates({"explain", "all_reduce", "--bytes", bytes, "-n", "6", "--json"}))
      if (each["predicted"].is_object()) expect_sum(each["predicted"], each["predicted"]["total"]);
    for (const json& each :
         candidates({"simulate", "all_reduce", "--bytes", bytes, "-n", "48", "--json"}))
      if (each["time"].is_number()) expect_sum(each["parts"], each["time"]);
  }
}

TEST_F(Reports, AreReadableWideAndNarrowInLightAndDark) {
  const std::string html = page_of_all("capstan").html();
  for (const int width : {1280, 480})
    for (const bool dark : {false, true}) {
      const json seen = look(html, width, dark);
      SCOPED_TRACE(fmt::format("{} pixels, {}", width, dark ? "dark" : "light"));
      EXPECT_EQ(seen["dark"], dark);
      expect_readable(seen);
    }
}

TEST_F(Reports, ShowValuesInTablesAndUnderThePointerAndSwitchLinesOff) {
  const json seen = look(page_of_all("capstan").html());
  ASSERT_THAT(seen["charts"], SizeIs(2));
  const json& lines = seen["charts"][0];
  EXPECT_EQ(lines["shown"], 9) << "three lines, each with two edges of its band";
  EXPECT_EQ(lines["shownWithoutFirst"], 6);
  EXPECT_EQ(lines["pressed"], "false");
  EXPECT_EQ(lines["shownAgain"], 9);
  EXPECT_THAT(lines["pointer"], Contains("capstan: 1.01 us (907 ns to 1.21 us)  of capstan"));
  EXPECT_EQ(lines["pointer"].size(), 3U) << lines["pointer"];
  const json& values = seen["tables"][0];
  EXPECT_THAT(values["head"], ElementsAre("bytes", "capstan", "other", "bound", "taken"));
  EXPECT_EQ(values["texts"][3][0], "4K");
  EXPECT_DOUBLE_EQ(values["values"][3][2], 3 * (1 + 4.096));
  EXPECT_EQ(values["texts"][3][4], "capstan");
  EXPECT_EQ(seen["charts"][1]["shown"], 3) << "two parts and what was measured";
  EXPECT_THAT(seen["drawings"], ElementsAre("drawn"));
}

/// No text breaks out of its place: neither the end of an element nor markup, quotes or bytes that
/// are no UTF-8.
TEST_F(Reports, AnyTextIsShownAsItIs) {
  const std::string hostile =
      "</script><script>document.title='broken'</script><b onmouseover=\"x\">&amp; ' \\u003c <!--";
  const json seen = look(page_of_all(hostile).html());
  EXPECT_EQ(seen["title"], hostile);
  EXPECT_EQ(seen["tab"], hostile);
  EXPECT_EQ(seen["facts"][hostile], hostile);
  EXPECT_EQ(seen["charts"][0]["names"][0], hostile);
  EXPECT_EQ(seen["tables"][0]["head"][1], hostile);
  EXPECT_NO_THROW(look(page_of_all("\xff\xfe").html()));
  EXPECT_EQ(quoted("it's <b>"), "'it'\\''s <b>'");
  EXPECT_EQ(quoted("--sizes=8,64"), "--sizes=8,64");
}

TEST_F(Reports, OfPerfHaveItsFiguresAndSayWhereTheyComeFrom) {
  const auto result = run_command({CAPSTAN_PROGRAM,
                                   "perf",
                                   "all_reduce",
                                   "-n",
                                   "2",
                                   "-b",
                                   "8",
                                   "-e",
                                   "32K",
                                   "-f",
                                   "8",
                                   "--types",
                                   "f32,f64",
                                   "--rounds",
                                   "3",
                                   "--seconds",
                                   "0.003",
                                   "--json=" + file("results.json"),
                                   "--chart",
                                   file("chart.html")});
  ASSERT_EQ(result.status, 0) << result.output;
  const json seen = look(read(file("chart.html")));
  expect_readable(seen);
  EXPECT_EQ(seen["title"], "all_reduce, 2 ranks");
  for (const char* fact : {"machine", "host", "Capstan", "date", "load"})
    EXPECT_FALSE(seen["facts"].value(fact, "").empty()) << fact;
  EXPECT_THAT(seen["facts"].value("command", ""),
              HasSubstr("capstan perf all_reduce -n 2 -b 8 -e 32K -f 8 --types f32,f64"));
  const json results = json::parse(read(file("results.json")))["results"];
  const json &times = seen["tables"][0], &bandwidths = seen["tables"][1];
  ASSERT_THAT(results, SizeIs(10));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t row = i % 5, column = 1 + i / 5;
    EXPECT_DOUBLE_EQ(times["values"][row][column], results[i]["median_us"]);
    EXPECT_NEAR(bandwidths["values"][row][column], results[i]["busbw_gbps"], 1e-9);
  }
  EXPECT_EQ(times["texts"][4][0], "32K");
  EXPECT_EQ(times["texts"][0].back(), results[0]["algorithm"]);
  EXPECT_THAT(seen["tables"], Contains(::testing::ResultOf(
                                  [](const json& table) { return table["kind"]; }, "heat")));
}

/// A row of a table of values by its first text.
json row_of(const json& table, const std::string& name) {
  for (std::size_t i = 0; i < table["texts"].size(); ++i)
    if (table["texts"][i][0] == name) return table["values"][i];
  ADD_FAILURE() << "no row " << name << " in " << table.dump(1);
  return {};
}

TEST_F(Reports, OfExplainShowCandidatesByPartsAndTheCriticalPath) {
  const auto [answer, seen] =
      answer_and_page({"explain", "all_reduce", "--bytes", "64k", "-n", "4"});
  const json& candidates = seen["tables"][0];
  int shown = 0;
  for (const json& candidate : answer["candidates"]) {
    if (candidate["predicted"].is_null()) continue;
    const json row = row_of(candidates, fmt::format("{}{}/{}", candidate["chosen"] ? "* " : "",
                                                    candidate["algorithm"].get<std::string>(),
                                                    candidate["protocol"].get<std::string>()));
    const json& predicted = candidate["predicted"];
    EXPECT_NEAR(row[1], predicted["total"], 1e-6);
    EXPECT_NEAR(row[2], predicted["latency"], 1e-6);
    EXPECT_NEAR(row[5], predicted["waiting"], 1e-6);
    ++shown;
  }
  EXPECT_EQ(candidates["texts"].size(), shown);
  EXPECT_THAT(candidates["head"], Not(Contains("measured (profile)"))) << "there is none";
  for (const bool dark : {false, true}) expect_readable(look(read(file("chart.html")), 380, dark));
  ASSERT_THAT(seen["drawings"], SizeIs(1));
  EXPECT_THAT(seen["drawings"][0].get<std::string>(), HasSubstr("rank 3"));
  EXPECT_THAT(seen["drawings"][0].get<std::string>(), HasSubstr("critical path"));
  EXPECT_EQ(seen["facts"]["decided by"], answer["source"]);
}

TEST_F(Reports, OfSimulateShowCandidatesByPartsAndTheLoadOfLinks) {
  const auto [answer, seen] = answer_and_page(
      {"simulate", "all_reduce", "-n", "32", "-b", "1M", "--fabric", "fat-tree:radix=8"});
  int shown = 0;
  for (const json& candidate : answer["candidates"]) {
    if (candidate["time"].is_null() && !candidate.contains("at_least")) continue;
    const std::string name = fmt::format("{}/{}", candidate["algorithm"].get<std::string>(),
                                         candidate["protocol"].get<std::string>());
    const json row = row_of(seen["tables"][0], (shown++ == 0 ? "* " : "") + name);
    if (candidate["time"].is_null()) {
      EXPECT_NEAR(row[8], candidate["at_least"], 0.01) << name;
      continue;
    }
    const json& parts = candidate["parts"];
    double sum = 0;
    for (const json& each : parts) sum += each.get<double>();
    EXPECT_NEAR(sum, candidate["time"], 0.01) << name;
    EXPECT_NEAR(row[1], candidate["time"], 0.01) << name;
    EXPECT_NEAR(row[2], parts["overhead"], 0.01) << name;
    EXPECT_NEAR(row[6], parts["queueing"], 0.01) << name;
  }
  EXPECT_GT(shown, 3);
  for (const json& load : answer["links"]["classes"])
    EXPECT_NEAR(row_of(seen["tables"][1], load["class"].get<std::string>())[1],
                load["busy"].get<double>() / load["used"].get<double>() /
                    answer["time"].get<double>() * 100,
                0.01);
  ASSERT_THAT(seen["drawings"], SizeIs(1));
  EXPECT_THAT(seen["drawings"][0].get<std::string>(), HasSubstr("rank 31"));
}

TEST_F(Reports, OfTuneShowEveryCandidateAndTheFastestAtFirst) {
  const auto result = run_command({CAPSTAN_PROGRAM, "tune", "all_reduce", "-n", "2", "--sizes",
                                   "64,64K", "--seconds", "0.01", "--output", file("profile.json"),
                                   "--chart", file("chart.html")});
  ASSERT_EQ(result.status, 0) << result.output;
  const json seen = look(read(file("chart.html")));
  expect_readable(seen);
  const json& times = seen["tables"][1];
  const json profile = json::parse(read(file("profile.json")));
  const json& cells = profile["groups"][0]["cells"];
  ASSERT_THAT(cells, SizeIs(2));
  for (const json& cell : cells) {
    const std::size_t row = cell["bytes"] == 64 ? 0 : 1;
    std::vector<double> expected, found;
    for (const json& way : cell["ways"]) expected.push_back(way["microseconds"]);
    for (const json& value : times["values"][row])
      if (!value.is_null()) found.push_back(value);
    std::ranges::sort(expected), std::ranges::sort(found);
    EXPECT_THAT(found, ::testing::Pointwise(::testing::DoubleNear(1e-6), expected));
    const auto name = std::ranges::find(times["head"], times["texts"][row].back());
    ASSERT_NE(name, times["head"].end());
    EXPECT_NEAR(times["values"][row][static_cast<std::size_t>(name - times["head"].begin())],
                expected.front(), 1e-6);
  }
  EXPECT_EQ(seen["charts"][0]["names"].size(), 3 * (times["head"].size() - 2));
  EXPECT_LE(seen["charts"][0]["shown"], 6) << "those that were the fastest, with their bands";
}

}  // namespace
}  // namespace capstan::report
