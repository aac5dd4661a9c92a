// SPDX-License-Identifier: Apache-2.0

// One rank of a job, for tests of backends in processes: checks the contract of a backend.
//
//   mpirun -n 2 backends_worker BACKEND [KEY=VALUE...]
//   backends_worker --availability BACKEND

#include <gtest/gtest.h>

#include <iostream>

#include "capstan/backends/factory.hpp"
#include "capstan/backends/mpi.hpp"
#include "tests/backends/contract.hpp"

namespace capstan {
namespace {

std::string name;
std::map<std::string, std::string> keys{{"timeout", "60"}};

TEST(Worker, TheContractHolds) {
  const auto backend = create_backend(name, BackendConfig::from_keys(keys));
  ASSERT_EQ(backend->name(), name);
  check_contract(*backend);
  backend->close();
  backend->close();
  EXPECT_FALSE(backend->is_initialized());
}

void print_availability() {
  const auto& registry = BackendRegistry::instance();
  const Availability found = registry.availability(name);
  if (found.available)
    std::cout << name << " is available by " << mpi_state().library << ", initialised "
              << mpi_state().initialised << "\n";
  else
    std::cout << name << " is not available: " << found.reason << "\n";
  try {
    if (!found.available) (void)registry.create(name);
  } catch (const NotSupported& error) {
    std::cout << "create: " << error.what() << "\n";
  }
  std::cout << "auto gives " << registry.create("auto")->name() << "\n";
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  capstan::name = argv[argc > 2 && argv[1] == std::string_view{"--availability"} ? 2 : 1];
  if (capstan::name != argv[1]) return capstan::print_availability(), 0;
  for (int i = 2; i < argc; ++i) {
    const std::string pair = argv[i];
    capstan::keys[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
  }
  return RUN_ALL_TESTS();
}
