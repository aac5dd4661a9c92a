// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/host_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace capstan::launcher {
namespace {

constexpr std::size_t header = 4;
constexpr std::size_t longest = 64 << 20;  // an environment and an argument list fit well

std::size_t length_in(std::string_view bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < header; ++i)
    length |= std::size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return length;
}

/// Walks over the items of CBOR without recursion, since parsers recurse: whoever sends a million
/// brackets must not get at the stack.
class Walk {
 public:
  explicit Walk(std::string_view body) : rest_(body) {}

  /// Whether the begin is one item as encode() makes them: of known length, without tags, and
  /// nested no deeper than any message is.
  bool is_plain() {
    do {
      if (!take_item()) return false;
      while (!left_.empty() && left_.back() == 0) left_.pop_back();
    } while (!left_.empty());
    return true;
  }

 private:
  static constexpr std::size_t deepest = 8;  // the orders that daemon.cpp reads have four levels
  enum Major : unsigned { bytes = 2, text = 3, array = 4, map = 5, tag = 6 };

  bool take_item() {
    if (rest_.empty()) return false;
    if (!left_.empty()) --left_.back();
    const auto head = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    const unsigned major = head >> 5;
    const auto argument = take_argument(head & 31u);
    if (!argument || major == tag) return false;
    if (major == array || major == map) return enter(major == map ? 2 * *argument : *argument);
    return (major != bytes && major != text) || skip(*argument);
  }

  /// Empty for what has no length, or lacks bytes.
  std::optional<std::uint64_t> take_argument(unsigned info) {
    if (info < 24) return info;
    const std::size_t size = info < 28 ? std::size_t{1} << (info - 24) : rest_.size() + 1;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size && i < rest_.size() && i < sizeof value; ++i)
      value = value << 8 | static_cast<unsigned char>(rest_[i]);
    if (!skip(size)) return std::nullopt;
    return value;
  }

  bool skip(std::uint64_t count) {
    if (count > rest_.size()) return false;
    rest_.remove_prefix(count);
    return true;
  }

  bool enter(std::uint64_t items) {
    left_.push_back(items);
    return left_.size() <= deepest;
  }

  std::string_view rest_;
  std::vector<std::uint64_t> left_;  ///< of the arrays and maps around
};

}  // namespace

std::string encode(const nlohmann::json& message) {
  const auto body = nlohmann::json::to_cbor(message);
  std::string frame;
  for (std::size_t i = 0; i < header; ++i)
    frame.push_back(static_cast<char>(body.size() >> (8 * i)));
  frame.append(body.begin(), body.end());
  return frame;
}

nlohmann::json binary(std::string_view bytes) {
  return nlohmann::json::binary({bytes.begin(), bytes.end()});
}

std::string_view bytes_of(const nlohmann::json& value) {
  const auto& bytes = value.get_binary();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void HostMessageReader::take_greeting() {
  const std::size_t known = std::min(buffer_.size(), greeting.size());
  if (std::string_view{buffer_}.substr(0, known) != greeting.substr(0, known))
    throw NotTheProtocol(buffer_.substr(0, buffer_.find('\n')));
  if (known < greeting.size()) return;
  buffer_.erase(0, known);
  expect_greeting_ = false;
}

std::optional<nlohmann::json> HostMessageReader::next() {
  if (expect_greeting_) take_greeting();
  if (expect_greeting_ || buffer_.size() < header) return std::nullopt;
  const std::size_t length = length_in(buffer_);
  if (length > longest) throw NotTheProtocol(fmt::format("a message of {} bytes", length));
  if (buffer_.size() < header + length) return std::nullopt;
  const std::string body = buffer_.substr(header, length);
  buffer_.erase(0, header + length);
  if (!Walk{body}.is_plain()) throw NotTheProtocol("a message that cannot be read");
  auto message = nlohmann::json::from_cbor(body, true, false);
  if (!message.is_object() || !message.contains("is"))
    throw NotTheProtocol("a message that cannot be read");
  return message;
}

}  // namespace capstan::launcher
