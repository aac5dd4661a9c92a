// SPDX-License-Identifier: Apache-2.0

// Calls that are started, and go on while their caller does something else.

#include <tuple>
#include <utility>

#include "core/engine/run/engine.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {

void Engine::enqueue(Task task, const Request* request) {
  {
    const Progress::Lock lock{*progress_};
    if (failure_) failure_->raise();
    if (!task.complete_call && expects_shared_buffers())
      if (const auto agreement = plans_.visibility_agreement(*task.call))
        tasks_.push_back(agree_on_visibility(*agreement, task));
    if (!task.complete_call) task.plan = plan_at_end(*task.call);
    if (request && task.plan && !task.plan->measured)
      plans_.remember(*request, task.input, task.output, task.plan);
    tasks_.push_back(std::move(task));
    send_small_calls();
  }
  progress_->announce();
  progress_->there_is_work();
}

/// Small calls are sent at once. Long ones are left to a thread that has time. Measured ones, and
/// the agreements that come before them, are left to the thread that waits, so that the time is
/// that of the call alone.
void Engine::send_small_calls() {
  const CachedPlan* const first = tasks_.front().plan;
  const bool measures = first && (first->measured || first->plan.call.purpose == Purpose::decision);
  const bool small = first && in_packets(first->plan.protocol) && !measures;
  if (small && !progress_->has_thread()) poll();
}

bool Engine::start(const Request& request, const MakeCall& make) {
  {
    const Progress::Lock lock{*progress_};
    const RepeatedCalls::Entry* const known = plans_.lookup(request);
    if (!known) return false;
    if (failure_) failure_->raise();
    const auto [plan, input, output] = std::tuple{known->plan, known->input, known->output};
    auto operation = make(plan->plan, output);
    const CachedPlan* const next = plan_again(*plan);
    Task& task = tasks_.append();
    if (!next) task.call = plan->plan.call;
    task.plan = next;
    task.input = input;
    task.output = output;
    task.input_bytes = plan->plan.input_bytes;
    task.output_bytes = plan->plan.output_bytes;
    task.operation = std::move(operation);
    send_small_calls();
  }
  progress_->announce();
  progress_->there_is_work();
  return true;
}

}  // namespace capstan
