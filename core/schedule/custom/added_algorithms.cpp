// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/custom/added_algorithms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/base/printable.hpp"
#include "core/platform/net/text_of_file.hpp"
#include "core/schedule/custom/proven_plans.hpp"
#include "core/schedule/custom/scaled_schedules.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/names.hpp"
#include "core/schedule/interchange/prove_set.hpp"
#include "core/schedule/proof/prove.hpp"

namespace capstan {
namespace {

/// Asks the program's function once for each schedule: lowering asks for those of all ranks, often.
class SchedulesOfFunction : public ScheduleSource {
 public:
  explicit SchedulesOfFunction(const CustomAlgorithm& function) : function_(function) {}

  Schedule schedule(const Group& group, const Shape& shape) const override {
    const std::scoped_lock lock{mutex_};
    for (const Known& known : known_)
      if (known.position == group.position() && known.shape == shape) return known.schedule;
    if (known_.size() >= most_known) known_.clear();
    return known_.emplace_back(Known{group.position(), shape, build(group, shape)}).schedule;
  }

 private:
  Schedule build(const Group& group, const Shape& shape) const {
    try {
      Schedule schedule = function_.build(group, shape);
      check(schedule, group, shape);
      return schedule;
    } catch (const AlgorithmRefused&) {
      throw;
    } catch (const std::exception& error) {
      throw AlgorithmRefused(place_of("failed for", group, shape) + ": " + error.what(),
                             group.self(), -1);
    }
  }

  /// Selection, lowering and proofs index by rank and by buffer: these have to fit before.
  void check(const Schedule& schedule, const Group& group, const Shape& shape) const {
    const auto findings =
        proof::form_of(function_.collective, shape, schedule, group.self(), group.size());
    if (findings.empty()) return;
    std::string text = place_of("gave a schedule that cannot run for", group, shape);
    for (const proof::Finding& finding : findings)
      text += "\n  " + flaw_of(finding, "as it is").text;
    throw AlgorithmRefused(text, findings.front().rank, findings.front().step);
  }

  std::string place_of(std::string_view what, const Group& group, const Shape& shape) const {
    return fmt::format("the function of {} by '{}' {} rank {} of {}, count {}, root {}",
                       name_of(function_.collective), function_.name, what, group.position(),
                       group.size(), shape.count.value(), shape.root);
  }

  static constexpr std::size_t most_known = 256;
  struct Known {
    int position;
    Shape shape;
    Schedule schedule;
  };

