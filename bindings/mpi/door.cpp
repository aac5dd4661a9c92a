// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/door.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bindings/mpi/errors.hpp"
#include "bindings/mpi/joining.hpp"
#include "bindings/mpi/progress.hpp"
#include "bindings/mpi/soundness.hpp"

namespace capstan::mpi {
namespace {

Options options;
Channels* channels = nullptr;  // never destroyed: other threads may be in a call at the exit

Options shared_options() {
  char text[1024] = {};
  if (const char* set = std::getenv("CAPSTAN_MPI")) std::strncpy(text, set, sizeof text - 1);
  share(text, sizeof text);
  std::string complaint;
  const Options parsed = Options::parse(text, complaint);
  int rank = 0;
  calls.Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && !complaint.empty()) std::fprintf(stderr, "capstan: %s\n", complaint.c_str());
  return parsed;
}

int init(int* count, char*** arguments) {
  const int code = own_as<decltype(init)>(Id::Init)(count, arguments);
  if (code == MPI_SUCCESS) Door::open();
  return code;
}

int init_thread(int* count, char*** arguments, int required, int* provided) {
  const int code =
      own_as<decltype(init_thread)>(Id::Init_thread)(count, arguments, required, provided);
  if (code == MPI_SUCCESS) Door::open();
  return code;
}

int finalize() {
  Door::close();
  return own_as<decltype(finalize)>(Id::Finalize)();
}

}  // namespace

std::atomic<bool> Door::open_ = false;
std::atomic<bool> Door::reports_ = false;
thread_local constinit Door::Refused Door::last_refused_{~std::uint64_t{0}, MPI_Comm{}};

void Door::open() noexcept {
  if (is_open()) return;
  try {
    options = shared_options();
    start_progress();
    channels = Channels::open(options).release();
    reports_ = options.report;
    open_ = true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "capstan: %s: the collectives stay MPI's\n", error.what());
  } catch (const Failed&) {  // MPI has said so
  }
}

void Door::retire(Channel& channel) {
  if (is_open()) channels->retire(channel);
}

void Door::close() noexcept {
  if (!is_open()) return;
  try {
    finish_pending();
    open_ = false;
    if (!channels->has_failed()) own_as<int(MPI_Comm)>(Id::Barrier)(MPI_COMM_WORLD);
    channels->close();
    stop_progress();
    int rank = 0, length = 0;
    calls.Comm_rank(MPI_COMM_WORLD, &rank);
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    calls.Get_library_version(version, &length);
    for (char& c : version)
      if (c == '\n' || c == ',') c = '\0';  // the first words name it
    if (reports() && rank == 0) Report::print(version);
  } catch (...) {  // the program ends in any case
    open_ = false;
  }
}

Decision Door::decide(const Arguments& a, bool may_wait) {
  const auto passed = [](Reason reason) { return Decision{std::nullopt, reason}; };
  if (!options.serves(a.kind)) return passed(Reason::switched_off);
  if (a.comm == MPI_COMM_NULL) return passed(Reason::arguments);
  const std::uint64_t generation = Channels::generation();
  Channel* const channel = channels->find(a.comm);
  if (!channel) return passed(Reason::arguments);
  if (const auto refusal = channel->refusal()) {
    last_refused_ = {generation, a.comm};
    return passed(*refusal);
  }
  if (!is_sound(a, channel->place())) return passed(Reason::arguments);
  const Reduction* const reduction =
      reduces(a.kind) ? reduction_of(a.op, layout_of(a.receive.type)) : nullptr;
  if (reduces(a.kind) && !reduction) return passed(Reason::operation);
  if (!channel->is_formed() && !may_wait) return passed(Reason::not_formed);
  if (!channel->is_formed() && !channel->form()) return passed(Reason::no_group);
  return Decision{Served{channel, reduction}, {}};
}

void serve_lifecycle(void** served) {
  const auto put = [&](Id id, auto* function) {
    served[static_cast<int>(id)] = reinterpret_cast<void*>(function);
  };
  put(Id::Init, &init);
  put(Id::Init_thread, &init_thread);
  put(Id::Finalize, &finalize);
  put(Id::Error_string, &error_string);
  put(Id::Op_free, &free_operation);
  put(Id::Type_free, &free_type);
}

}  // namespace capstan::mpi
