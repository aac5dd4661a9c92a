#include "core/launcher/host_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  auto message = nlohmann::json::from_cbor(body, true, false);
  if (!message.is_object() || !message.contains("is"))
    throw NotTheProtocol("a message that cannot be read");
  return message;
}

}  // namespace capstan::launcher
