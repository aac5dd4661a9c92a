// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace capstan {

/// The text of an exception.
inline std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an error of unknown type";
  }
}

}  // namespace capstan
