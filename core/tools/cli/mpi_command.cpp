// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/mpi/door.hpp"

namespace capstan::cli {
namespace {

struct MpiOptions {
  DoorOptions door;
  std::vector<std::string> command;
};

constexpr const char* mpi_examples =
    "Examples:\n"
    "  capstan mpi -- mpirun -n 4 ./program              its collectives are Capstan's\n"
    "  capstan mpi --report -- mpirun -n 4 ./program     what was served, what was MPI's, and why\n"
    "  capstan mpi --report --off -- mpirun -n 4 ./program       the same with MPI's own, for the "
    "time\n"
    "  capstan mpi --only all_reduce,broadcast -- mpirun -n 4 python3 train.py\n\n"
    "The program is not changed: libcapstan-mpi.so goes into LD_PRELOAD, and CAPSTAN_MPI has the\n"
    "options. On other hosts Capstan is expected at the same path, and mpirun has to pass both\n"
    "variables on: -x LD_PRELOAD -x CAPSTAN_MPI with Open MPI, -genvall with MPICH.\n"
    "`capstan run --mpi -n 4 ./program` finds the mpirun by itself.";

}  // namespace

void add_mpi_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("mpi", "Run a program of MPI, unmodified, with Capstan's collectives");
  const auto options = std::make_shared<MpiOptions>();
  command->add_flag("--report", options->door.report,
                    "Say at the end which collectives Capstan served, which MPI, and why");
  command->add_flag("--off", options->door.off, "Serve none: for a report of MPI's own times");
  command->add_flag("--audit", options->door.audit,
                    "For programs that look MPI up by dlsym in its library, as Julia does");
  command->add_option("--only", options->door.only, "Serve these alone, separated by commas");
  command->add_option("command", options->command, "mpirun with its arguments, after --")
      ->required();
  command->footer(mpi_examples);
  command->callback([options] { become_with_door(options->door, options->command); });
}

}  // namespace capstan::cli
