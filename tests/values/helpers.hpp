// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "capstan/values/arithmetic.hpp"
#include "capstan/values/async.hpp"
#include "capstan/values/debug_scheduler.hpp"
#include "capstan/values/pool.hpp"
#include "capstan/values/tbb_scheduler.hpp"
#include "capstan/values/when_all.hpp"
#include "tests/sanitizers.hpp"

namespace capstan::values {

using Order = DebugScheduler::Order;

/// A test whose tasks go to a debug scheduler.
class OnDebugScheduler : public ::testing::Test {
 protected:
  DebugScheduler scheduler;
  ScopedScheduler scoped{scheduler};
};

/// The rows of the requirements.
class Requirement : public OnDebugScheduler {};

/// Coroutines that tests use.
template <class T>
AsyncTask assign(WriteBuffer<T> out, std::type_identity_t<T> value) {
  co_await out = std::move(value);
}
template <class T>
AsyncTask add(MutableBuffer<T> target, std::type_identity_t<T> value) {
  co_await target += value;
}
template <class T>
AsyncTask copy(ReadBuffer<T> in, WriteBuffer<T> out) {
  co_await out = co_await in;
}
template <class T>
AsyncTask note(ReadBuffer<T> in, std::vector<T>* seen) {
  seen->push_back(co_await in);
}
template <class T>
AsyncTask fail(WriteBuffer<T> out, std::string text) {
  co_await out = T{};
  throw std::runtime_error(text);
}

}  // namespace capstan::values
