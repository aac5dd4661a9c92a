// SPDX-License-Identifier: Apache-2.0

// Codes, texts and names.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "bindings/c/handles.hpp"
#include "capstan/version.hpp"

namespace capstan::c {
namespace {

/// In memory of the thread itself: to keep an error must not fail.
struct LastError {
  capstan_status status = CAPSTAN_OK;
  std::int32_t lost_rank = -1;
  std::array<char, 4096> text{};
};

thread_local LastError last_error;

void keep(capstan_status status, std::string_view text, std::int32_t lost_rank = -1) {
  last_error.status = status;
  last_error.lost_rank = lost_rank;
  const std::size_t length = std::min(text.size(), last_error.text.size() - 1);
  std::copy_n(text.data(), length, last_error.text.data());
  last_error.text[length] = '\0';
}

constexpr capstan_status status_of(ErrorCode code) {
  return static_cast<capstan_status>(code);
}

static_assert(CAPSTAN_INTERNAL == status_of(ErrorCode::internal) &&
              CAPSTAN_INVALID_ARGUMENT == status_of(ErrorCode::invalid_argument) &&
              CAPSTAN_NOT_SUPPORTED == status_of(ErrorCode::not_supported) &&
              CAPSTAN_SYSTEM_ERROR == status_of(ErrorCode::system_error) &&
              CAPSTAN_LIMIT_REACHED == status_of(ErrorCode::limit_reached) &&
              CAPSTAN_BOOTSTRAP_FAILED == status_of(ErrorCode::bootstrap_failed) &&
              CAPSTAN_JOIN_TIMED_OUT == status_of(ErrorCode::join_timed_out) &&
              CAPSTAN_WRONG_SECRET == status_of(ErrorCode::wrong_secret) &&
              CAPSTAN_PEER_LOST == status_of(ErrorCode::peer_lost) &&
              CAPSTAN_TIMED_OUT == status_of(ErrorCode::timed_out) &&
              CAPSTAN_MISMATCH == status_of(ErrorCode::mismatch) &&
              CAPSTAN_TRUNCATED == status_of(ErrorCode::truncated) &&
              CAPSTAN_ABORTED == status_of(ErrorCode::aborted) &&
              CAPSTAN_CANCELLED == status_of(ErrorCode::cancelled) &&
              CAPSTAN_DEADLINE_EXCEEDED == status_of(ErrorCode::deadline_exceeded) &&
              CAPSTAN_OPERATION_FAILED == status_of(ErrorCode::operation_failed));

static_assert(CAPSTAN_C128 == static_cast<int>(DataType::c128) &&
              CAPSTAN_F32 == static_cast<int>(DataType::f32) &&
              CAPSTAN_F16 == static_cast<int>(DataType::f16) &&
              CAPSTAN_F8_E4M3 == static_cast<int>(DataType::f8_e4m3) &&
              CAPSTAN_LOGICAL_XOR == static_cast<int>(ReduceOp::logical_xor) &&
              CAPSTAN_AVERAGE == static_cast<int>(ReduceOp::average) &&
              CAPSTAN_ALL_TO_ALL_V == static_cast<int>(Collective::all_to_all_v) &&
              CAPSTAN_SCAN == static_cast<int>(Collective::scan));

/// Names of the library are literals, so that they end with a 0.
template <class Enum>
const char* name_in(std::int32_t value, std::size_t count) {
  if (value < 0 || static_cast<std::size_t>(value) >= count) return "unknown";
  return name_of(static_cast<Enum>(value)).data();
}

}  // namespace

capstan_status remember_error() noexcept {
  try {
    throw;
  } catch (const PeerLost& error) {
    keep(CAPSTAN_PEER_LOST, error.what(), error.lost().value());
  } catch (const Error& error) {
    keep(status_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    keep(CAPSTAN_LIMIT_REACHED, "there is no memory left");
  } catch (const std::exception& error) {
    keep(CAPSTAN_INTERNAL, error.what());
  } catch (...) {
    keep(CAPSTAN_INTERNAL, "an exception of unknown type");
  }
  return last_error.status;
}

Deadline deadline_in(double seconds) {
  if (std::isnan(seconds)) refuse("the time to wait is not a number");
  if (seconds < 0) return Deadline::never();
  return Deadline::in(std::chrono::duration<double>(seconds));
}

}  // namespace capstan::c

using namespace capstan::c;

const char* capstan_last_error(void) {
  return last_error.text.data();
}

capstan_status capstan_last_status(void) {
  return last_error.status;
}

int32_t capstan_last_lost_rank(void) {
  return last_error.lost_rank;
}

const char* capstan_status_name(capstan_status status) {
  return status == CAPSTAN_OK ? "ok" : name_of(static_cast<capstan::ErrorCode>(status)).data();
}

capstan_status capstan_version(int32_t* major, int32_t* minor, int32_t* patch) {
  if (major) *major = CAPSTAN_VERSION_MAJOR;
  if (minor) *minor = CAPSTAN_VERSION_MINOR;
  if (patch) *patch = CAPSTAN_VERSION_PATCH;
  return CAPSTAN_OK;
}

const char* capstan_type_name(capstan_type type) {
  return name_in<capstan::DataType>(type, capstan::all_data_types().size());
}

const char* capstan_op_name(capstan_op op) {
  return name_in<capstan::ReduceOp>(op, capstan::all_reduce_ops().size());
}

const char* capstan_collective_name(capstan_collective collective) {
  return name_in<capstan::Collective>(collective, capstan::all_collectives().size());
}

size_t capstan_type_size(capstan_type type) {
  if (type < 0 || static_cast<size_t>(type) >= capstan::all_data_types().size()) return 0;
  return capstan::size_of(static_cast<capstan::DataType>(type)).value();
}
