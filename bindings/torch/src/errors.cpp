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

namespace {

/// Calls of one name in PyTorch have two names here.
std::string with_remedy(std::string text) {
  const auto says = [&](const char* part) { return text.find(part) != text.npos; };
  if (says("called all_to_all(") && says("called all_to_all_v("))
    text += ". all_to_all_single takes split sizes on all ranks, or on none";
  return text;
}

}  // namespace

std::exception_ptr translated(const std::exception_ptr& error) {
  try {
    try {
      std::rethrow_exception(error);
    } catch (const InvalidArgument& invalid) {
      refuse(invalid.what());
    } catch (const Mismatch& mismatch) {
      fail(with_remedy(mismatch.what()));
    } catch (const Error& other) {
      fail(other.what());
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace capstan::pytorch
