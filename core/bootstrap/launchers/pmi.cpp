// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/pmi.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/job_identity.hpp"
#include "core/bootstrap/launchers/mpi_library.hpp"
#include "core/bootstrap/launchers/pmi_client.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan::pmi {
namespace {

using namespace std::chrono_literals;

/// Whether the descriptor is still the launcher's socket, and not a later file with the same
/// number.
bool is_launchers(int descriptor) {
  int family = 0;
  ucred creator{};
  socklen_t length = sizeof family;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0) return false;
  length = sizeof creator;
  if (family != AF_UNIX ||
      ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &creator, &length) != 0)
    return false;
  // The launcher's process number is not visible from inside a container.
  return creator.pid == 0 || descends_from(creator.pid);
}

/// A duplicate of the launcher's socket, because MPI_Finalize closes the original.
FileDescriptor own_socket(int descriptor) {
  if (!is_launchers(descriptor)) {
    throw BootstrapError(fmt::format(
        "PMI_FD is {}, which is no socket of the launcher's here: something closed it before it "
        "started this program; let it pass its descriptors on, or set CAPSTAN_STORE and "
        "CAPSTAN_SECRET for all ranks",
        descriptor));
  }
  FileDescriptor own{::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)};
  if (!own.valid()) throw SystemError(fmt::format("fcntl(): {}", std::strerror(errno)));
  return own;
}

Client connect(const TcpEndpoint& port, int id, Deadline deadline) {
  int error = 0;
  for (const SocketAddress& address : resolve(port)) {
    auto connected = connect_to(address, deadline);
    if (connected.socket.valid()) return {std::move(connected.socket), id, deadline};
    error = connected.error;
  }
  throw BootstrapError(
      fmt::format("the launcher's PMI at {} (PMI_PORT): {}: start without -pmi-port",
                  to_string(port), std::strerror(error)));
}

Client begin(const Access& access, Deadline deadline) {
  if (const auto why = obstacle(access); !why.empty()) throw BootstrapError(why);
  if (access.port) return connect(*access.port, access.id, deadline);
  const bool begun = mpi_library() == MpiLibrary::initialised;
  return {own_socket(access.descriptor),
          begun ? Client::Start::another_has_said_init : Client::Start::new_conversation, deadline};
}

/// This process's conversation with its launcher. A process has only one.
class Session {
 public:
  static Session& instance() {
    static auto& session = *new Session;
    return session;
  }

  /// Calls `action(client)` while no other thread uses the client.
  template <class Action>
  auto with_client(const Access& access, Deadline deadline, Action action) {
    const std::lock_guard lock{mutex_};
    if (!failure_.empty()) throw BootstrapError(failure_);
    if (!client_) start(access, deadline);
    return action(*client_);
  }

 private:
  void start(const Access& access, Deadline deadline) {
    try {
      client_.emplace(begin(access, deadline));
    } catch (const Error& error) {
      failure_ = error.what();
      throw;
    }
    owner_ = ::getpid();
    // Hydra ends the other ranks of a host when one ends without this call. A destructor would not
    // do, as a forked child destroys its copy, too.
    std::atexit([] { instance().take_leave(); });
  }

  void take_leave() {
    const auto mpi = mpi_library();
    const bool by_mpi = mpi == MpiLibrary::initialised || mpi == MpiLibrary::finalised;
    if (owner_ != ::getpid() || by_mpi) return;
    try {
      client_->take_leave(Deadline::in(5s));
    } catch (const Error&) {  // the launcher has ended first
      return;
    }
  }

  std::mutex mutex_;
  std::optional<Client> client_;
  std::string failure_;  ///< why there is no conversation
  pid_t owner_ = -1;
};

}  // namespace

std::string obstacle(const Access& access) {
  const auto mpi = mpi_library();
  if (mpi == MpiLibrary::finalised)
    return "MPI_Finalize has ended what there was with the launcher: create communicators before "
           "it";
  if (access.survives_a_second_start || mpi == MpiLibrary::absent) return {};
  return "this program has loaded an MPI library, to which Capstan leaves the launcher's PMI: two "
         "cannot use it here. Start it with PMIx (srun --mpi=pmix), or broadcast by MPI what "
         "capstan::create_unique_id(ADDRESS) gives on rank 0, for Communicator::join()";
}

std::pair<int, int> place(const Access& access, Deadline deadline) {
  return Session::instance().with_client(access, deadline,
                                         [](Client& client) { return client.place().value(); });
}

void leave(const Access& access, const std::string& key, std::string_view text, Deadline deadline) {
  Session::instance().with_client(access, deadline, [&](Client& client) {
    client.put(key, to_hex(text), deadline);
    client.barrier(deadline);
  });
}

std::string get(const Access& access, const std::string& key, Deadline deadline) {
  return Session::instance().with_client(access, deadline, [&](Client& client) {
    client.barrier(deadline);
    return from_hex(client.get(key, deadline));
  });
}

}  // namespace capstan::pmi
