// SPDX-License-Identifier: Apache-2.0

// Instead of the transport, where the build found no libfabric.

#include "capstan/error.hpp"
#include "transports/ofi/ofi_transport.hpp"

namespace capstan {
namespace {

constexpr const char* reason =
    "this build of Capstan has no libfabric; install libfabric-dev, configure and build again";

}  // namespace

std::unique_ptr<Transport> make_ofi_transport(Rank, int, Bytes, const OfiOptions&,
                                              const Borrowed&) {
  throw InvalidArgument(reason);
}

bool ofi_is_built_in() {
  return false;
}

OfiReport ofi_report(const OfiOptions&) {
  OfiReport report;
  report.reason = reason;
  return report;
}

}  // namespace capstan
