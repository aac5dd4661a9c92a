// One rank of a job, for tests of backends in processes: checks the contract of a backend.
//
//   mpirun -n 2 backends_worker BACKEND [KEY=VALUE...]

#include <gtest/gtest.h>

#include <iostream>

#include "capstan/backends/factory.hpp"
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

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  capstan::name = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string pair = argv[i];
    capstan::keys[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
  }
  return RUN_ALL_TESTS();
}
