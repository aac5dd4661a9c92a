// SPDX-License-Identifier: Apache-2.0

// Arbitrary bytes as messages of small fixed protocols: orders and answers of a comparison, and
// what ranks tell each other over verbs. They are refused, or every value fits where it goes.

#include <cstring>
#include <string>
#include <vector>

#include "perf/compare/protocol.hpp"
#include "tests/fuzz/fuzz.hpp"
#ifdef CAPSTAN_WITH_VERBS
#include "transports/verbs/control_message.hpp"
#endif

namespace {

using namespace capstan;
using fuzz::require;
using namespace perf::worker_protocol;

void order_of(std::span<const std::byte> bytes) {
  const auto order = decode<Order>(bytes);
  require(order.parts == 0 || order.parts - 1 < std::size(parts_of_all_reduce));
  require(!name_of(static_cast<Collective>(order.collective)).empty());
}

void answer_of(std::span<const std::byte> bytes) {
  const auto answer = decode<Answer>(bytes);
  require(answer.seconds >= 0 && std::strlen(answer.text) < sizeof answer.text);
}

void control_of(std::span<const std::byte> bytes) {
#ifdef CAPSTAN_WITH_VERBS
  constexpr std::uint64_t pieces = 8;
  using verbs::ControlMessage;
  const auto control = ControlMessage::decode(bytes, pieces);
  if (!control) return;
  const bool about_piece =
      control->kind == ControlMessage::Kind::ask || control->kind == ControlMessage::Kind::key;
  require(!about_piece || control->piece < pieces);
  require(control->kind >= ControlMessage::Kind::ready &&
          control->kind <= ControlMessage::Kind::goodbye);
#else
  static_cast<void>(bytes);
#endif
}

template <class Message>
std::string seed(char kind, const Message& message) {
  return kind + std::string{fuzz::text_of(std::as_bytes(std::span{&message, 1}))};
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> all{seed('\0', Order{.collective = 3, .parts = 2}),
                               seed('\1', Answer{})};
#ifdef CAPSTAN_WITH_VERBS
  all.push_back(seed('\2', verbs::ControlMessage{.kind = verbs::ControlMessage::Kind::key}));
#endif
  return all;
}

/// The first byte says of which protocol the rest is a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  const std::uint8_t protocol = source.byte() % 3;
  const std::vector<std::byte> bytes = [&] {
    const auto rest = source.rest();
    return std::vector<std::byte>(rest.begin(), rest.end());
  }();
  try {
    protocol == 0 ? order_of(bytes) : protocol == 1 ? answer_of(bytes) : control_of(bytes);
  } catch (const BootstrapError&) {  // what such bytes are meant to end in
  }
  return 0;
}
