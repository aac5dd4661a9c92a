// SPDX-License-Identifier: Apache-2.0
#include "capstan/error.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "core/base/printable.hpp"

namespace capstan {
namespace {

using enum ErrorCode;

constexpr std::array<std::pair<ErrorCode, std::string_view>, 16> code_names{{
    {internal, "internal"},
    {invalid_argument, "invalid_argument"},
    {not_supported, "not_supported"},
    {system_error, "system_error"},
    {limit_reached, "limit_reached"},
    {bootstrap_failed, "bootstrap_failed"},
    {join_timed_out, "join_timed_out"},
    {wrong_secret, "wrong_secret"},
    {peer_lost, "peer_lost"},
    {timed_out, "timed_out"},
    {mismatch, "mismatch"},
    {truncated, "truncated"},
    {aborted, "aborted"},
    {cancelled, "cancelled"},
    {deadline_exceeded, "deadline_exceeded"},
    {operation_failed, "operation_failed"},
}};

constexpr auto all_codes = [] {
  std::array<ErrorCode, code_names.size()> all{};
  std::ranges::transform(code_names, all.begin(), [](const auto& entry) { return entry.first; });
  return all;
}();

}  // namespace

Error::Error(const std::string& message, ErrorCode code)
    : std::runtime_error(printable_lines(message)), code_(code) {}

DeadlineExceeded::DeadlineExceeded(const std::string& message, std::chrono::nanoseconds budget,
                                   const std::vector<std::string>& pending)
    : Error(message, ErrorCode::deadline_exceeded), budget_(budget) {
  for (const std::string& operation : pending) pending_.push_back(printable_lines(operation));
}

std::span<const ErrorCode> all_error_codes() {
  return all_codes;
}

std::string_view name_of(ErrorCode code) {
  const auto found = std::ranges::find(all_codes, code);
  return found == all_codes.end()
             ? "unknown"
             : code_names[static_cast<std::size_t>(found - all_codes.begin())].second;
}

ErrorCode code_of(const std::exception_ptr& error) noexcept {
  if (!error) return internal;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code();
  } catch (const std::bad_alloc&) {
    return limit_reached;
  } catch (...) {
    return internal;
  }
}

}  // namespace capstan
