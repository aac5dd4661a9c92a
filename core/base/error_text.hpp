// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "core/base/printable.hpp"

namespace capstan {

/// The text of an exception, which is safe to print: that of an Error is from its constructor on.
inline std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return printable_lines(known.what());
  } catch (...) {
    return "an error of unknown type";
  }
}

}  // namespace capstan
