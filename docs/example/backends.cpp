// SPDX-License-Identifier: Apache-2.0

// Adds 1 + 2 + ... over all ranks by whatever backend is there: docs/backends.md.
//
//   capstan run -n 2 -- ./backends [NAME]

#include <capstan/backends/factory.hpp>
#include <cstdio>
#include <exception>

int main(int argc, char** argv) try {
  const auto world = capstan::create_backend(argc > 1 ? argv[1] : "auto");
  auto sum = capstan::Tensor::of({static_cast<float>(world->rank() + 1)});
  world->all_reduce(sum.view());
  std::printf("rank %d of %d: the sum is %.0f\n", world->rank(), world->world_size(),
              sum.elements<float>()[0]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
