// SPDX-License-Identifier: Apache-2.0

// An attacker's script against a job that runs: he has recorded its start-up, replays it, claims to
// be a rank, injects frames, sends what no program sends, and floods. He is refused and logged, and
// the ranks get right results meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "capstan/communicator.hpp"
#include "core/bootstrap/store/wire.hpp"
#include "core/bootstrap/unique_id.hpp"
#include "tests/conformance/captured_output.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/relay.hpp"
#include "transports/tcp/frame.hpp"
#include "transports/tcp/handshake.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Bytes = std::vector<std::byte>;

constexpr int ranks = 3;

Deadline patience() {
  return Deadline::in(100s);
}

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text.data(), text.size()});
  return {bytes.begin(), bytes.end()};
}

/// The TCP ports at which this process listens.
std::set<std::uint16_t> listening_ports() {
  namespace fs = std::filesystem;
  std::set<std::string> own;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator{"/proc/self/fd"})
    own.insert(fs::read_symlink(entry.path(), gone).string());
  std::set<std::uint16_t> ports;
  std::ifstream table{"/proc/self/net/tcp"};
  std::string line;
  for (std::getline(table, line); std::getline(table, line);) {
    std::istringstream words{line};
    const std::vector<std::string> fields{std::istream_iterator<std::string>{words}, {}};
    if (fields.size() < 10 || fields[3] != "0A" || !own.contains("socket:[" + fields[9] + "]"))
      continue;
    ports.insert(static_cast<std::uint16_t>(
        std::stoul(fields[1].substr(fields[1].find(':') + 1), nullptr, 16)));
  }
  return ports;
}

/// A connection of the attacker.
class Attempt {
 public:
  explicit Attempt(std::uint16_t port)
      : socket_(connect_to(resolve(TcpEndpoint{"127.0.0.1", port}).front(), patience()).socket) {}

