// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/platform/device/libfabric.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/ofi/provider_choice.hpp"

namespace capstan::ofi {

/// The entry of fi_getinfo(3) in the terms of the choice.
Candidate candidate_of(const fi_info& info);

/// The providers of this host, and the choice among them.
struct Survey {
  Libfabric::Info list;  // as libfabric lists it
  std::vector<const fi_info*> entries;
  std::vector<Candidate> candidates;  // one for each of the entries
  Choice choice;
};
Survey survey(const OfiOptions& options);

}  // namespace capstan::ofi
