// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/cells.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "capstan/error.hpp"
#include "core/tools/cli/numbers.hpp"
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

std::vector<Collective> collectives_of(const PerfOptions& options) {
  std::vector<Collective> found;
  for (const std::string& name : options.collectives) {
    if (name == "all") return {all_collectives().begin(), all_collectives().end()};
    found.push_back(*collective_named(name));
  }
  return found;
}

namespace {

std::vector<int> roots_of(const PerfOptions& options, int ranks) {
  std::vector<int> roots;
  for (int root = 0; options.root == "all" && root < ranks; ++root) roots.push_back(root);
  if (!roots.empty()) return roots;
  const int root = number_of<int>(options.root).value_or(-1);
  if (root < 0 || root >= ranks)
    throw InvalidArgument(
        fmt::format("--root {}: there are {} ranks, from 0; or choose all", options.root, ranks));
  return {root};
}

/// All of these, or only the first one where they make no difference.
template <class Value>
std::vector<Value> used(const std::vector<Value>& all, bool matter) {
  return matter ? all : std::vector<Value>{all.front()};
}

/// The cells of one collective, type, operation and root.
std::vector<perf::Cell> swept_cells(const PerfOptions& options, int ranks, const perf::Cell& kind) {
  const Collective collective = kind.collective;
  if (reduces(collective) && !supports(kind.type, kind.op)) return {};
  std::vector<perf::Cell> cells;
  for (const Bytes size : swept_sizes(options)) {
    cells.push_back(perf::cell_of(collective, kind.type, kind.op, size, ranks));
    cells.back().shape.root = kind.shape.root;
    cells.back().in_place = kind.in_place && perf::may_be_in_place(collective);
    if (collective == Collective::barrier) break;
  }
  return cells;
}

}  // namespace

std::vector<perf::Cell> cells_of(const PerfOptions& options, int ranks) {
  const auto types =
      parse_names<DataType>(options.types, "--types", all_data_types(), data_type_named);
  const auto ops = parse_names<ReduceOp>(options.ops, "--ops", all_reduce_ops(), reduce_op_named);
  const auto roots = roots_of(options, ranks);
  std::vector<perf::Cell> cells;
  for (const Collective collective : collectives_of(options))
    for (const int root : used(roots, has_root(collective)))
      for (const DataType type : used(types, collective != Collective::barrier))
        for (const ReduceOp op : used(ops, reduces(collective)))
          std::ranges::move(
              swept_cells(options, ranks, {collective, type, op, {.root = root}, options.in_place}),
              std::back_inserter(cells));
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
  if (std::ranges::none_of(collectives_of(options), reduces)) return pairs;
  for (const DataType type :
       parse_names<DataType>(options.types, "--types", all_data_types(), data_type_named))
    for (const ReduceOp op :
         parse_names<ReduceOp>(options.ops, "--ops", all_reduce_ops(), reduce_op_named))
      if (!supports(type, op)) pairs.push_back(fmt::format("{} of {}", name_of(op), name_of(type)));
  return pairs;
}

}  // namespace capstan::cli
