// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/mpi/door.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "capstan/error.hpp"
#include "core/tools/cli/mpi/find_mpi.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/own_program.hpp"

namespace capstan::cli {
namespace {

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

std::string served_collectives() {
  std::string all;
#define COUNTLESS(Name, name, text) all += all.empty() ? #text : ", " #text;
#define COLLECTIVE(Name, name, text) COUNTLESS(Name, name, text)
#define FUNCTION(Name)
#include "bindings/mpi/names.hpp"
#undef COUNTLESS
#undef COLLECTIVE
#undef FUNCTION
  return all;
}

}  // namespace

void become_with_door(const DoorOptions& options, std::vector<std::string> command) {
  std::string words;
  if (options.report) words = "report";
  if (options.off) words += words.empty() ? "off" : ",off";
  if (!options.only.empty()) words += (words.empty() ? "only:" : ",only:") + options.only;
  if (!words.empty()) ::setenv("CAPSTAN_MPI", words.c_str(), 1);
  const std::filesystem::path door = mpi_door();
  put_before("LD_PRELOAD", door.string(), ':');
  if (options.audit)
    put_before("LD_AUDIT", (door.parent_path() / "libcapstan-mpi-audit.so").string(), ':');
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw InvalidArgument(command.front() + " cannot be started: " + std::strerror(errno));
}

void become_mpi_job(int ranks, const std::vector<std::string>& program) {
  const FoundMpi mpi = find_mpi(program.front());
  const char* const limits = std::getenv("CAPSTAN_MPI");
  launcher::complain(
      "capstan: {} links {} ({}), and {} starts it. Capstan serves {}{}\n", program.front(),
      mpi.name, mpi.library.string(), mpi.launcher.string(), served_collectives(),
      limits && *limits ? fmt::format(", as far as CAPSTAN_MPI={} says", limits) : "");
  std::vector<std::string> command{mpi.launcher.string()};
  command.insert(command.end(), mpi.options.begin(), mpi.options.end());
  command.insert(command.end(), {"-n", std::to_string(ranks)});
  command.insert(command.end(), program.begin(), program.end());
  become_with_door({}, std::move(command));
}

}  // namespace capstan::cli
