// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/errors.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "capstan/error.hpp"

namespace capstan::mpi {
namespace {

/// MPI's class of an error that says that a process has gone, where it has one.
constexpr int gone =
#if defined MPI_ERR_PROC_FAILED
    MPI_ERR_PROC_FAILED;
#elif defined MPIX_ERR_PROC_FAILED
    MPIX_ERR_PROC_FAILED;
#else
    MPI_ERR_OTHER;
#endif

int mpi_class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::peer_lost:
      return gone;
    case ErrorCode::invalid_argument:
      return MPI_ERR_BUFFER;  // all else has been looked at
    case ErrorCode::truncated:
      return MPI_ERR_TRUNCATE;
    case ErrorCode::limit_reached:
      return MPI_ERR_NO_MEM;
    default:
      return MPI_ERR_OTHER;
  }
}

std::mutex texts_mutex;
/// By code. (MPICH keeps no text for a code of a class of its own.)
auto& texts = *new std::unordered_map<int, std::string>;

int new_code(int error_class, std::string text) {
  constexpr std::size_t longest = MPI_MAX_ERROR_STRING - 1;
  int code = MPI_ERR_OTHER;
  if (calls.Add_error_code(error_class, &code) != MPI_SUCCESS) return error_class;
  text.resize(std::min(text.size(), longest));
  const std::lock_guard lock{texts_mutex};
  texts[code] = std::move(text);
  return code;
}

bool is_fatal(MPI_Comm comm) {
  MPI_Errhandler handler{};
  if (calls.Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return false;
  const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
  calls.Errhandler_free(&handler);
  return fatal;
}

}  // namespace

int code_of_error(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const Failed& failed) {
    return failed.code;
  } catch (const std::bad_alloc&) {
    return MPI_ERR_NO_MEM;
  } catch (const std::exception& thrown) {
    return new_code(mpi_class_of(capstan::code_of(error)), thrown.what());
  } catch (...) {
    return MPI_ERR_OTHER;
  }
}

int report_error(MPI_Comm comm, const std::exception_ptr& error) noexcept {
  const int code = code_of_error(error);
  try {
    std::rethrow_exception(error);
  } catch (const Failed&) {
    return code;  // MPI has told the handler
  } catch (const std::exception& thrown) {
    if (!is_fatal(comm)) return calls.Comm_call_errhandler(comm, code), code;
    // The handler ends the job without the text; MPICH would have another one for the code.
    std::fprintf(stderr, "capstan: %s\n", thrown.what());
    calls.Comm_call_errhandler(comm, mpi_class_of(capstan::code_of(error)));
    return code;
  } catch (...) {
    calls.Comm_call_errhandler(comm, code);
    return code;
  }
}

int error_string(int code, char* text, int* length) {
  {
    const std::lock_guard lock{texts_mutex};
    const auto found = texts.find(code);
    if (found != texts.end() && text && length) {
      std::memcpy(text, found->second.c_str(), found->second.size() + 1);
      *length = static_cast<int>(found->second.size());
      return MPI_SUCCESS;
    }
  }
  return own_as<int(int, char*, int*)>(Id::Error_string)(code, text, length);
}

}  // namespace capstan::mpi
