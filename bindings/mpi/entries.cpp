// SPDX-License-Identifier: Apache-2.0

// The functions that take the place of MPI's collectives, made from names.def and arguments.hpp.
#include "bindings/mpi/door.hpp"
#include "bindings/mpi/errors.hpp"
#include "bindings/mpi/run.hpp"

namespace capstan::mpi {
namespace {

using Clock = Report::Clock;

int run_served(const Served& served, const Arguments& arguments) {
  try {
    const bool reports = Door::reports();
    const Clock::time_point began = reports ? Clock::now() : Clock::time_point{};
    const Transfer transfer{arguments, served.reduction, served.channel->place()};
    run(served.channel->group(), transfer);
    if (reports) Report::served(arguments.kind, transfer.bytes(), Clock::now() - began);
    return MPI_SUCCESS;
  } catch (...) {
    return report_error(arguments.comm, std::current_exception());
  }
}

/// Calls MPI's own function, and notes the time.
template <class Pass>
int pass_on(const Arguments& arguments, Reason reason, const Pass& pass) {
  if (!Door::reports()) return pass();
  const Clock::time_point began = Clock::now();
  const int code = pass();
  Report::passed(arguments.kind, reason, Clock::now() - began);
  return code;
}

template <class Serve, class Pass>
int serve_or_pass(const Arguments& arguments, bool may_wait, const Serve& serve, const Pass& pass) {
  if (!Door::is_open()) return pass();
  Decision decision;
  try {
    decision = Door::decide(arguments, may_wait);
  } catch (...) {
    return report_error(arguments.comm, std::current_exception());
  }
  if (!decision.served) return pass_on(arguments, decision.reason, pass);
  return serve(*decision.served);
}

/// The three forms of a collective, by the function that reads its parameters.
template <auto read>
class Entries;
template <class... Parameters, Arguments (*read)(Parameters...)>
class Entries<read> {
 public:
  template <Id id>
  static int blocking(Parameters... parameters) {
    const Arguments arguments = read(parameters...);
    return serve_or_pass(
        arguments, true, [&](const Served& served) { return run_served(served, arguments); },
        [&] { return own_as<int(Parameters...)>(id)(parameters...); });
  }

  template <Id id>
  static int background(Parameters... parameters, MPI_Request* request) {
    const Arguments arguments = read(parameters...);
    return serve_or_pass(
        arguments, false,
        [&](const Served& served) { return start_in_background(served, arguments, request); },
        [&] { return own_as<int(Parameters..., MPI_Request*)>(id)(parameters..., request); });
  }

  template <Id id>
  static int persistent(Parameters... parameters, MPI_Info info, MPI_Request* request) {
    const Arguments arguments = read(parameters...);
    return serve_or_pass(
        arguments, false,
        [&](const Served& served) { return make_persistent(served, arguments, request); },
        [&] {
          return own_as<int(Parameters..., MPI_Info, MPI_Request*)>(id)(parameters..., info,
                                                                        request);
        });
  }

  template <Id blocking_id, Id background_id, Id persistent_id>
  static void put(void** served) {
    served[static_cast<int>(blocking_id)] = reinterpret_cast<void*>(&blocking<blocking_id>);
    served[static_cast<int>(background_id)] = reinterpret_cast<void*>(&background<background_id>);
    served[static_cast<int>(persistent_id)] = reinterpret_cast<void*>(&persistent<persistent_id>);
  }
};

void serve_collectives(void** served) {
#define COUNTLESS(Name, name, text) \
  Entries<&from::name<int, int>>::put<Id::Name, Id::I##name, Id::Name##_init>(served);
#define COLLECTIVE(Name, name, text)                                            \
  COUNTLESS(Name, name, text)                                                   \
  Entries<&from::name<MPI_Count, MPI_Aint>>::put<Id::Name##_c, Id::I##name##_c, \
                                                 Id::Name##_init_c>(served);
#define FUNCTION(Name)
#include "bindings/mpi/names.def"
#undef COUNTLESS
#undef COLLECTIVE
#undef FUNCTION
}

}  // namespace
}  // namespace capstan::mpi

extern "C" __attribute__((visibility("default"))) void capstan_mpi_serve(
    const capstan_mpi_library* library, void** served) {
  using namespace capstan::mpi;
  if (!look_up(*library)) return;
  serve_collectives(served);
  serve_requests(served);
  serve_lifecycle(served);
}
