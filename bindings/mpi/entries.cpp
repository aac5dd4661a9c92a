// SPDX-License-Identifier: Apache-2.0

// The functions that take the place of MPI's collectives, made from names.hpp and arguments.hpp.
#include <tuple>

#include "bindings/mpi/door.hpp"
#include "bindings/mpi/errors.hpp"
#include "bindings/mpi/narrow.hpp"
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

/// Stands for MPI's own function, where MPI has none of this name.
int refuse(MPI_Comm comm) {
#ifdef MPI_ERR_UNSUPPORTED_OPERATION
  const int code = MPI_ERR_UNSUPPORTED_OPERATION;
#else
  const int code = MPI_ERR_OTHER;
#endif
  calls.Comm_call_errhandler(comm, code);
  return code;
}

/// MPI's own function, or its narrow form where it has no wide one.
template <Id id, Id narrow_id, class... Parameters, class... Rest>
int call_own(MPI_Comm comm, std::tuple<Rest...> rest, Parameters... parameters) {
  if (own(id))
    return std::apply(
        [&](Rest... more) {
          return own_as<int(Parameters..., Rest...)>(id)(parameters..., more...);
        },
        rest);
  int ranks = 0;
  if (!own(narrow_id) || id == narrow_id || calls.Comm_size(comm, &ranks) != MPI_SUCCESS)
    return refuse(comm);
  Narrow narrow{ranks};
  const std::tuple<Narrowed<Parameters>...> narrowed{narrow(parameters)...};
  if (!narrow.fits()) return refuse(comm);
  const auto function = own_as<int(Narrowed<Parameters>..., Rest...)>(narrow_id);
  const int code = std::apply(function, std::tuple_cat(narrowed, rest));
  if constexpr (sizeof...(Rest) > 0)
    if (code == MPI_SUCCESS) narrow.keep_for(*std::get<sizeof...(Rest) - 1>(rest));
  return code;
}

/// The communicator is the last parameter of all collectives.
template <class... Parameters>
MPI_Comm comm_of(Parameters... parameters) {
  return std::get<sizeof...(Parameters) - 1>(std::tuple{parameters...});
}

/// The three forms of a collective, by the function that reads its parameters.
template <auto read>
class Entries;
template <class... Parameters, Arguments (*read)(Parameters...)>
class Entries<read> {
 public:
  template <Id id, Id narrow>
  static int blocking(Parameters... parameters) {
    const MPI_Comm comm = comm_of(parameters...);
    const auto pass = [&] { return call_own<id, narrow>(comm, std::tuple{}, parameters...); };
    if (Door::stays_with_mpi(comm)) return pass();
    const Arguments arguments = read(parameters...);
    return serve_or_pass(
        arguments, true, [&](const Served& served) { return run_served(served, arguments); }, pass);
  }

  template <Id id, Id narrow>
  static int background(Parameters... parameters, MPI_Request* request) {
    const Arguments arguments = read(parameters...);
    return serve_or_pass(
        arguments, false,
        [&](const Served& served) { return start_in_background(served, arguments, request); },
        [&] { return call_own<id, narrow>(arguments.comm, std::tuple{request}, parameters...); });
  }

  template <Id id, Id narrow>
  static int persistent(Parameters... parameters, MPI_Info info, MPI_Request* request) {
    const Arguments arguments = read(parameters...);
    const auto pass = [&] {
      return call_own<id, narrow>(arguments.comm, std::tuple{info, request}, parameters...);
    };
    const auto serve = [&](const Served& served) {
      const auto code = make_persistent(served, arguments, request);
      return code ? *code : pass();
    };
    return serve_or_pass(arguments, true, serve, pass);
  }

  /// The ids of the forms, and those of their narrow forms.
  template <Id first, Id second, Id third, Id narrow_first, Id narrow_second, Id narrow_third>
  static void put(void** served) {
    const auto enter = [&](Id id, auto* function) {
      served[static_cast<int>(id)] = reinterpret_cast<void*>(function);
    };
    enter(first, &blocking<first, narrow_first>);
    enter(second, &background<second, narrow_second>);
    enter(third, &persistent<third, narrow_third>);
  }
};

void serve_collectives(void** served) {
#define NARROW(Name, name) Id::Name, Id::I##name, Id::Name##_init
#define WIDE(Name, name) Id::Name##_c, Id::I##name##_c, Id::Name##_init_c
#define COUNTLESS(Name, name, text) \
  Entries<&from::name<int, int>>::put<NARROW(Name, name), NARROW(Name, name)>(served);
#define COLLECTIVE(Name, name, text) \
  COUNTLESS(Name, name, text)        \
  Entries<&from::name<MPI_Count, MPI_Aint>>::put<WIDE(Name, name), NARROW(Name, name)>(served);
#define FUNCTION(Name)
#include "bindings/mpi/names.hpp"
#undef COUNTLESS
#undef COLLECTIVE
#undef FUNCTION
#undef NARROW
#undef WIDE
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
