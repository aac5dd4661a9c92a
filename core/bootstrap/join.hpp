// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "capstan/deadline.hpp"
#include "capstan/settings.hpp"
#include "capstan/unique_id.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/bootstrap/store/store.hpp"

namespace capstan {

/// Connects this rank to the store of its job's next communicator, which rank 0 hosts unless the
/// launcher does:
///
///   capstan run               the launcher's store (CAPSTAN_STORE): on one host an abstract Unix
///                             socket with a random name
///   CAPSTAN_STORE, torchrun   rank 0 listens there until all ranks have joined; at the interface
///                             that `settings` chooses, where that is a name of several addresses
///   PMIx, several hosts       rank 0 listens at its interface; address and a new secret go
///                             through the launcher (on one host, too: Bootstrap::pmix)
///   PMI, several hosts        the same (on one host, too: Bootstrap::pmi)
///   mpirun, srun, one host    rank 0 listens on the abstract Unix socket
///                             @capstan-<user>-<hash of the job>-<sequence number>, with random
///                             text behind it where another user has taken that. The kernel
///                             vouches that both ends are of one user; nothing is left in the file
///                             system, and no port is opened.
///   a world of one            a store inside this process
///
/// The n-th call of one rank meets the n-th call of the others, so every rank creates the job's
/// communicators in the same order. Several may exist at once.
///
/// A rank that hosts the store must keep the result until all ranks are done with it: end with
/// barrier(), from which rank 0 returns last.
///
/// Throws BootstrapError if this rank cannot join in time (see StoreClient), or if the ranks are
/// on several hosts and no address is known where they could meet; SystemError if rank 0 cannot
/// listen; InvalidArgument for a Launch that contradicts itself. May be called from any thread.
std::unique_ptr<JobStore> join(const Launch& launch, Deadline deadline,
                               const Settings& settings = {});

/// Connects rank `rank` of `size` to the store behind a unique id. Throws as above, and
/// InvalidArgument for an id that is damaged. `look`: see StoreClient::Settings.
std::unique_ptr<JobStore> join(const UniqueId& id, int rank, int size, Deadline deadline,
                               std::function<void()> look = {});

/// The view that rank `rank` of `size` has of a store of the program: see ProgramStore.
std::unique_ptr<JobStore> join(std::shared_ptr<Store> store, int rank, int size,
                               const std::string& prefix, const Settings& settings);

}  // namespace capstan
