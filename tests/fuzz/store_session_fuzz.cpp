// SPDX-License-Identifier: Apache-2.0

// Several clients of a store, strangers and members, send arbitrary messages in any order. The
// store must refuse or answer them in bounded memory, give nothing to strangers, and keep its
// promises to members: what was put last is what is got.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/bootstrap/store/server_session.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace capstan;
using fuzz::require;

const Secret& secret() {
  static const Secret value = Secret::from_text("fuzz");
  return value;
}

class World {
 public:
  explicit World(bool any_scope) : scopes_(any_scope) {
    scopes_.open("a");
    for (auto& client : clients_) reset(client);
  }

  void step(fuzz::Source& source) {
    Client& client = clients_[source.byte() % std::size(clients_)];
    switch (source.byte() % 6) {
      case 0:
        return reset(client);
      case 1:
        return say(client, client.proofs->hello());
      case 2:
        return join(client, source);
      case 3:
        return anything(client, source);
      case 4:
        return request(client, source);
      default:
        if (client.session->waiting()) client.session->give_up(wire::FailureReason::timed_out);
        scopes_.all_complete();
        scopes_.all_finished();
    }
  }

 private:
  struct Client {
    std::unique_ptr<ServerSession> session;
    std::unique_ptr<handshake::Initiator> proofs;
    std::optional<wire::Challenge> challenge;
    std::string scope;
    bool ended = false;
  };

  void reset(Client& client) {
    client = {};
    client.session = std::make_unique<ServerSession>(scopes_, secret());
    client.proofs = std::make_unique<handshake::Initiator>();
  }

  void join(Client& client, fuzz::Source& source) {
    if (!client.challenge) return;
    const bool knows = source.byte() % 8 != 0, was_member = client.session->authenticated();
    const auto number = [&] {
      const std::uint8_t value = source.byte();
      return value < 0xf0 ? value % 5 - 1 : static_cast<std::int32_t>(~0u >> (value % 16));
    };
    client.scope = std::string(1, static_cast<char>('a' + source.byte() % 2));
    const std::int32_t rank = number(), size = number();
    const auto claim =
        client.proofs->claim(*client.challenge, wire::Membership{rank, size, client.scope},
                             knows ? secret() : Secret::from_text("guess"));
    say(client, claim);
    require(knows || was_member || !client.session->authenticated());
  }

  void anything(Client& client, fuzz::Source& source) {
    const std::uint16_t type = source.byte() % 14;
    try {
      say(client, wire::decode(type, source.bytes(source.byte())));
    } catch (const MalformedMessage&) {
    }
  }

  void request(Client& client, fuzz::Source& source) {
    const std::string key(1, static_cast<char>('k' + source.byte() % 3));
    switch (source.byte() % 3) {
      case 0: {
        const auto bytes = source.bytes(source.byte());
        const std::vector<std::byte> value(bytes.begin(), bytes.end());
        say(client, wire::Put{key, value});
        return;
      }
      case 1:
        say(client, wire::Get{key, source.byte()});
        return;
      default:
        say(client, wire::TryGet{key});
    }
  }

  void say(Client& client, const wire::StoreMessage& message) {
    if (client.ended) return;
    const bool member = client.session->authenticated();
    const auto reaction = client.session->on(message);
    if (!reaction.reply) {
      require(client.session->waiting());
      return;
    }
    if (const auto* challenge = std::get_if<wire::Challenge>(&*reaction.reply))
      client.challenge = *challenge;
    client.ended = std::holds_alternative<wire::Refusal>(*reaction.reply);
    require(member || !std::holds_alternative<wire::Value>(*reaction.reply));
    require(member || !reaction.stored);
    require(reaction.keys.has_value() == std::holds_alternative<wire::Welcome>(*reaction.reply));
    if (const auto* get = std::get_if<wire::TryGet>(&message); get && member)
      check(client.scope + get->key, *reaction.reply);
    if (!reaction.stored) return;
    const auto& put = std::get<wire::Put>(message);
    values_[client.scope + put.key] = put.value;
    answer_all();
  }

  /// A scope that all have left is forgotten, and its values with it.
  void check(const std::string& key, const wire::StoreMessage& reply) {
    if (const auto* value = std::get_if<wire::Value>(&reply)) require(value->value == values_[key]);
  }

  void answer_all() {
    for (auto& client : clients_) client.session->answer();
  }

  ScopeTable scopes_;
  Client clients_[5];
  std::map<std::string, std::vector<std::byte>> values_;
};

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const auto client = [](char id, const std::string& step) { return std::string(1, id) + step; };
  const std::string hello{"\x01"}, join{"\x02\x01\x00\x01\x03", 5}, put{"\x04\x00\x00\x02XY", 6};
  const std::string get{"\x04\x00\x01\x09", 4}, other{"\x02\x01\x00\x02\x03", 5};
  std::string first = client(0, hello) + client(0, join),
              second = client(1, hello) + client(1, other);
  return {std::string(1, '\0') + first + client(0, put) + client(0, get),
          std::string(1, '\1') + first + second + client(0, get) + client(1, put),
          std::string(1, '\1') + client(0, hello) +
              client(0, std::string{"\x02\x01\x00\xf1\xf1", 5}) + client(0, get) +
              client(0, "\x05")};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  World world{source.byte() % 2 == 0};
  while (!source.empty()) world.step(source);
  return 0;
}
