// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace capstan::pytorch {

/// Throws what Python sees as a ValueError.
[[noreturn]] void refuse(const std::string& text);
/// Throws what Python sees as a RuntimeError; in PyTorch 2 it is a DistBackendError.
[[noreturn]] void fail(const std::string& text);

/// The error as PyTorch has it: InvalidArgument as by refuse(), other errors of Capstan as by
/// fail().
std::exception_ptr translated(const std::exception_ptr& error);

/// Calls `call` and returns its result. Translates the errors that it throws.
template <class Call>
auto translating(Call&& call) {
  try {
    return call();
  } catch (...) {
    std::rethrow_exception(translated(std::current_exception()));
  }
}

}  // namespace capstan::pytorch
