// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "array.hpp"
#include "capstan/async/persistent.hpp"
#include "communicator.hpp"
#include "work.hpp"

namespace capstan::python {

/// A collective that is described once and started again and again, for Python.
class Persistent {
 public:
  Persistent(const std::shared_ptr<Communicator>& communicator, Request request,
             std::vector<Array> arrays, py::object result);
  /// Starts the call and returns its Work, which keeps the arrays until the operation has ended.
  Pending start();
  /// The Work of the last start; throws InvalidArgument before the first one.
  const Pending& last() const;
  const py::object& result() const { return result_; }
  std::string describe() const;

 private:
  std::weak_ptr<Communicator> communicator_;  // which may be closed before
  PersistentCall call_;
  std::shared_ptr<std::vector<Array>> arrays_;
  py::object result_;
  std::optional<Pending> last_{};
};

}  // namespace capstan::python
