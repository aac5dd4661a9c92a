// One rank of the tests of buffers on devices among processes. Its first argument is its task.

#include <fmt/format.h>
#include <signal.h>

#include "tests/devices/cells.hpp"

namespace capstan {
namespace {

using Array = DeviceArray<float>;

bool all(const Array& array, float wanted) {
  const std::vector<float> values = array.values();
  return values == std::vector<float>(values.size(), wanted);
}

/// Sends in a ring, from device to device.
std::string messages(Communicator& world) {
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  for (const std::size_t n : {1, 1000, 400'000}) {
    const Array sent{std::vector<float>(n, static_cast<float>(world.rank()))};
    const Array got{std::vector<float>(n, -1)};
    world.exchange({Message::to(right, sent.span()), Message::from(left, got.span())});
    if (!all(got, static_cast<float>(left))) return fmt::format("message of {}", n);
  }
  return "";
}

/// Rank 1 kills itself between two calls. The call that fails then must leave no result.
std::string killed(Communicator& world, std::size_t count) {
  const Array input{std::vector<float>(count, 1)};
  for (int i = 0;; ++i) {
    const Array output{std::vector<float>(count, -1)}, message{std::vector<float>(count, -1)};
    if (world.rank() == 1 && i == 20) ::raise(SIGKILL);
    const Work receive = world.rank() == 1 ? Work{} : world.start_receive(message.span(), 1, 1 + i);
    try {
      world.all_reduce(input.span(), output.span());
      if (!all(output, static_cast<float>(world.size()))) return "wrong";
      if (world.rank() == 1)
        for (int peer = 0; peer < world.size(); ++peer)
          if (peer != 1) world.send(input.span(), peer, 1 + i);
      if (receive.valid()) receive.wait();
    } catch (const PeerLost& error) {
      const bool untouched = all(output, -1) || all(output, 3);
      if (!untouched || !all(message, -1)) return "written after the failure";
      fmt::print("PeerLost {}, untouched\n", error.lost().value());
      return "";
    }
  }
}

std::string run(const std::string& what, std::size_t count) {
  Communicator world = Communicator::from_environment();
  if (what == "collectives") return trouble_with_collectives(world);
  if (what == "messages") return messages(world);
  if (what == "killed") return killed(world, count);
  return "nothing is called " + what;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::load_driver();
  try {
    const std::string trouble =
        capstan::run(argc > 1 ? argv[1] : "", argc > 2 ? std::stoul(argv[2]) : 0);
    if (!trouble.empty()) fmt::print("trouble: {}\n", trouble);
    return trouble.empty() ? 0 : 1;
  } catch (const capstan::Error& error) {
    fmt::print("Error: {}\n", error.what());
    return 1;
  }
}
