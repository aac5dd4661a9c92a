// SPDX-License-Identifier: Apache-2.0
#include "capstan/async/persistent.hpp"

#include <fmt/format.h>

#include <utility>

#include "capstan/error.hpp"
#include "core/communicator/checked_call.hpp"

namespace capstan {

PersistentCall::PersistentCall(Communicator& communicator, Request request)
    : communicator_(&communicator), request_(std::move(request)) {
  static_cast<void>(check(request_, communicator.rank(), communicator.size()));
}

const Work& PersistentCall::start() {
  if (work_.valid() && !work_.has_ended())
    throw InvalidArgument(
        fmt::format("rank {}: {} is started again before it has ended: wait for it first",
                    communicator_->rank(), work_.describe()));
  return work_ = communicator_->start(request_);
}

void PersistentCall::wait() const {
  if (work_.valid()) work_.wait();
}

bool PersistentCall::is_completed() const {
  return !work_.valid() || work_.is_completed();
}

}  // namespace capstan
