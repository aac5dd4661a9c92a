// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>
#include <unistd.h>

#include <optional>

namespace capstan {

/// Other threads run Python during its life: it releases the GIL, and takes it again.
///
/// While the interpreter ends, a thread that asks for the GIL is ended by unwinding its stack,
/// until Python 3.13. In a destructor this would end the program by std::terminate. So the thread
/// sleeps instead, until the process is gone.
class ReleasedGil {
 public:
  ReleasedGil() : thread_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (...) {
      while (true) ::pause();
    }
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* const thread_;
};

/// Calls `call` without the GIL, which this thread may hold or not.
template <class Call>
auto without_gil(Call&& call) {
  std::optional<ReleasedGil> others_run;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) others_run.emplace();
  return call();
}

}  // namespace capstan