  Attempt& say(std::span<const std::byte> bytes) {
    if (socket_.valid()) send_some(socket_, bytes);
    return *this;
  }
  Attempt& say(const tcp::HandshakeMessage& message) { return say(tcp::encode(message)); }
  /// The next message; nothing if there is none.
  std::optional<tcp::HandshakeMessage> hear() {
    tcp::HandshakeReader reader{handshake::max_answer};
    while (socket_.valid() && wait_for(socket_, POLLIN, patience())) {
      const ssize_t got = receive_some(socket_, reader.space());
      if (got <= 0) return std::nullopt;
      try {
        reader.commit(static_cast<std::size_t>(got));
        if (auto message = reader.take()) return message;
      } catch (const MalformedMessage&) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }
  /// Whether the other end hangs up, without a Welcome before.
  bool is_refused() {
    while (true) {
      const auto message = hear();
      if (!message) return true;
      if (std::holds_alternative<tcp::Welcome>(*message)) return false;
    }
  }

 private:
  FileDescriptor socket_;
};

Bytes frame(std::uint64_t offset, std::uint64_t length, std::size_t payload) {
  const tcp::FrameHeader header{offset, length};
  Bytes bytes(sizeof header + payload, std::byte{0x5a});
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

/// An attacker of one port.
class Attacker {
 public:
  Attacker(std::uint16_t port, std::vector<std::string> recorded, std::string overheard)
      : port_(port), recorded_(std::move(recorded)), overheard_(std::move(overheard)) {}

  void run() {
    replay();
    claim_to_be_ranks();
    inject();
    send_nonsense();
    flood();
  }

 private:
  void replay() {
    for (const std::string& conversation : recorded_) {
      EXPECT_TRUE(Attempt{port_}.say(bytes_of(conversation)).is_refused());
    }
  }

  void claim_to_be_ranks() {
    const JobKey guesses[] = {JobKey{Secret::from_text(""), Nonce{}},
                              JobKey{Secret::from_text(overheard_), Nonce{}}, JobKey::random()};
    for (const JobKey& guess : guesses)
      for (int from = 0; from < ranks; ++from)
        for (int to = 0; to < ranks; ++to) {
          const auto secret = tcp::secret_of(guess, {from, {}}, {to, {}});
          handshake::Initiator proofs;
          Attempt attempt{port_};
          attempt.say(proofs.hello());
          const auto answer = attempt.hear();
          const auto* challenge = answer ? std::get_if<tcp::Challenge>(&*answer) : nullptr;
          if (!challenge) continue;
          attempt.say(proofs.claim(
              *challenge, tcp::Identity{.segment = 4096, .from = from, .to = to, .ranks = ranks},
              secret));
          EXPECT_TRUE(attempt.say(frame(0, 8, 8)).is_refused()) << from << " to " << to;
        }
    Attempt reflected{port_};
    reflected.say(tcp::Hello{});
    if (const auto answer = reflected.hear()) {
      EXPECT_TRUE(reflected.say(*answer).is_refused()) << "his own challenge sent back";
    }
  }

  /// Data without a proof, and behind a greeting.
  void inject() {
    for (const Bytes& data : {frame(0, 8, 8), frame(0, 1 << 20, 4096), frame(~0ull, 0, 0)}) {
      EXPECT_TRUE(Attempt{port_}.say(data).is_refused());
      EXPECT_TRUE(Attempt{port_}.say(tcp::Hello{}).say(data).is_refused());
    }
  }

  void send_nonsense() {
    std::uint32_t random = 1;
    for (int i = 0; i < 100; ++i) {
      Bytes bytes(1 + static_cast<std::size_t>(i) * 13 % 1500);
      for (std::byte& b : bytes)
        b = static_cast<std::byte>((random = random * 1'664'525U + 1'013'904'223U) >> 24);
      const Bytes hello = tcp::encode(tcp::Hello{});
      for (std::size_t at = 0; i % 2 == 0 && at < std::min(bytes.size(), hello.size()); ++at)
        bytes[at] = at % 17 == static_cast<std::size_t>(i) % 17 ? bytes[at] : hello[at];
      Attempt attempt{port_};
      attempt.say(bytes);
      if (bytes.size() > 200) {
        EXPECT_TRUE(attempt.is_refused());
      }
    }
  }

  void flood() {
    std::vector<Attempt> silent;
    for (int i = 0; i < 150; ++i) silent.emplace_back(port_);
    for (int i = 0; i < 150; i += 3) silent[static_cast<std::size_t>(i)].say(tcp::Hello{});
  }

  std::uint16_t port_;
  std::vector<std::string> recorded_;
  std::string overheard_;
};

/// Calls until `stop`, which all ranks see alike; every result is compared.
void work(Communicator& world, const std::atomic<bool>& stop, std::atomic<int>& calls) {
  std::vector<std::int64_t> data(5000), sum(data.size());
  for (std::int64_t call = 1;; ++call) {
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = call * 1000 + static_cast<std::int64_t>(i) * (world.rank() + 1);
    world.all_reduce(data, sum);
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_EQ(sum[i], ranks * call * 1000 + static_cast<std::int64_t>(i) * (1 + 2 + 3));
    std::vector<std::int32_t> end{world.rank() == 0 && stop};
    world.broadcast(end, 0);
    if (world.rank() == 0) ++calls;
    if (end[0] != 0) return;
  }
}

class Attack : public testing::TestWithParam<Wire> {};

INSTANTIATE_TEST_SUITE_P(Wires, Attack,
                         testing::Values(Wire::plain, Wire::authenticated, Wire::encrypted),
                         [](const auto& test) { return std::string{name_of(test.param)}; });

/// Two ranks on two hosts join with these settings. What each of them throws.
std::vector<std::string> join_with(const Settings& first, const Settings& second) {
  const UniqueId id = create_unique_id("127.0.0.1");
  std::vector<std::string> errors(2);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Communicator world = Communicator::join(id, rank, 2, rank == 0 ? first : second);
        std::vector<int> data{rank};
        world.all_reduce(data);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  threads.clear();
  return errors;
}

Settings on_two_hosts(Network network, Wire wire) {
  Settings settings = bounded_settings();
  settings.virtual_hosts = 2;
  settings.interface = "127.0.0.1";
  settings.network = network;
  settings.wire = wire;
  return settings;
}

TEST(Wires, RanksThatDisagreeAreToldSo) {
  const auto errors = join_with(on_two_hosts(Network::tcp, Wire::plain),
                                on_two_hosts(Network::tcp, Wire::encrypted));
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("plain wire"), HasSubstr("encrypted wire"),
                             HasSubstr("give all ranks the same CAPSTAN_CHUNK")));
}

TEST(Wires, OnlyTcpCanSeal) {
  for (const auto& [network, name] : {std::pair{Network::ofi, "ofi"}, {Network::verbs, "verbs"}}) {
    const Settings settings = on_two_hosts(network, Wire::authenticated);
    for (const std::string& error : join_with(settings, settings))
      EXPECT_THAT(error, AllOf(HasSubstr("authenticated over tcp only, not over "), HasSubstr(name),
                               HasSubstr("CAPSTAN_NETWORK=tcp"), HasSubstr("CAPSTAN_WIRE=plain")));
  }
  const Settings automatic = on_two_hosts(Network::automatic, Wire::encrypted);
  for (const std::string& error : join_with(automatic, automatic))
    EXPECT_THAT(error, testing::IsEmpty());
}

TEST_P(Attack, IsRefusedAndLoggedWhileTheRanksGetRightResults) {
  const conformance::CapturedOutput output;
  Settings settings = bounded_settings();
  settings.virtual_hosts = ranks;
  settings.network = Network::tcp;
  settings.interface = "127.0.0.1";
  settings.wire = GetParam();
  settings.progress_thread = true;

  const std::set<std::uint16_t> before = listening_ports();
  const UniqueId id = create_unique_id("127.0.0.1");
  UniqueIdContent content = unseal(id);
  const Relay relay{content.endpoint};  // the attacker is between the ranks and their store
  content.endpoint = std::get<TcpEndpoint>(relay.endpoint());
  const UniqueId through_him = seal(content);

  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Communicator world = Communicator::join(rank == 0 ? id : through_him, rank, ranks, settings);
      work(world, stop, calls);
    });
  const Deadline deadline = patience();
  while (calls < 20 && !deadline.expired()) std::this_thread::sleep_for(1ms);
  ASSERT_GE(calls, 20);

