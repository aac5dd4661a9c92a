// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/pmix.hpp"

#include <fmt/format.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/job_identity.hpp"
#include "core/platform/net/shared_library.hpp"

namespace capstan::pmix {
namespace {

using namespace std::chrono_literals;

/// The functions of the library that are used. Nothing links it: MPI's own may be another one.
struct Library {
  decltype(&::PMIx_Init) init;
  decltype(&::PMIx_Finalize) finalize;
  decltype(&::PMIx_Error_string) error_string;
  decltype(&::PMIx_Put) put;
  decltype(&::PMIx_Commit) commit;
  decltype(&::PMIx_Get_nb) get;
  decltype(&::PMIx_Fence_nb) fence;
};

/// False if the library lacks one of them.
bool fill(Library& library, const SharedLibrary& from) {
  const auto find = [&](auto& function, const char* name) {
    from.find(function, name);
    return function != nullptr;
  };
  return find(library.init, "PMIx_Init") && find(library.finalize, "PMIx_Finalize") &&
         find(library.error_string, "PMIx_Error_string") && find(library.put, "PMIx_Put") &&
         find(library.commit, "PMIx_Commit") && find(library.get, "PMIx_Get_nb") &&
         find(library.fence, "PMIx_Fence_nb");
}

/// The library that this process has; else the launcher's own, which fits its server, and fits an
/// MPI of the launcher that the process loads later: one process can't have two of one name. Null
/// if there is none.
const Library* find_library() {
  const std::string name = "libpmix.so.2";
  auto shared = system_loader().loaded({name});
  if (const std::string path = shared ? "" : mapped_by_ancestor(name); !path.empty())
    shared = system_loader().open({path});
  if (!shared) shared = system_loader().open({name, CAPSTAN_PMIX_LIBRARY});
  static Library library;
  return shared && fill(library, *shared) ? &library : nullptr;
}

const Library* library_or_null() {
  static const Library* const library = find_library();
  return library;
}

const Library& library() {
  if (const Library* const found = library_or_null()) return *found;
  throw BootstrapError(obstacle());
}

[[noreturn]] void failed(const char* call, pmix_status_t status) {
  throw BootstrapError(
      fmt::format("{}: {}: the launcher offers PMIx, but it does not work; set CAPSTAN_STORE and "
                  "CAPSTAN_SECRET for all ranks to do without it",
                  call, library().error_string(status)));
}

/// The connection to the launcher. PMIx counts the users of it in this process, such as MPI.
class Session {
 public:
  static Session& instance() {
    static Session session;
    return session;
  }
  const char* job() const { return self_.nspace; }

 private:
  Session() {
    if (const auto status = library().init(&self_, nullptr, 0); status != PMIX_SUCCESS)
      failed("PMIx_Init", status);
    owner_ = ::getpid();
    // Without this call a launcher takes the end of the process for a crash. It must come before
    // the clean-up of the PMIx library itself, so a destructor would be too late.
    std::atexit([] {
      if (instance().owner_ == ::getpid()) library().finalize(nullptr, 0);
    });
  }

  pmix_proc_t self_{};
  pid_t owner_ = -1;
};

/// An answer that a thread of PMIx gives later, possibly after the wait for it has ended.
class Answer {
 public:
  void give(pmix_status_t status, std::string text) {
    const std::lock_guard lock{mutex_};
    status_ = status;
    text_ = std::move(text);
    there_ = true;
    changed_.notify_all();
  }
  /// The answer, or PMIX_ERR_TIMEOUT if it does not come in time.
  std::pair<pmix_status_t, std::string> wait(Deadline deadline) {
    std::unique_lock lock{mutex_};
    const auto there = [&] { return there_; };
    if (deadline.is_never()) {
      changed_.wait(lock, there);
    } else if (!changed_.wait_until(lock, deadline.when(), there)) {
      return {PMIX_ERR_TIMEOUT, {}};
    }
    return {status_, text_};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool there_ = false;
  pmix_status_t status_ = PMIX_SUCCESS;
  std::string text_;
};

/// Calls that PMIx has not answered yet, by their tickets. Never destroyed, because an answer may
/// come after every wait has ended. Thread-safe.
class Expected {
 public:
  static Expected& instance() {
    static auto* const all = new Expected;
    return *all;
  }

