// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string_view>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The kind of an error as a number, for bindings and logs. Numbers never change. A multiple of
/// 100 is one exception class of capstan/error.hpp; the numbers after it are special cases of that
/// class.
enum class ErrorCode : std::int32_t {
  internal = 1,  ///< an exception that is none of Capstan's
  invalid_argument = 100,
  not_supported = 101,  ///< InvalidArgument: this build or machine cannot do it
  system_error = 200,
  limit_reached = 300,
  bootstrap_failed = 400,
  join_timed_out = 401,  ///< BootstrapError: a rank did not come within Settings::join_timeout
  wrong_secret = 402,    ///< BootstrapError: ranks do not share one secret
  peer_lost = 500,
  timed_out = 600,
  mismatch = 700,
  truncated = 800,
  aborted = 900,
  cancelled = 1000,
  deadline_exceeded = 1100,
  operation_failed = 1200,
};

/// All codes in rising order.
std::span<const ErrorCode> all_error_codes();

/// "peer_lost"; "unknown" for a number that is no code.
std::string_view name_of(ErrorCode code);

/// The code of the exception class: invalid_argument for not_supported.
constexpr ErrorCode class_of(ErrorCode code) {
  const auto number = static_cast<std::int32_t>(code);
  return number < 100 ? code : static_cast<ErrorCode>(number / 100 * 100);
}

/// The code of an exception: Error::code(), limit_reached for std::bad_alloc, internal for others
/// and for none.
ErrorCode code_of(const std::exception_ptr& error) noexcept;

}  // namespace capstan
