// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes, cut into arbitrary pieces, to the reader of what `capstan run` and its
// daemons on other hosts say to each other. It must refuse them or make messages of them.

#include "core/tools/launcher/host_protocol.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace capstan;

std::vector<std::string> fuzz::seeds() {
  const auto frames =
      launcher::encode(
          {{"is", "output"}, {"rank", 3}, {"stream", 1}, {"bytes", launcher::binary("text")}}) +
      launcher::encode({{"is", "end"}, {"rank", 3}, {"pid", 4711}, {"status", 0}});
  return {std::string(1, '\x10') + frames,
          std::string(1, '\x11') + std::string{launcher::greeting} + frames};
}

/// The first byte says whether there is a greeting, and how large the pieces are.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  const std::uint8_t how = source.byte();
  launcher::HostMessageReader reader{(how & 1) != 0};
  try {
    while (!source.empty()) {
      reader.append(fuzz::text_of(source.bytes(1 + how / 2)));
      while (const auto message = reader.next()) {
        if (!message->contains("bytes")) continue;
        fuzz::require(launcher::bytes_of(message->at("bytes")).size() <= size);
      }
    }
  } catch (const launcher::NotTheProtocol&) {
  } catch (const nlohmann::json::exception&) {  // as those who read messages do
  }
  return 0;
}
