// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/report.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <string>

namespace capstan::mpi {
namespace {

constexpr int kinds = static_cast<int>(Kind::count), reasons = static_cast<int>(Reason::count);

struct Total {
  std::atomic<std::uint64_t> calls = 0, bytes = 0;
  std::atomic<std::int64_t> nanoseconds = 0;

  void add(std::size_t more, Report::Clock::duration time) {
    calls.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(more, std::memory_order_relaxed);
    nanoseconds.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(),
                          std::memory_order_relaxed);
  }
};

Total served_calls[kinds];
Total passed_calls[kinds][reasons];
std::atomic<int> groups = 0;

const char* text_of(Reason reason) {
  switch (reason) {
    case Reason::switched_off:
      return "CAPSTAN_MPI leaves it to MPI";
    case Reason::one_rank:
      return "the communicator has one rank";
    case Reason::between_groups:
      return "an intercommunicator";
    case Reason::several_worlds:
      return "ranks of another MPI_COMM_WORLD are in it";
    case Reason::no_group:
      return "Capstan has no group for the communicator";
    case Reason::not_formed:
      return "no blocking collective came before it";
    case Reason::operation:
      return "MPI alone has the operation for this type";
    case Reason::arguments:
      return "arguments that MPI refuses";
    case Reason::count:
      break;
  }
  return "";
}

std::string line(const char* name, const char* by, const Total& total, const char* why) {
  const double milliseconds = static_cast<double>(total.nanoseconds.load()) / 1e6;
  return fmt::format("capstan:   {:<16} {:<8} {:>10} {:>14} {:>12.3f}  {}\n", name, by,
                     total.calls.load(), total.bytes.load(), milliseconds, why);
}

}  // namespace

void Report::served(Kind kind, std::size_t bytes, Clock::duration time) {
  served_calls[static_cast<int>(kind)].add(bytes, time);
}

void Report::passed(Kind kind, Reason reason, Clock::duration time) {
  passed_calls[static_cast<int>(kind)][static_cast<int>(reason)].add(0, time);
}

void Report::formed() {
  groups.fetch_add(1, std::memory_order_relaxed);
}

void Report::print(const char* library) {
  std::string text = fmt::format("capstan: collectives of rank 0 over {}\n", library);
  text += fmt::format("capstan:   {:<16} {:<8} {:>10} {:>14} {:>12}\n", "collective", "by", "calls",
                      "bytes", "ms");
  for (int kind = 0; kind < kinds; ++kind) {
    const char* const name = name_of(static_cast<Kind>(kind));
    if (served_calls[kind].calls.load() > 0) text += line(name, "Capstan", served_calls[kind], "");
    for (int reason = 0; reason < reasons; ++reason)
      if (passed_calls[kind][reason].calls.load() > 0)
        text += line(name, "MPI", passed_calls[kind][reason], text_of(static_cast<Reason>(reason)));
  }
  text += fmt::format("capstan:   groups formed beside MPI_COMM_WORLD's: {}\n", groups.load());
  std::fputs(text.c_str(), stderr);
}

}  // namespace capstan::mpi