  void* add(std::shared_ptr<Answer> answer) {
    const std::lock_guard lock{mutex_};
    void* const ticket = answer.get();
    answers_.emplace(ticket, std::move(answer));
    return ticket;
  }
  std::shared_ptr<Answer> take(void* ticket) {
    const std::lock_guard lock{mutex_};
    return std::move(answers_.extract(ticket).mapped());
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::shared_ptr<Answer>> answers_;
};

void take_value(pmix_status_t status, pmix_value_t* value, void* ticket) {
  const bool text = status == PMIX_SUCCESS && value && value->type == PMIX_STRING;
  if (status == PMIX_SUCCESS && !text) status = PMIX_ERR_TYPE_MISMATCH;
  Expected::instance().take(ticket)->give(status, text ? value->data.string : "");
}

void take_status(pmix_status_t status, void* ticket) {
  Expected::instance().take(ticket)->give(status, "");
}

/// Makes a call that answers later, by `call(ticket)`, and waits for the answer.
template <class Call>
std::pair<pmix_status_t, std::string> answer_of(Call call, Deadline deadline) {
  const auto answer = std::make_shared<Answer>();
  void* const ticket = Expected::instance().add(answer);
  if (const pmix_status_t asked = call(ticket); asked != PMIX_SUCCESS) {
    Expected::instance().take(ticket);
    return {asked, {}};
  }
  return answer->wait(deadline);
}

/// Asks once. Empty if the rank has not put the value yet.
std::optional<std::string> ask(const pmix_proc_t& whom, const std::string& key, Deadline deadline) {
  const auto [status, text] = answer_of(
      [&](void* ticket) {
        return library().get(&whom, key.c_str(), nullptr, 0, take_value, ticket);
      },
      deadline);
  if (status == PMIX_SUCCESS) return text;
  if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT) return std::nullopt;
  failed("PMIx_Get_nb", status);
}

}  // namespace

std::string obstacle() {
  if (library_or_null()) return "";
  return "the launcher offers PMIx, but its library (libpmix.so.2) cannot be loaded: install "
         "libpmix2, or set CAPSTAN_STORE and CAPSTAN_SECRET for all ranks";
}

void put(const std::string& key, const std::string& value) {
  Session::instance();
  pmix_value_t content{};
  content.type = PMIX_STRING;
  content.data.string = const_cast<char*>(value.c_str());  // PMIx copies it
  if (const auto status = library().put(PMIX_GLOBAL, key.c_str(), &content); status != PMIX_SUCCESS)
    failed("PMIx_Put", status);
  if (const auto status = library().commit(); status != PMIX_SUCCESS) failed("PMIx_Commit", status);
}

std::string get(int rank, const std::string& key, Deadline deadline) {
  pmix_proc_t whom{};
  const std::string_view job = Session::instance().job();
  std::ranges::copy(job.substr(0, PMIX_MAX_NSLEN), whom.nspace);
  whom.rank = static_cast<pmix_rank_t>(rank);
  while (true) {
    if (const auto value = ask(whom, key, deadline)) return *value;
    if (deadline.expired()) {
      throw TimedOut(
          fmt::format("rank {} left nothing with the launcher's PMIx within {}: see whether it "
                      "started, crashed or hangs",
                      rank, deadline.budget()));
    }
    std::this_thread::sleep_for(20ms);
  }
}

void meet(Deadline deadline) {
  Session::instance();
  answer_of([](void* data) { return library().fence(nullptr, 0, nullptr, 0, take_status, data); },
            deadline);
}

}  // namespace capstan::pmix
