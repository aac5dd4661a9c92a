#include "tests/fuzz/mutate.hpp"

#include <algorithm>

#include "tests/fuzz/coverage.hpp"

namespace capstan::fuzz {
namespace {

std::size_t below(Random& random, std::size_t count) {
  return count == 0 ? 0 : random() % count;
}

void put_constant(std::string& input, Random& random) {
  static constexpr std::uint64_t limits[] = {
      0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff'ffff, 1 << 16, 0xffff'ffff, ~0ULL >> 1, ~0ULL};
  const auto& known = Coverage::constants;
  const std::uint64_t value = known.empty() || random() % 4 == 0
                                  ? limits[below(random, std::size(limits))]
                                  : known[below(random, known.size())];
  const std::size_t width = std::size_t{1} << below(random, 4);
  const std::size_t at = below(random, input.size() + 1);
  std::string bytes(reinterpret_cast<const char*>(&value), width);
  if (random() % 4 == 0) std::ranges::reverse(bytes);
  if (random() % 2 == 0)
    input.insert(at, bytes);
  else
    input.replace(at, std::min(width, input.size() - at), bytes);
}

void put_piece(std::string& input, const std::string& other, Random& random) {
  const std::size_t from = below(random, other.size());
  const std::size_t length = 1 + below(random, other.size() - std::min(from, other.size()));
  const std::string piece = other.substr(std::min(from, other.size()), length);
  const std::size_t at = below(random, input.size() + 1);
  if (random() % 2 == 0)
    input.insert(at, piece);
  else
    input.replace(at, std::min(piece.size(), input.size() - at), piece);
}

void change(std::string& input, const std::vector<std::string>& corpus, Random& random) {
  const std::size_t at = below(random, input.size());
  switch (random() % 8) {
    case 0:
      if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random() % 8));
      break;
    case 1:
      if (!input.empty()) input[at] = static_cast<char>(random());
      break;
    case 2:
      if (!input.empty()) input[at] = static_cast<char>(input[at] + (random() % 2 == 0 ? 1 : -1));
      break;
    case 3:
      input.insert(at, 1 + random() % 4, static_cast<char>(random()));
      break;
    case 4:
      input.erase(at, 1 + below(random, std::min<std::size_t>(input.size(), 16)));
      break;
    case 5:
      input.resize(at);
      break;
    case 6:
      put_constant(input, random);
      break;
    default:
      put_piece(input, corpus[below(random, corpus.size())], random);
  }
}

}  // namespace

std::string mutate(const std::vector<std::string>& corpus, std::size_t longest, Random& random) {
  std::string input = corpus[below(random, corpus.size())];
  const std::uint64_t changes = 1 + random() % 6;
  for (std::uint64_t i = 0; i < changes; ++i) change(input, corpus, random);
  input.resize(std::min(input.size(), longest));
  return input;
}

}  // namespace capstan::fuzz
