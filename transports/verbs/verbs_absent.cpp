// SPDX-License-Identifier: Apache-2.0

// Replaces the transport in builds without libibverbs.

#include "capstan/error.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan {

bool verbs_is_built_in() {
  return false;
}

std::vector<VerbsDevice> verbs_devices() {
  return {};
}

std::string verbs_obstacle(const VerbsOptions&) {
  return "no RDMA device: this build has no verbs; install libibverbs-dev and build again";
}

std::unique_ptr<Transport> make_verbs_transport(Rank, int, Bytes, const VerbsOptions&,
                                                const Borrowed&) {
  throw SystemError(verbs_obstacle());
}

}  // namespace capstan
