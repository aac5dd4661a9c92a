#pragma once

#include <random>
#include <string>
#include <vector>

namespace capstan::fuzz {

using Random = std::mt19937_64;

/// An input made from one of `corpus` by a few small changes: bits, bytes, insertions, deletions,
/// pieces of other inputs, constants that the code compares with. At most `longest` bytes.
std::string mutate(const std::vector<std::string>& corpus, std::size_t longest, Random& random);

}  // namespace capstan::fuzz
