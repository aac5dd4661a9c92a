// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/measured_calls.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/tools/cli/tune/cell_clock.hpp"

namespace capstan::cli {

void CallsOnHost::run(const MeasuredCall& call, int times) {
  for (int i = 0; i < times; ++i)
    engine_.run(call.checked.call, call.checked.input, call.checked.output);
}

/// The first call tells whether calls run by kernels, and over which links.
CallsOnDevices::CallsOnDevices(const std::string& vendor, std::size_t bytes)
    : world_(Communicator::from_environment(settings_to_measure())),
      calls_(world_, vendor, std::max(detect_launch(process_environment()).local_rank, 0)),
      tuning_(calls_.collectives()),
      input_(calls_.allocate(bytes)),
      output_(calls_.allocate(bytes)) {
  const perf::Cell one{.collective = Collective::all_reduce, .shape = {.count = Elements{1}}};
  const Request first =
      perf::request_of(one, world_.rank(), world_.size(), input_.get(), output_.get());
  calls_.run(first);
  calls_.finish();
  const auto link = tuning_.link();
  if (!link)
    throw SystemError(fmt::format(
        "--device {}: calls do not run by kernels here ({}); leave --device out to measure memory "
        "of the host",
        vendor, calls_.explain(first)));
  link_ = *link;
}

void CallsOnDevices::run(const MeasuredCall& call, int times) {
  for (int i = 0; i < times; ++i) calls_.run(call.request);
  calls_.finish();
}

}  // namespace capstan::cli