  const CustomAlgorithm& function_;
  mutable std::recursive_mutex mutex_;
  mutable std::vector<Known> known_;
};

/// All roots, where there are few. A schedule for a root in the middle is often another one than
/// for a root at the end.
std::vector<int> proven_roots(int ranks) {
  constexpr int few = 16;
  std::vector<int> roots{0, ranks - 1};
  for (int root = 1; ranks <= few && root + 1 < ranks; ++root) roots.push_back(root);
  return roots;
}

/// Sizes that are proven before an algorithm runs: few, as a program waits for it.
std::vector<Shape> proven_shapes(Collective collective, int ranks) {
  std::vector<Shape> shapes;
  const auto p = static_cast<std::uint64_t>(ranks);
  const std::vector<int> roots = has_root(collective) ? proven_roots(ranks) : std::vector{0};
  for (const std::uint64_t count : {std::uint64_t{1}, p, 2 * p + 1})
    for (const int root : roots) shapes.push_back({.count = Elements{count}, .root = root});
  if (collective == Collective::barrier) shapes = {Shape{}};
  if (has_counts(collective)) {
    const std::size_t lengths = collective == Collective::all_to_all_v ? p * p : p;
    for (Shape& shape : shapes) {
      shape.count = Elements{0};
      for (std::size_t i = 0; i < lengths; ++i)
        shape.counts.emplace_back((i * 7 + i / p * 3 + 2) % 5 *
                                  static_cast<std::uint64_t>(&shape - shapes.data()));
    }
  }
  return shapes;
}

/// The sizes at which an algorithm is proven before it runs.
struct Sizes {
  std::vector<Shape> shapes{};
  std::vector<ProvenStreams> streams{};
};

/// The work of the early proof, which finds most mistakes when an algorithm is added or first
/// named. ProvenPlans proves the rest before it runs.
constexpr std::uint64_t early_work = 1'000'000'000;
/// Among more ranks no algorithm can be proven so early: its schedules alone fill the memory.
constexpr int most_proven_early = 1024;
/// A file whose schedules take more than that is refused.
constexpr std::uint64_t most_work_of_files = 3 * early_work;

AlgorithmProof prove_all(const Algorithm& algorithm, const Hosts& hosts, const Sizes& sizes,
                         proof::Budget& budget) {
  AlgorithmProof all;
  for (const Shape& shape : sizes.shapes) {
    all += prove_algorithm(algorithm, hosts, shape, ProvenBuffers::both, &budget);
    if (!all.ok()) return all;  // the first size says enough
  }
  for (const ProvenStreams& streams : sizes.streams) {
    all += prove_streams(algorithm, hosts, streams, &budget);
    if (!all.ok()) return all;
  }
  return all;
}

/// Finds out what holds at all of these sizes. Plans derive it anew, at their own size. Throws
/// proof::TooMuchWork.
void prove_promises(Algorithm& algorithm, const Hosts& hosts, const Sizes& sizes,
                    proof::Budget& budget) {
  DerivedProof derived{.guarantees = everything()};
  for (const Shape& shape : sizes.shapes) {
    derived += derive_from_schedules(algorithm, hosts, shape, &budget);
    if (!derived.proof.ok()) refuse_algorithm(algorithm, hosts, derived.proof);
  }
  Guarantees& claimed = algorithm.guarantees = derived.guarantees;
  const auto prove = [&] { return prove_all(algorithm, hosts, sizes, budget); };
  AlgorithmProof proof = prove();
  if (!proof.ok() && std::exchange(claimed.bounded_skew, false)) proof = prove();
  if (!proof.ok() && std::exchange(claimed.synchronizes, false)) proof = prove();
  if (!proof.ok()) refuse_algorithm(algorithm, hosts, proof);
}

/// Adds the size of the file itself.
void add_own_size(Sizes& sizes, const ScheduleSet& set) {
  if (set.shape.count == Elements{0}) return;
  sizes.shapes.push_back(set.shape);
  sizes.streams.push_back(ProvenStreams::of(set.collective, set.shape));
}

[[noreturn]] void refuse_long(const ScheduleSet& set) {
  throw InvalidArgument(
      fmt::format("the schedule '{}' of {} takes too much work to be proven: it has too many steps "
                  "for its {} ranks, or divides its elements too finely",
                  set.algorithm, name_of(set.collective), set.schedules.size()));
}

/// At least one call of the file's own size is proven.
void look_for_mistakes(const ScheduleSet& set) {
  const SchedulesOfSet source{set};
  const Algorithm algorithm = algorithm_of(set, source);
  const auto check = [&](const AlgorithmProof& proof) {
    if (!proof.ok()) refuse_algorithm(algorithm, set.hosts, proof);
  };
  proof::Budget early{early_work}, most{most_work_of_files};
  try {
    return check(prove_set(set, &early));
  } catch (const proof::TooMuchWork&) {
  }
  try {
    check(derive_from_schedules(algorithm, set.hosts, set.shape, &most).proof);
  } catch (const proof::TooMuchWork&) {
    refuse_long(set);
  }
}

std::unique_ptr<const ScheduleSource> source_of(const ScheduleSet& set) {
  proof::Budget budget{most_work_of_files};
  try {
    return std::make_unique<ScaledSchedules>(set, budget);
  } catch (const proof::TooMuchWork&) {
    refuse_long(set);
  }
}

/// A file, or all files *.json of a folder, in the order of their names.
std::vector<std::filesystem::path> files_of(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::is_directory(path, failure)) return {path};
  std::vector<std::filesystem::path> files;
  std::filesystem::directory_iterator entries{path, failure};
  if (failure)
    throw InvalidArgument(
        fmt::format("the folder {} of schedules cannot be read: {}", path, failure.message()));
  for (const auto& entry : entries)
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// One text for all spellings of a path: from the root, without links and detours.
std::string place_of(const std::filesystem::path& file) {
  std::error_code failure;
  const auto from_root = std::filesystem::absolute(file, failure);
  const auto place = std::filesystem::weakly_canonical(failure ? file : from_root, failure);
  return (failure ? from_root.lexically_normal() : place).string();
}

std::vector<int> key_of(const Hosts& hosts) {
  std::vector<int> host_of;
  for (const Rank rank : all_ranks(hosts.ranks())) host_of.push_back(hosts.host_of(rank));
  return host_of;
}

}  // namespace

AddedAlgorithms& AddedAlgorithms::of_process() {
  static auto* const algorithms = new AddedAlgorithms;  // communicators may outlive statics
  return *algorithms;
}

AddedAlgorithms::Entry* AddedAlgorithms::known(Collective collective, std::string_view name) {
  const auto found = entries_.find({collective, std::string{name}});
  return found == entries_.end() ? nullptr : &found->second;
}

/// A new entry, or the one that there is.
AddedAlgorithms::Entry& AddedAlgorithms::entry_of(Collective collective, const std::string& name) {
  if (const std::string why = why_no_name(name); !why.empty()) throw InvalidArgument(why);
  if (std::ranges::find(algorithms(collective), name, &Algorithm::name) !=
      algorithms(collective).end())
    throw InvalidArgument(fmt::format(
        "{} has an algorithm '{}' of its own: give this one another name, in a file its "
        "member 'algorithm' (capstan export --name)",
        name_of(collective), name));
  Entry& entry = entries_[{collective, name}];
  entry.name = name;
  entry.collective = collective;
  return entry;
}

void AddedAlgorithms::add(CustomAlgorithm algorithm) {
  const std::scoped_lock lock{mutex_};
  if (!algorithm.build)
    throw InvalidArgument(fmt::format("the algorithm '{}' has no function", algorithm.name));
  const Entry* const old = known(algorithm.collective, algorithm.name);
  const bool has_never_run = old && old->function.build && old->instances.empty();
  if (old && !has_never_run)
    throw InvalidArgument(fmt::format("{} has an algorithm '{}' already: use another name",
                                      name_of(algorithm.collective), algorithm.name));
  Entry& entry = entry_of(algorithm.collective, algorithm.name);
  entry.summary = algorithm.summary;
  entry.function = std::move(algorithm);
}

void AddedAlgorithms::add(ScheduleSet set, const std::string& source) {
  look_for_mistakes(set);
  const std::scoped_lock lock{mutex_};
  Entry& entry = entry_of(set.collective, set.algorithm);
  const int ranks = set.schedules.size();
  if (entry.function.build || entry.schedules.contains(ranks))
    throw InvalidArgument(
        fmt::format("{}: {} has an algorithm '{}' for {} ranks already: change the "
                    "member 'algorithm'",
                    source, name_of(set.collective), set.algorithm, ranks));
  if (entry.summary.empty()) entry.summary = printable(set.summary);
  entry.schedules.emplace(ranks, std::move(set));
}

void AddedAlgorithms::add_paths(const std::string& paths) {
  for (std::size_t at = 0; at < paths.size();) {
    const std::size_t end = std::min(paths.find(',', at), paths.size());
    const std::string path = paths.substr(at, end - at);
    at = end + 1;
    if (path.empty())
      throw InvalidArgument(fmt::format(
          "'{:.200}' names an empty path of a schedule file: separate paths by one comma", paths));
    for (const auto& file : files_of(path)) {
      const std::scoped_lock lock{mutex_};  // who adds the same file waits until it is added
      const std::string place = place_of(file);
      if (paths_.contains(place)) continue;
      add(schedule_set_from_json(text_of_file(file.string()), file.string()), file.string());
      paths_.insert(place);
    }
  }
}

AddedAlgorithms::Instance AddedAlgorithms::prove(const Entry& entry, const Hosts& hosts) {
  Instance instance{.source = {},
                    .algorithm = {.name = entry.name,
                                  .collective = entry.collective,
                                  .summary = entry.summary,
                                  .build = nullptr,
                                  .max_ranks = std::numeric_limits<int>::max()}};
  const int ranks = hosts.ranks();
  Sizes sizes;
  if (ranks <= most_proven_early)
    sizes = {.shapes = proven_shapes(entry.collective, ranks),
             .streams = {ProvenStreams::of(entry.collective, ranks)}};
  if (entry.function.build) {
    instance.source = std::make_unique<SchedulesOfFunction>(entry.function);
  } else {
    const ScheduleSet& set = entry.schedules.at(ranks);
    instance.source = source_of(set);
    instance.algorithm.traffic = set.traffic;
    const bool one_root = has_root(entry.collective) && entry.collective != Collective::broadcast &&
                          entry.collective != Collective::reduce;
    if (has_counts(entry.collective)) {
      sizes = {.shapes = {set.shape}, .streams = {ProvenStreams::of(entry.collective, set.shape)}};
    } else {
      if (one_root) {
        for (Shape& shape : sizes.shapes) shape.root = set.shape.root;
        sizes.streams = {ProvenStreams::of(entry.collective, ranks, set.shape.root)};
      }
      add_own_size(sizes, set);
    }
  }
  instance.algorithm.source = instance.source.get();
  proof::Budget budget{early_work};
  try {
    if (ranks > 1 && ranks <= most_proven_early)
      prove_promises(instance.algorithm, hosts, sizes, budget);  // a rank alone copies
  } catch (const proof::TooMuchWork&) {                          // its plans are proven
  }
  return instance;
}

const Algorithm* AddedAlgorithms::check_name(Collective collective, std::string_view name) {
  const std::scoped_lock lock{mutex_};
  if (known(collective, name)) return nullptr;
  try {
    return &algorithm_named(collective, name);
  } catch (const InvalidArgument& error) {
    const std::vector<std::string> added = names(collective);
    if (added.empty()) throw;
    throw InvalidArgument(
        fmt::format("{}; the program has added {}", error.what(), fmt::join(added, ", ")));
  }
}

std::vector<std::string> AddedAlgorithms::names(Collective collective) {
  const std::scoped_lock lock{mutex_};
  std::vector<std::string> names;
  for (const auto& [key, entry] : entries_)
    if (key.first == collective) names.push_back(key.second);
  return names;
}

const Algorithm* AddedAlgorithms::find(Collective collective, std::string_view name,
                                       const Hosts& hosts) {
  if (const Algorithm* const built_in = check_name(collective, name)) return built_in;
  const std::scoped_lock lock{mutex_};
  Entry& entry = *known(collective, name);
  if (!entry.function.build && !entry.schedules.contains(hosts.ranks())) return nullptr;
  auto found = entry.instances.find(key_of(hosts));
  if (found == entry.instances.end())
    found = entry.instances.emplace(key_of(hosts), prove(entry, hosts)).first;
  return &found->second.algorithm;
}

void add_algorithm(CustomAlgorithm algorithm, std::span<const int> ranks) {
  AddedAlgorithms& added = AddedAlgorithms::of_process();
  const Collective collective = algorithm.collective;
  const std::string name = algorithm.name;
  for (const int each : ranks)
    if (each < 1 || each > most_proven_early)
      throw InvalidArgument(
          fmt::format("the algorithm '{}' cannot be proven for {} ranks: pass numbers from 1 to {} "
                      "in `ranks`",
                      name, each, most_proven_early));
  added.add(std::move(algorithm));
  for (const int each : ranks) added.find(collective, name, Hosts{each});
}

void add_schedules(const std::string& paths) {
  AddedAlgorithms::of_process().add_paths(paths);
}

std::pair<Collective, std::string> add_schedule_text(std::string_view json,
                                                     const std::string& source) {
  ScheduleSet set = schedule_set_from_json(json, source);
  std::pair result{set.collective, set.algorithm};
  AddedAlgorithms::of_process().add(std::move(set), source);
  return result;
}

}  // namespace capstan
