#include "transports/tcp/handshake.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "capstan/error.hpp"

namespace capstan::tcp {
namespace {

static_assert(crypto_auth_BYTES == sizeof(Digest) && crypto_auth_KEYBYTES == sizeof(Digest));

void start_sodium() {
  static const int status = sodium_init();
  if (status < 0) {
    throw SystemError("libsodium cannot start: the system's random source (getrandom) fails");
  }
}

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

/// Two tokens, in a fixed order, to one key.
class Key {
 public:
  Key(const Token& opener, const Token& acceptor) {
    std::array<unsigned char, 2 * sizeof(Token)> both;
    std::memcpy(both.data(), opener.data(), sizeof(Token));
    std::memcpy(both.data() + sizeof(Token), acceptor.data(), sizeof(Token));
    constexpr std::string_view purpose = "capstan tcp handshake v1";
    crypto_generichash(bytes_.data(), bytes_.size(), both.data(), both.size(),
                       reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size());
    sodium_memzero(both.data(), both.size());
  }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  ~Key() { sodium_memzero(bytes_.data(), bytes_.size()); }

  const unsigned char* data() const { return bytes_.data(); }

 private:
  std::array<unsigned char, crypto_auth_KEYBYTES> bytes_;
};

/// 0: there is no such message.
std::size_t size_of(std::uint16_t type) {
  switch (type) {
    case Hello::type:
      return sizeof(Hello);
    case Reply::type:
      return sizeof(Reply);
    case Proof::type:
      return sizeof(Proof);
    case Welcome::type:
      return sizeof(Welcome);
    case Refusal::type:
      return sizeof(Refusal);
    default:
      return 0;
  }
}

template <class T>
T read_as(const std::byte* bytes) {
  T message;
  std::memcpy(&message, bytes, sizeof(message));
  return message;
}

Refusal read_refusal(const std::byte* bytes) {
  const auto refusal = read_as<Refusal>(bytes);
  if (refusal.reason > Reason::crossed) throw Malformed("it refuses for an unknown reason");
  return refusal;
}

}  // namespace

std::string describe(const Refusal& refusal) {
  switch (refusal.reason) {
    case Reason::malformed:
      return "it does not understand this rank";
    case Reason::other_version:
      return "it speaks another version of the protocol: use the same release of Capstan on all "
             "ranks";
    case Reason::wrong_rank:
      return "it is another rank, or of another job";
    case Reason::wrong_segment:
      return fmt::format("its segment has {} bytes: give all ranks the same size", refusal.detail);
    case Reason::wrong_token:
      return "it does not accept this rank's token";
    case Reason::crossed:
      return "it has another connection to this rank";
  }
  return "it gives no reason";
}

Prefix MessageReader::prefix() const {
  return read_as<Prefix>(buffer_.data());
}

void MessageReader::commit(std::size_t count) {
  filled_ += count;
  if (filled_ < sizeof(Prefix) || wanted_ > sizeof(Prefix)) return;
  const Prefix start = prefix();
  if (start.magic != Prefix::capstan_tcp) throw Malformed("it does not speak Capstan's protocol");
  if (start.version != Prefix::current_version) {
    other_version_ = true;
    throw Malformed(fmt::format("it speaks version {} of the protocol, this rank version {}",
                                start.version, Prefix::current_version));
  }
  wanted_ = size_of(start.type);
  if (wanted_ == 0) {
    wanted_ = sizeof(Prefix);
    throw Malformed(fmt::format("it sends an unknown message (type {})", start.type));
  }
}

std::optional<Message> MessageReader::take() {
  if (filled_ < wanted_ || filled_ < sizeof(Prefix)) return std::nullopt;
  const std::uint16_t type = prefix().type;
  filled_ = 0;
  wanted_ = sizeof(Prefix);
  switch (type) {
    case Hello::type:
      return read_as<Hello>(buffer_.data());
    case Reply::type:
      return read_as<Reply>(buffer_.data());
    case Proof::type:
      return read_as<Proof>(buffer_.data());
    case Welcome::type:
      return read_as<Welcome>(buffer_.data());
    default:
      return read_refusal(buffer_.data());
  }
}

Digest prove(Speaker speaker, const Token& opener, const Token& acceptor, const Hello& hello,
             const Nonce& acceptor_nonce) {
  start_sodium();
  std::array<std::byte, 1 + sizeof(Hello) + sizeof(Nonce)> transcript;
  transcript[0] = static_cast<std::byte>(speaker);
  std::memcpy(transcript.data() + 1, &hello, sizeof(hello));
  std::memcpy(transcript.data() + 1 + sizeof(hello), acceptor_nonce.data(), sizeof(Nonce));
  const Key key{opener, acceptor};
  Digest proof;
  crypto_auth(reinterpret_cast<unsigned char*>(proof.data()), raw(transcript.data()),
              transcript.size(), key.data());
  return proof;
}

bool same(const Digest& a, const Digest& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace capstan::tcp
