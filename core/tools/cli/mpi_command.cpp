// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "capstan/error.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/launcher/own_program.hpp"

namespace capstan::cli {
namespace {

struct MpiOptions {
  bool report = false, off = false;
  std::string only;
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
    "variables on: -x LD_PRELOAD -x CAPSTAN_MPI with Open MPI, -genvall with MPICH.";

/// In the build, in an installation, and in a Python package.
std::filesystem::path mpi_door() {
  const auto folder = launcher::own_program().parent_path().parent_path();
  const char* const places[] = {"bindings/mpi", CAPSTAN_LIBRARIES "/capstan/mpi", "lib/mpi"};
  for (const char* place : places) {
    const auto file = folder / place / "libcapstan-mpi.so";
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return file;
  }
  throw InvalidArgument(
      "libcapstan-mpi.so is not beside this program: build all (scripts/build), on a machine that "
      "has an MPI with its headers (libopenmpi-dev or libmpich-dev)");
}

void put_before(const char* name, const std::string& value, char separator) {
  const char* const before = std::getenv(name);
  const std::string all = before && *before ? value + separator + before : value;
  ::setenv(name, all.c_str(), 1);
}

[[noreturn]] void become_mpi(const MpiOptions& options) {
  std::string words;
  if (options.report) words = "report";
  if (options.off) words += words.empty() ? "off" : ",off";
  if (!options.only.empty()) words += (words.empty() ? "only:" : ",only:") + options.only;
  if (!words.empty()) ::setenv("CAPSTAN_MPI", words.c_str(), 1);
  put_before("LD_PRELOAD", mpi_door().string(), ':');
  std::vector<char*> arguments;
  for (const std::string& argument : options.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw InvalidArgument(options.command.front() + " cannot be started: " + std::strerror(errno));
}

}  // namespace

void add_mpi_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("mpi", "Run a program of MPI, unmodified, with Capstan's collectives");
  const auto options = std::make_shared<MpiOptions>();
  command->add_flag("--report", options->report,
                    "Say at the end which collectives Capstan served, which MPI, and why");
  command->add_flag("--off", options->off, "Serve none: for a report of MPI's own times");
  command->add_option("--only", options->only, "Serve these alone, separated by commas");
  command->add_option("command", options->command, "mpirun with its arguments, after --")
      ->required();
  command->footer(mpi_examples);
  command->callback([options] { become_mpi(*options); });
}

}  // namespace capstan::cli
