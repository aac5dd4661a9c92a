// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/cell_sweep.hpp"

#include <algorithm>

namespace capstan {
namespace {

double quantile(std::vector<double> times, double share) {
  std::ranges::sort(times);
  return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1) + 0.5)];
}

}  // namespace

CellSweep::CellSweep(MeasuredCell cell, const Options& options)
    : cell_(std::move(cell)), options_(options) {
  for (const MeasuredWay& way : cell_.ways) entries_.push_back({way});
  if (entries_.empty()) stage_ = Stage::finished;
}

std::vector<MeasuredWay> CellSweep::round() const {
  std::vector<MeasuredWay> ways;
  for (const Entry& entry : entries_)
    if (!entry.dropped) ways.push_back(entry.way);
  return ways;
}

void CellSweep::note(const std::vector<double>& nanoseconds) {
  constexpr double hopeless = 4, behind = 1.5;
  auto time = nanoseconds.begin();
  for (Entry& entry : entries_)
    if (!entry.dropped) entry.times.push_back(*time++);
  ++rounds_;
  if (stage_ == Stage::candidates && rounds_ == 2) drop_slower_than(hopeless);
  if (stage_ == Stage::candidates && rounds_ == 4) drop_slower_than(behind);
  if (rounds_ >= options_.rounds) end_stage();
}

/// The median; of the few times of a candidate that was dropped, the least.
double CellSweep::typical(const Entry& entry) {
  return entry.dropped ? least(entry) : quantile(entry.times, 0.5);
}

double CellSweep::least(const Entry& entry) {
  return std::ranges::min(entry.times);
}

std::size_t CellSweep::best() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < entries_.size(); ++i)
    if (typical(entries_[i]) < typical(entries_[best])) best = i;
  return best;
}

/// By the least times: a disturbance in one turn drops nobody.
void CellSweep::drop_slower_than(double times) {
  double fastest = least(entries_.front());
  for (const Entry& entry : entries_) fastest = std::min(fastest, least(entry));
  for (Entry& entry : entries_) entry.dropped = entry.dropped || least(entry) > fastest * times;
}

/// Shorter blocks are worth another step only if they were faster by more than luck.
void CellSweep::end_stage() {
  constexpr double gain = 0.98;
  if (stage_ == Stage::candidates) return try_shorter(best());
  const std::size_t last = entries_.size() - 1;
  if (typical(entries_[last]) < gain * typical(entries_[parent_])) return try_shorter(last);
  stage_ = Stage::finished;
}

/// Begins rounds of a candidate and of the same one in blocks of half the length.
void CellSweep::try_shorter(std::size_t parent) {
  parent_ = parent;
  const MeasuredWay way = entries_[parent].way;
  stage_ = Stage::finished;
  if (lowered_as(way.protocol) != Protocol::staged || way.times_shorter * 2 > options_.most_shorter)
    return;
  stage_ = Stage::shorter, rounds_ = 0;
  for (Entry& entry : entries_) entry.dropped = true;
  entries_[parent].dropped = false, entries_[parent].times.clear();
  entries_.push_back({way});
  entries_.back().way.times_shorter *= 2;
}

/// The confidence is the share of rounds in which the fastest candidate was among the fastest.
MeasuredCell CellSweep::result() const {
  constexpr double among = 1.05;
  MeasuredCell cell = cell_;
  cell.ways.clear();
  for (const Entry& entry : entries_) {
    MeasuredWay& way = cell.ways.emplace_back(entry.way);
    way.nanoseconds = typical(entry);
    way.spread = (quantile(entry.times, 0.75) - quantile(entry.times, 0.25)) / way.nanoseconds;
  }
  const Entry& winner = entries_[best()];
  double good = 0;
  for (std::size_t i = 0; i < winner.times.size(); ++i)
    good += std::ranges::all_of(entries_, [&](const Entry& other) {
      return i >= other.times.size() || winner.times[i] <= among * other.times[i];
    });
  cell.confidence = good / static_cast<double>(winner.times.size());
  std::ranges::stable_sort(cell.ways, {}, &MeasuredWay::nanoseconds);
  return cell;
}

std::vector<CellSweep::Times> CellSweep::all_times() const {
  std::vector<Times> all;
  for (const Entry& entry : entries_) all.push_back({entry.way, entry.times});
  return all;
}

}  // namespace capstan
