// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/ranks.hpp"

namespace capstan::launcher {

std::vector<short> poll_ranks(std::span<Ranks* const> ranks, std::vector<pollfd> more,
                              Deadline deadline) {
  const std::size_t first = more.size();
  std::vector<std::size_t> ends{first};
  for (const Ranks* each : ranks) {
    each->watch(more);
    ends.push_back(more.size());
    deadline = deadline.clamp(each->due());
  }
  if (::poll(more.data(), more.size(), deadline.poll_timeout()) <= 0)
    for (pollfd& entry : more) entry.revents = 0;
  std::vector<short> happened;
  for (std::size_t i = 0; i < first; ++i) happened.push_back(more[i].revents);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    ranks[i]->handle(std::span{more}.subspan(ends[i], ends[i + 1] - ends[i]));
  return happened;
}

}  // namespace capstan::launcher
