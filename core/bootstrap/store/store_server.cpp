// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/store_server.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>

#include "capstan/error.hpp"
#include "core/bootstrap/store/server_loop.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

/// Threads started during the life of this object take no signals: signals belong to the program's
/// own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

FileDescriptor listen_for_clients(const SocketEndpoint& endpoint) {
  const auto* local = std::get_if<AbstractEndpoint>(&endpoint);
  try {
    return listen_on(endpoint);
  } catch (const SystemError&) {
    if (!local || is_own_listener(*local)) throw;
  }
  return listen_on(AbstractEndpoint{local->name + "-" + random_text().substr(0, 32)});
}

}  // namespace

StoreServer::StoreServer(Settings settings) : owner_(::getpid()) {
  FileDescriptor listener = listen_for_clients(settings.endpoint);
  endpoint_ = local_address(listener).endpoint();
  settings.endpoint = endpoint_;
  loop_ = std::make_unique<ServerLoop>(std::move(listener), std::move(settings));
  const SignalsBlocked for_the_thread;
  thread_ = start_thread("the store", [loop = loop_.get()] { loop->run(); });
}

StoreServer::~StoreServer() {
  if (owner_ == ::getpid()) {
    stop();
    return;
  }
  // In a forked child the thread does not exist and its lock may be held for ever: touch neither.
  static_cast<void>(loop_.release());
  static_cast<void>(new std::jthread(std::move(thread_)));
}

bool StoreServer::open_scope(const std::string& name) {
  return loop_->open_scope(name);
}
void StoreServer::close_scope(const std::string& name) {
  loop_->close_scope(name);
}
void StoreServer::close_listener() {
  loop_->close_listener();
}
bool StoreServer::listening() const {
  // In a forked child the loop's thread does not exist and its lock may be held for ever.
  return owner_ == ::getpid() && loop_->listening();
}
bool StoreServer::finished() const {
  return owner_ != ::getpid() || loop_->finished();
}

void StoreServer::stop() {
  loop_->stop();
  const std::lock_guard lock{joining_};
  if (thread_.joinable()) thread_.join();
}

}  // namespace capstan
