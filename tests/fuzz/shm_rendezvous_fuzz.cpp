// SPDX-License-Identifier: Apache-2.0

// Sends arbitrary messages, with and without descriptors, to a rank that waits for a peer on its
// host: as a stranger, and as somebody who knows the peer's token. It must not crash, must not take
// a peer for one that is not, and must leave no descriptor open.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "transports/shm/memfd.hpp"
#include "transports/shm/rendezvous.hpp"

namespace {

using namespace capstan;
using fuzz::require;
using namespace std::chrono_literals;

constexpr Bytes segment{4096};

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

/// A descriptor that somebody may hand over: the expected one, a segment that is too short or can
/// shrink, and no memory at all.
FileDescriptor some_descriptor(std::uint8_t kind) {
  if (kind % 4 == 0) return std::move(shm::Memfd::create(segment).fd);
  if (kind % 4 == 1) return std::move(shm::Memfd::create(Bytes{1}).fd);
  if (kind % 4 == 2) return FileDescriptor{::memfd_create("fuzz", MFD_CLOEXEC)};
  return FileDescriptor{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
}

/// Bytes of the source, in the place of parts of a proper introduction or of all of it.
std::vector<std::byte> some_message(fuzz::Source& source, const shm::ShmAddress& peer) {
  shm::Introduction proper{.rank = 1, .token = peer.token};
  const std::uint8_t how = source.byte();
  if (how & 1) proper.rank = static_cast<std::int8_t>(source.byte());
  if (how & 2) proper.token.back() ^= std::byte{source.byte()};
  if (how & 4) proper.format ^= source.byte();
  const auto* begin = reinterpret_cast<const std::byte*>(&proper);
  std::vector<std::byte> message(begin, begin + sizeof proper);
  if (how & 8) message.resize(source.byte() % (sizeof proper + 8));
  if (how & 16) std::ranges::copy(source.bytes(message.size()), message.begin());
  return message;
}

/// Several messages over one connection; then it is closed or stays.
void send_some(fuzz::Source& source, const shm::ShmAddress& peer, int socket) {
  const int count = source.byte() % 4;
  for (int i = 0; i < count; ++i) {
    const auto message = some_message(source, peer);
    std::vector<FileDescriptor> descriptors;
    std::vector<int> numbers;
    for (int k = source.byte() % 3; k > 0; --k) {
      descriptors.push_back(some_descriptor(source.byte()));
      numbers.push_back(descriptors.back().get());
    }
    if (!message.empty()) shm::send_message(socket, message, numbers);
  }
}

void meet(fuzz::Source& source) {
  const auto own = shm::ShmAddress::of_this_process(segment);
  const auto peer = shm::ShmAddress::of_this_process(segment);
  shm::UnixListener listener{own.socket(), 8};
  const shm::Memfd memory = shm::Memfd::create(segment);
  std::vector<FileDescriptor> guests;
  for (int i = 1 + source.byte() % 3; i > 0; --i) {
    auto connecting = shm::connect_to(own.socket());
    require(connecting.attempt == shm::Attempt::done);
    send_some(source, peer, connecting.socket.get());
    if (source.byte() % 2 == 0) guests.push_back(std::move(connecting.socket));
  }
  // Without pidfds: with them a rank that hangs up is given a second to be seen to die.
  shm::Rendezvous rendezvous{
      Rank{0}, {own, peer}, {memory.fd.get(), memory.fd.get(), true}, std::move(listener), false};
  const auto partners = rendezvous.run(Deadline::in(500us));
  require(partners.size() == 2);
  // Whoever gets so far has handed over memory that can be mapped.
  require(!shm::unsafe_to_map(partners[1].segment.get(), segment));
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  log().silence();  // every refusal is a warning
  using namespace std::string_literals;
  // One guest: how many messages; each: how it is made, how many descriptors, which; it stays.
  return {"\0\1\0\0\0\0"s, "\0\2\0\0\0\2\0\0\0\0"s, "\1\2\0\0\0\2\0\1\0\1\2\7\0\0\0"s};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  const auto before = open_descriptors();  // libFuzzer opens some itself between inputs
  try {
    meet(source);
  } catch (const BootstrapError&) {
  } catch (const SystemError&) {
  }
  require(open_descriptors() == before);
  return 0;
}
