// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/cells.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "capstan/error.hpp"
#include "core/tools/cli/sizes.hpp"

namespace capstan::cli {
namespace {

template <class Value, class Parse>
std::vector<Value> parse_names(const std::vector<std::string>& names, const char* option,
                               std::span<const Value> all, Parse parse) {
  std::vector<Value> values;
  for (const std::string& name : names) {
    if (name == "all") return {all.begin(), all.end()};
    const auto value = parse(name);
    if (!value) {
      std::vector<std::string_view> known;
      for (const Value each : all) known.push_back(name_of(each));
      throw InvalidArgument(fmt::format("{} does not know '{}': choose from {}, or all", option,
                                        name, fmt::join(known, ", ")));
    }
    values.push_back(*value);
  }
  return values;
}

struct SizeRange {
  Bytes from, to;
};

SizeRange size_range(const PerfOptions& options) {
  const SizeRange range{parse_size(options.smallest, "--min-bytes"),
                        parse_size(options.largest, "--max-bytes")};
  if (range.from > range.to)
    throw InvalidArgument(fmt::format("--min-bytes {} is larger than --max-bytes {}: swap them",
                                      options.smallest, options.largest));
  return range;
}

std::vector<Bytes> named_sizes(const PerfOptions& options) {
  std::vector<Bytes> sizes;
  for (const std::string& size : options.sizes) sizes.push_back(parse_size(size, "--sizes"));
  return sizes;
}

}  // namespace

// The largest size is the last one, whatever the factor.
std::vector<Bytes> swept_sizes(const PerfOptions& options) {
  if (!options.sizes.empty()) return named_sizes(options);
  const auto [from, to] = size_range(options);
  std::vector<Bytes> sizes;
  if (!options.step.empty()) {
    const Bytes step = parse_size(options.step, "--step");
    if (step == Bytes{0} || (to - from).value() / step.value() > 10000)
      throw InvalidArgument(fmt::format(
          "--step {}: gives more than 10000 sizes: choose a greater one", options.step));
    for (Bytes size = from; size < to; size = size + step) sizes.push_back(size);
    sizes.push_back(to);
    return sizes;
  }
  for (Bytes size = from; size < to && size > Bytes{0}; size = size * options.factor)
    sizes.push_back(size);
  if (from == Bytes{0} && to > from) sizes.push_back(from);
  sizes.push_back(to);
  return sizes;
}

std::vector<perf::Cell> cells_of(const PerfOptions& options, int ranks) {
  const Collective collective = *collective_named(options.collective());
  if (options.root >= ranks)
    throw InvalidArgument(
        fmt::format("--root {}: there are {} ranks, from 0", options.root, ranks));
  const std::vector<Bytes> sizes = swept_sizes(options);
  std::vector<perf::Cell> cells;
  for (const DataType type :
       parse_names<DataType>(options.types, "--types", all_data_types(), data_type_named))
    for (const ReduceOp op :
         parse_names<ReduceOp>(options.ops, "--ops", all_reduce_ops(), reduce_op_named))
      for (const Bytes size : sizes) {
        if (reduces(collective) && !supports(type, op)) break;
        cells.push_back(perf::cell_of(collective, type, op, size, ranks));
        cells.back().shape.root = options.root;
        cells.back().in_place = options.in_place;
        if (collective == Collective::barrier) break;
      }
  if (cells.empty())
    throw InvalidArgument("none of --ops is defined for any of --types: choose others");
  const auto moves_nothing = [&](const perf::Cell& cell) {
    return cell.collective != Collective::barrier && cell.contract(ranks).extent() == Elements{0};
  };
  if (largest_of(options) > Bytes{0} && std::ranges::all_of(cells, moves_nothing))
    throw InvalidArgument(
        fmt::format("{}: that is less than an element for each block of {} ranks, so "
                    "nothing would be measured: choose more",
                    options.sizes.empty() ? "--max-bytes " + options.largest : "--sizes", ranks));
  return cells;
}

Bytes largest_of(const PerfOptions& options) {
  return options.sizes.empty() ? parse_size(options.largest, "--max-bytes")
                               : std::ranges::max(named_sizes(options));
}

std::vector<Bytes> sizes_of(const PerfOptions& options) {
  if (!options.sizes.empty()) return named_sizes(options);
  std::vector<Bytes> sizes;
  const auto [from, to] = size_range(options);
  for (const char* size : {"8", "64", "1K", "8K", "64K", "512K", "1M", "4M", "16M", "64M", "256M"})
    if (const Bytes bytes = parse_size(size, "size"); from <= bytes && bytes <= to)
      sizes.push_back(bytes);
  if (sizes.empty() || sizes.back() < to) sizes.push_back(to);
  return sizes;
}

std::vector<std::string> undefined_pairs(const PerfOptions& options) {
  std::vector<std::string> pairs;
  if (!reduces(*collective_named(options.collective()))) return pairs;
  for (const DataType type :
       parse_names<DataType>(options.types, "--types", all_data_types(), data_type_named))
    for (const ReduceOp op :
         parse_names<ReduceOp>(options.ops, "--ops", all_reduce_ops(), reduce_op_named))
      if (!supports(type, op)) pairs.push_back(fmt::format("{} of {}", name_of(op), name_of(type)));
  return pairs;
}

}  // namespace capstan::cli
