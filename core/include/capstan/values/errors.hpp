// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "capstan/error.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// A value was read that has not been written: it was made without one, or the buffer that was to
/// write it was dropped. what() names the value and its epoch.
class NotWritten : public Error {
 public:
  using Error::Error;
};

/// The task that was to write a value was cancelled.
class TaskCancelled : public Cancelled {
 public:
  using Cancelled::Cancelled;
};

/// The task that was to write a value ended by an exception, which is cause(). what() is the text
/// of the cause and says in which task it began: file, line and function.
class TaskFailed : public OperationFailed {
 public:
  using OperationFailed::OperationFailed;
};

/// Nothing can run any more, but tasks wait. what() names each of them, what it waits for and what
/// it holds.
class Deadlock : public Error {
 public:
  using Error::Error;
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
