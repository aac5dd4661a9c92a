// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/report.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "capstan/error.hpp"

namespace capstan::perf {

std::string short_size(Bytes size) {
  const std::uint64_t bytes = size.value();
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::to_string(bytes);
}

std::string unusual_conditions(const MeasureOptions& options) {
  std::string text;
  if (!options.bind) text += ", ranks not bound to cores";
  if (options.buffers == Buffers::allocated) text += ", Capstan's buffers allocated by it";
  if (options.skew.count() > 0)
    text +=
        fmt::format(", ranks come to calls that are alone within {} us",
                    std::chrono::duration_cast<std::chrono::microseconds>(options.skew).count());
  return text;
}

nlohmann::json conditions_of(const MeasureOptions& options) {
  return {{"bound_to_cores", options.bind},
          {"buffers", name_of(options.buffers)},
          {"skew_us", std::chrono::duration_cast<std::chrono::microseconds>(options.skew).count()}};
}

std::string table_head(Collective collective, int ranks, const std::string& where) {
  return fmt::format(
      "# {} over {} ranks ({}); times of the slowest rank, per call\n"
      "#{:>11} {:>12} {:>5} {:>8} {:>19} {:>11} {:>11} {:>7} {:>11} {:>8} {:>8} {:>7}\n"
      "#{:>11} {:>12} {:>5} {:>8} {:>19} {:>11} {:>11} {:>7} {:>11} {:>8} {:>8} {:>7}\n",
      name_of(collective), ranks, where, "size", "count", "type", "op", "algorithm", "time", "min",
      "spread", "alone", "algbw", "busbw", "wrong", "(bytes)", "(elements)", "", "", "", "(us)",
      "(us)", "(%)", "(us)", "(GB/s)", "(GB/s)", "");
}

std::string table_line(const Measurement& m) {
  return fmt::format(
      "{:>12} {:>12} {:>5} {:>8} {:>19} {:>11.2f} {:>11.2f} {:>7.1f} {:>11} {:>8.2f} "
      "{:>8.2f} {:>7}{}\n",
      m.bytes().value(), m.cell.contract(m.ranks).typical_count().value(), name_of(m.cell.type),
      reduces(m.cell.collective) ? name_of(m.cell.op) : "-", m.algorithm, m.median, m.least,
      100 * m.spread, m.alone > 0 ? fmt::format("{:.2f}", m.alone) : "-", m.algorithm_bandwidth(),
      m.bus_bandwidth(), m.wrong, m.settled ? "" : "  not settled");
}

nlohmann::json to_json(const Measurement& m) {
  return {{"collective", name_of(m.cell.collective)},
          {"ranks", m.ranks},
          {"bytes", m.bytes().value()},
          {"count", m.cell.contract(m.ranks).typical_count().value()},
          {"type", name_of(m.cell.type)},
          {"op", name_of(m.cell.op)},
          {"in_place", m.cell.in_place},
          {"buffers", name_of(m.buffers)},
          {"algorithm", m.algorithm},
          {"explanation", m.explanation},
          {"median_us", m.median},
          {"min_us", m.least},
          {"spread", m.spread},
          {"alone_us", m.alone},
          {"algbw_gbps", m.algorithm_bandwidth()},
          {"busbw_gbps", m.bus_bandwidth()},
          {"wrong", m.wrong},
          {"calls", m.calls},
          {"settled", m.settled}};
}

namespace {

[[noreturn]] void refuse_file(const std::string& file) {
  throw SystemError(fmt::format("cannot write '{}': check the path", file));
}

/// The target of a chain of symbolic links, which may be missing. A circle leads to one of its
/// links.
std::filesystem::path target_of(std::filesystem::path file) {
  constexpr int most_links = 40;  // as many as Linux follows
  std::error_code ignored;        // opening the file says what is wrong
  for (int i = 0; i < most_links && std::filesystem::is_symlink(file, ignored); ++i)
    file = file.parent_path() / std::filesystem::read_symlink(file, ignored);
  return file;
}

/// Whether it has made a file, and removed it again: the file was missing, and can be written.
bool can_create(const std::filesystem::path& file) {
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (made < 0) return false;
  ::close(made);
  ::unlink(file.c_str());
  return true;
}

}  // namespace

void check_writable(const std::string& file) {
  if (file.empty() || file == "-" || can_create(target_of(file))) return;
  std::error_code missing;
  if (!std::filesystem::exists(file, missing) || !std::ofstream{file, std::ios::app})
    refuse_file(file);
}

void write_document(const std::string& file, const std::string& text) {
  const std::string_view end = text.ends_with('\n') ? "" : "\n";
  if (file == "-") {
    fmt::print("{}{}", text, end);
    return;
  }
  std::ofstream out{file};
  out << text << end;
  if (!out.flush()) refuse_file(file);
}

}  // namespace capstan::perf
