// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"

namespace capstan {

/// Long enough for the slowest machine; no test waits for it to pass.
inline Deadline patience() {
  return Deadline::in(std::chrono::seconds{60});
}
/// Tests wait for this to pass.
inline Deadline soon() {
  return Deadline::in(std::chrono::milliseconds{100});
}
/// So does this, but what is there must get through before.
inline Deadline while_all_come() {
  return Deadline::in(std::chrono::seconds{2});
}

inline const Secret& secret() {
  static const Secret value = Secret::from_text("the secret of these tests");
  return value;
}

inline StoreServer::Settings on_loopback() {
  return {.endpoint = TcpEndpoint{}, .secret = secret()};
}

inline StoreClient::Settings rank_of(const StoreServer& server, int rank, int size) {
  return {.endpoint = server.endpoint(), .secret = secret(), .rank = rank, .size = size};
}

inline StoreClient client_of(const StoreServer& server) {
  return StoreClient{{.endpoint = server.endpoint(), .secret = secret()}, patience()};
}

/// The message of the Expected error that `action` throws; anything else fails the test.
template <class Expected>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace capstan
