// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/registration/range_counts.hpp"

#include <iterator>

namespace capstan {

void RangeCounts::split(std::uintptr_t address) {
  auto part = parts_.lower_bound(address);
  if (part == parts_.begin()) return;
  --part;
  if (part->second.end <= address) return;
  parts_.emplace(address, Part{part->second.end, part->second.count});
  part->second.end = address;
}

void RangeCounts::join_neighbours(AddressRange range) {
  auto part = parts_.lower_bound(range.begin);
  if (part != parts_.begin()) --part;
  while (part != parts_.end() && part->first <= range.end) {
    const auto next = std::next(part);
    if (next == parts_.end()) return;
    if (part->second.end == next->first && part->second.count == next->second.count) {
      part->second.end = next->second.end;
      parts_.erase(next);
    } else {
      part = next;
    }
  }
}

void RangeCounts::add(AddressRange range) {
  if (range.empty()) return;
  split(range.begin);
  split(range.end);
  auto at = range.begin;
  for (auto part = parts_.lower_bound(at); part != parts_.end() && part->first < range.end;
       ++part) {
    if (at < part->first) {
      parts_.emplace_hint(part, at, Part{part->first, 1});
      total_ += Bytes{part->first - at};
    }
    ++part->second.count;
    at = part->second.end;
  }
  if (at < range.end) {
    parts_.emplace(at, Part{range.end, 1});
    total_ += Bytes{range.end - at};
  }
  join_neighbours(range);
}

void RangeCounts::remove(AddressRange range, const Visitor& visit) {
  if (range.empty()) return;
  split(range.begin);
  split(range.end);
  for (auto part = parts_.lower_bound(range.begin);
       part != parts_.end() && part->first < range.end;) {
    if (--part->second.count > 0) {
      ++part;
      continue;
    }
    const AddressRange gone{part->first, part->second.end};
    total_ -= gone.size();
    part = parts_.erase(part);
    if (visit) visit(gone);
  }
  join_neighbours(range);
}

}  // namespace capstan
