#include "core/runtime/task.hpp"

#include <algorithm>
#include <utility>

namespace capstan {
namespace {

/// The smallest piece of memory that holds both buffers if they overlap, else each of them alone.
struct Extent {
  const std::byte* begin = nullptr;
  std::size_t size = 0;

  const std::byte* end() const { return begin + size; }
  bool overlaps(const Extent& other) const { return begin < other.end() && other.begin < end(); }
};

Extent joined(const Extent& a, const Extent& b) {
  const std::byte* begin = std::min(a.begin, b.begin);
  return {begin, static_cast<std::size_t>(std::max(a.end(), b.end()) - begin)};
}

std::byte* copy_of(const Extent& extent, Task& task) {
  auto memory = std::make_shared<std::vector<std::byte>>(extent.begin, extent.end());
  std::byte* data = memory->data();
  task.keep.push_back(std::move(memory));
  return data;
}

}  // namespace

void detach(Task& task, bool started) {
  if (!started && task.pack) task.pack();
  task.pack = nullptr;
  const bool owns_output = static_cast<bool>(std::exchange(task.unpack, nullptr));
  if (owns_output) return;
  const Extent input{static_cast<const std::byte*>(task.input), task.input_bytes.value()};
  const Extent output{static_cast<const std::byte*>(task.output), task.output_bytes.value()};
  if (input.overlaps(output)) {
    const Extent both = joined(input, output);
    std::byte* copy = copy_of(both, task);
    task.input = copy + (input.begin - both.begin);
    task.output = copy + (output.begin - both.begin);
    return;
  }
  task.input = copy_of(input, task);
  task.output = copy_of(output, task);
}

}  // namespace capstan