  // He has heard the start-up of ranks 1 and 2, and found nothing in it.
  const std::string heard = relay.record();
  const auto& secret = content.secret.bytes();
  EXPECT_THAT(heard, HasSubstr("CPST"));
  EXPECT_THAT(heard, Not(HasSubstr("captcp0"))) << "an address";
  EXPECT_THAT(heard, Not(HasSubstr("address/")));
  EXPECT_EQ(heard.find(std::string{reinterpret_cast<const char*>(secret.data()), secret.size()}),
            heard.npos);

  std::set<std::uint16_t> ports = listening_ports();
  const auto ours = [&](std::uint16_t port) {
    return before.contains(port) || port == content.endpoint.port;
  };
  std::erase_if(ports, ours);
  ASSERT_GE(ports.size(), 3u) << "the ranks' own";
  for (const std::uint16_t port : ports) Attacker{port, relay.records(Relay::forth), heard}.run();
  const int attacked = calls;
  while (calls < attacked + 20 && !deadline.expired()) std::this_thread::sleep_for(1ms);
  EXPECT_GE(calls, attacked + 20) << "the ranks go on";
  stop = true;
  threads.clear();
  EXPECT_THAT(output.text(), AllOf(HasSubstr("refused a connection with 127.0.0.1:"),
                                   HasSubstr("lacks the secret")));
  EXPECT_LE(std::ranges::count(output.text(), '\n'), 400) << "he must not fill the log";
}

}  // namespace
}  // namespace capstan
