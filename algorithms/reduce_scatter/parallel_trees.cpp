// Reduce-scatter over parallel trees: block r is summed up a binomial tree whose root is rank r.
// The trees are rotations of one another, so that at each step a rank sends to one peer only: the
// sums of all blocks that go its way travel together. This is Bruck's all-gather run backwards
// (Bruck et al., 1997), and the idea of the aggregated trees in NCCL's PAT.
//
// ceil(log2 p) steps for any p, (p-1)·n elements sent and 2(p-1)·n read per rank (n being a block),
// p·n scratch and as much for partial sums. For short blocks.

#include <vector>

#include "algorithms/power_of_two.hpp"
#include "algorithms/reduce_scatter/reduce_scatter.hpp"

namespace capstan {

Schedule parallel_trees_reduce_scatter(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length};
  const Span partial = s.scratch(blocks.total());
  const auto block = [&](int i) { return blocks[group.wrap(i)]; };
  // Where the sum of block self + i stands, as far as it has got.
  std::vector<Span> sums;
  for (int i = 0; i < p; ++i) sums.push_back(s.input(block(self + i)));

  for (int distance = 1 << (ceil_log2(p) - 1); distance >= 1; distance /= 2) {
    const int number = std::min(distance, p - distance);
    const Span landing = s.scratch(blocks.total());
    for (int i = 0; i < number; ++i)
      s.put(group.right(distance), landing.part(block(self + distance + i)),
            sums[static_cast<std::size_t>(distance + i)]);
    s.signal(group.right(distance));
    s.wait(group.left(distance));
    for (int i = 0; i < number; ++i) {
      Span& sum = sums[static_cast<std::size_t>(i)];
      const Span sources[] = {landing.part(block(self + i)), sum};
      sum = partial.part(block(self + i));
      if (distance > 1)
        s.reduce(sum, sources);
      else
        s.complete(s.output(), sources);
    }
  }
  return std::move(s).build();
}

Cost parallel_trees_reduce_scatter_cost(int ranks, Elements count) {
  const double n = static_cast<double>(count.value());
  return {.steps = static_cast<double>(ceil_log2(ranks)),
          .sent = (ranks - 1) * n,
          .reduced = 2 * (ranks - 1) * n};
}

}  // namespace capstan
