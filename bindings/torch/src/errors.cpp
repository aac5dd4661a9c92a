// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <c10/util/Exception.h>

#include <stdexcept>

#include "capstan/error.hpp"
#include "versions.hpp"

namespace capstan::pytorch {

void refuse(const std::string& text) {
  throw std::invalid_argument(text);
}

void fail(const std::string& text) {
#if TORCH_VERSION_MAJOR >= 2
  throw c10::DistBackendError(c10::SourceLocation{__func__, __FILE__, __LINE__}, text);
#else
  throw std::runtime_error(text);
#endif
}

std::exception_ptr translated(const std::exception_ptr& error) {
  try {
    try {
      std::rethrow_exception(error);
    } catch (const InvalidArgument& invalid) {
      refuse(invalid.what());
    } catch (const Error& other) {
      fail(other.what());
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace capstan::pytorch
