// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/task.hpp"

#include <algorithm>

#include "core/engine/run/plan_cache.hpp"

namespace capstan {
namespace {

AddressRange range_at(const void* address, Bytes size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin, begin + size.value()};
}

std::byte* copy_of(AddressRange range, Task& task) {
  const auto* const begin = static_cast<const std::byte*>(range.data());
  auto memory = std::make_shared<std::vector<std::byte>>(begin, begin + range.size().value());
  std::byte* data = memory->data();
  task.keep.push_back(std::move(memory));
  return data;
}

}  // namespace

const Call& Task::known_call() const {
  return call ? *call : plan->plan.call;
}

void Task::clear() {
  call.reset();
  plan = nullptr;
  operation.reset();
  outcome = nullptr;
  owns_input = owns_output = reads_input_at_once = false;
  transfers.clear();
  if (complete_call) complete_call = nullptr;
  keep.clear();
}

void replace_buffers(Task& task, bool input, bool output,
                     const std::function<std::byte*(AddressRange)>& memory_for) {
  const AddressRange in = range_at(task.input, task.input_bytes);
  const AddressRange out = range_at(task.output, task.output_bytes);
  if (input && output && in.overlaps(out)) {
    const AddressRange both{std::min(in.begin, out.begin), std::max(in.end, out.end)};
    std::byte* const memory = memory_for(both);
    task.input = memory + (in.begin - both.begin);
    task.output = memory + (out.begin - both.begin);
  } else {
    if (input) task.input = memory_for(in);
    if (output) task.output = memory_for(out);
  }
  task.owns_input |= input;
  task.owns_output |= output;
}

void detach(Task& task, bool started) {
  if (!started) task.transfers.run_inputs();
  replace_buffers(task, !task.owns_input, !task.owns_output,
                  [&](AddressRange range) { return copy_of(range, task); });
  task.transfers.clear();
}

}  // namespace capstan
