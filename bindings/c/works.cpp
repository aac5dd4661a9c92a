// SPDX-License-Identifier: Apache-2.0

// Operations in the background.

#include <algorithm>

#include "bindings/c/handles.hpp"

using namespace capstan::c;
using capstan::Work;

namespace {

std::vector<Work> to_works(capstan_work* const* works, size_t count) {
  capstan_work* const* const first = &required(works, "works");
  std::vector<Work> own;
  std::for_each_n(first, count, [&](capstan_work* work) { own.push_back(of(work).work); });
  return own;
}

struct Ended {
  capstan_status status = CAPSTAN_OK;
  std::string text{};
};

/// The end of a work that has ended; the last error of this thread stays what it is.
Ended end_of(const Work& work) {
  if (work.is_cancelled()) return {CAPSTAN_CANCELLED, work.describe() + " was cancelled"};
  const std::exception_ptr error = work.error();
  if (!error) return {};
  const auto status = static_cast<capstan_status>(capstan::code_of(error));
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return {status, known.what()};
  } catch (...) {
    return {status, "an exception of unknown type"};
  }
}

}  // namespace

capstan_status capstan_wait(capstan_work* work) {
  return guarded([&] { of(work).work.wait(); });
}

capstan_status capstan_wait_for(capstan_work* work, double seconds, int32_t* ended) {
  return guarded([&] {
    std::int32_t& given = required(ended, "ended");
    const Work& own = of(work).work;
    const capstan::Deadline deadline = deadline_in(seconds);
    given = 1;  // also when this throws the error of the operation
    given = own.wait_until(deadline) ? 1 : 0;
  });
}

capstan_status capstan_test(capstan_work* work, int32_t* ended) {
  return capstan_wait_for(work, 0, ended);
}

capstan_status capstan_cancel(capstan_work* work, int32_t* cancelled) {
  return guarded([&] {
    std::int32_t& given = required(cancelled, "cancelled");
    given = of(work).work.cancel() ? 1 : 0;
  });
}

capstan_status capstan_wait_any(capstan_work* const* works, size_t count, double seconds,
                                size_t* index) {
  return guarded([&] {
    std::size_t& given = required(index, "index");
    given = Work::wait_any(to_works(works, count), deadline_in(seconds)).value_or(count);
  });
}

capstan_status capstan_wait_all(capstan_work* const* works, size_t count, double seconds,
                                int32_t* ended) {
  return guarded([&] {
    std::int32_t& given = required(ended, "ended");
    given = Work::wait_all(to_works(works, count), deadline_in(seconds)) ? 1 : 0;
  });
}

capstan_status capstan_on_complete(capstan_work* work, capstan_callback callback, void* context) {
  return guarded([&] {
    const Work& own = of(work).work;
    if (!callback) refuse("the callback is null: pass a function");
    own.on_complete([callback, context](const Work& done) {
      const Ended ended = end_of(done);
      callback(context, ended.status, ended.text.c_str());
    });
  });
}

capstan_status capstan_ensure_progress(capstan_work* work) {
  return guarded([&] { of(work).work.ensure_progress(); });
}

const char* capstan_describe(const capstan_work* work) {
  const char* text = "";
  (void)guarded([&] { text = of(work).work.describe().c_str(); });
  return text;
}

capstan_status capstan_release(capstan_work* work) {
  return destroy(work);
}
