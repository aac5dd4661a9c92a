// How calls run whose best way the model of links does not know for sure: the first ones in several
// ways by turns, the others in that which was the fastest, until the best are tried again.

#include <limits>

#include "core/engine/engine.hpp"
#include "core/engine/progress.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

/// Others are left to the model: a program that never repeats a call does not fill the memory.
constexpr std::size_t most_kinds_tried = 256;

/// All ranks learn the greatest of each time.
Call verdict_about(const Call& call, std::size_t times) {
  return {.collective = Collective::all_reduce,
          .type = DataType::f64,
          .op = ReduceOp::max,
          .shape = {.count = Elements{times}},
          .purpose = Purpose::decision,
          .about = std::make_shared<const Call>(call)};
}

}  // namespace

/// Whether ranks try at all.
bool Engine::tries() const {
  return placement_.autotunes && ranks_ > 1 && placement_.hosts.single();
}

/// All of a kind are tried, or none.
bool Engine::tries(const Call& call) const {
  return tries_ && call.purpose == Purpose::caller && may_be_tried(call, placement_.hosts, links_);
}

/// How long calls are that are tried in shorter blocks, too: none where the program has set the
/// length of blocks, or where they are as short as is sensible.
Bytes Engine::worth_shorter_blocks() const {
  constexpr Bytes never{std::numeric_limits<std::uint64_t>::max()};
  const Bytes shortened = block_bytes() / (shorter_blocks * static_cast<std::uint64_t>(ranks_));
  return settings_.chunk == Bytes{0} && shortened >= shortest_chunk ? block_bytes() : never;
}

/// Of calls like this one; null where nothing is to be tried. The same on all ranks.
Trials* Engine::trials_of(const Call& call) {
  if (!tries(call)) return nullptr;
  const Call key = typical(call);
  const auto found = trials_.find(key);
  if (found != trials_.end()) return &found->second;
  if (trials_.size() >= most_kinds_tried) return nullptr;
  Trials trials{rivals(key, placement_.hosts, links_, worth_shorter_blocks()), call.collective,
                call.extent(ranks_), links_.shares_cores};
  recurring_.look_again();  // a program that goes on to other calls may have other buffers
  return &trials_.emplace(key, std::move(trials)).first->second;
}

bool Engine::is_settled(const Call& call, const void* input, const void* output) {
  const Progress::Lock lock{*progress_};
  if (!tries(call)) return true;
  const auto found = trials_.find(typical(with_seen(call, input, output)));
  return found != trials_.end() ? found->second.settled() : trials_.size() >= most_kinds_tried;
}

/// The plan of a call that is put at the end of the queue.
const Plan* Engine::plan_at_end(const Call& call) {
  return nothing_open() ? next_plan(call, tasks_.end()) : nullptr;
}

/// The plan of a call that comes next, in the order in which all ranks call. Null: it is known when
/// its turn comes, after what ranks have to tell each other first, which is put into the queue.
const Plan* Engine::next_plan(const Call& call, std::deque<Task>::const_iterator place) {
  if (last_plan_ && last_plan_->call == call) return once_more(*last_plan_, place);
  if (const auto known = plans_.find(call); known != plans_.end())
    return once_more(*(last_plan_ = known->second.get()), place);
  Trials* const trials = trials_of(call);
  if (!trials || (trials->decided() && trials->goes_on())) return &plan(call);
  if (trials->decided()) try_again(*trials);
  if (!trials->all_begun())
    return &trials->next(call, [&](const Choice& choice) { return make_plan(call, choice); });
  if (!trials->asked()) {
    tasks_.insert(place, verdict(*trials, call));
    trials->set_asked();
  }
  return nullptr;
}

/// The plan of a call like that of `plan`, whose kind is to be tried again, or is being tried.
const Plan* Engine::reviewed(const Plan& plan, std::deque<Task>::const_iterator place) {
  if (plan.kind->decided()) try_again(*plan.kind);
  return next_plan(plan.call, place);
}

/// Plans that are forgotten may still be in the queue.
void Engine::try_again(Trials& kind) {
  if (tasks_.empty()) retired_.clear();
  retired_.reserve(retired_.size() + plans_.size());
  for (auto plan = plans_.begin(); plan != plans_.end();) {
    const auto next = std::next(plan);
    if (plan->second->kind == &kind) retired_.push_back(std::move(plans_.extract(plan).mapped()));
    plan = next;
  }
  last_plan_ = nullptr;
  ++plans_age_;
  kind.begin_again();
  if (kind.bytes() >= worth_huge_pages) recurring_.look_again();
}

/// The task by which ranks tell each other how long they took.
Task Engine::verdict(Trials& trials, const Call& call) {
  struct Talk {
    std::vector<double> own, greatest;
  };
  const std::size_t times = trials.number_of_times();
  const auto talk =
      std::make_shared<Talk>(Talk{std::vector<double>(times), std::vector<double>(times)});
  const Call question = verdict_about(call, times);
  return {.call = question,
          .plan = &plan(question),
          .input = talk->own.data(),
          .output = talk->greatest.data(),
          .input_bytes = Bytes{times * sizeof(double)},
          .output_bytes = Bytes{times * sizeof(double)},
          .pack = [&trials, talk] { trials.times(talk->own); },
          .unpack = [&trials, talk] { trials.decide(talk->greatest); },
          .keep = {talk}};
}

}  // namespace capstan
