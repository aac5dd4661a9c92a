// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/unique_id.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Options of Communicator::shrink(), the same on all ranks.
struct ShrinkOptions {
  /// Ranks to be left out though they live. They do not call shrink().
  std::vector<int> exclude{};
  /// Continue though the ranks that cannot be reached may live, and be more: see shrink().
  bool minority_continues = false;
};

/// Where the members of a communicator that grows meet the new ranks: by an id, or by a name and a
/// secret. See docs/failures.md.
struct MeetingPlace {
  /// An id from create_unique_id(), which serves one attempt to grow.
  std::optional<UniqueId> id{};
  /// Without an id: the job's name, 1 to 200 bytes, for new ranks on the host of rank 0; or
  /// "NAME@HOST:PORT", where HOST is the host of a member, for those of any host.
  std::string name{};
  /// The job's secret, which goes with a name: 16 characters or more. Empty: Settings::secret.
  std::string secret{};
};

}  // namespace CAPSTAN_EXPORT capstan
