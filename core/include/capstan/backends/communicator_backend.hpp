// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "capstan/backends/backend.hpp"
#include "capstan/communicator.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A communicator as a backend named "capstan", for programs that are written against the
/// interface. close() destroys the communicator.
[[nodiscard]] std::unique_ptr<Backend> make_backend(Communicator communicator);

}  // namespace CAPSTAN_EXPORT capstan
