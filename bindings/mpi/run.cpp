// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/run.hpp"

#include "bindings/mpi/progress.hpp"

namespace capstan::mpi {

Work start(Communicator& group, const Transfer& transfer) {
  return transfer.is_exchange() ? group.start_exchange(transfer.messages())
                                : group.start(transfer.request());
}

void run(Communicator& group, const Transfer& transfer) {
  if (transfer.is_exchange()) {
    if (!transfer.messages().empty()) wait_beside_mpi(group.start_exchange(transfer.messages()));
  } else if (const auto work = group.run_briefly(transfer.request())) {
    wait_beside_mpi(*work);
  }
  transfer.finish();
}

void wait_for_end(const Work& work) noexcept {
  try {
    wait_beside_mpi(work);
  } catch (...) {  // whoever settles the call tells the program
  }
}

}  // namespace capstan::mpi
