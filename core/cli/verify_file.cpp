#include "core/cli/verify_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "capstan/error.hpp"
#include "core/interchange/formats.hpp"
#include "core/interchange/prove_set.hpp"

namespace capstan::cli {

bool is_schedule_file(const std::string& word) {
  std::error_code ignored;
  return word != "all" && !collective_named(word) && std::filesystem::exists(word, ignored);
}

std::string text_of_file(const std::string& path, Bytes most) {
  std::error_code ignored;  // opening the file says what is wrong
  if (std::filesystem::is_directory(path, ignored))
    throw InvalidArgument(fmt::format("{} cannot be read: it is a folder; name a file", path));
  errno = 0;
  std::ifstream file{path};
  if (!file.is_open())
    throw InvalidArgument(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  std::string text;
  std::vector<char> part(std::size_t{1} << 16);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())), file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > most.value())
      throw InvalidArgument(
          fmt::format("{} is longer than {} MiB: it is no such file; name another one", path,
                      most.value() >> 20));
  }
  return text;
}

int verify_file(const std::string& path, bool json) {
  const ScheduleSet set = schedule_set_from_json(text_of_file(path), path);
  const AlgorithmProof proof = prove_set(set);
  if (json) {
    fmt::print("{}\n", nlohmann::json{{"file", path},
                                      {"collective", name_of(set.collective)},
                                      {"algorithm", set.algorithm},
                                      {"ranks", set.schedules.size()},
                                      {"proofs", proof.proofs},
                                      {"ok", proof.ok()},
                                      {"findings", proof.texts()}}
                           .dump(2));
    return proof.ok() ? 0 : 1;
  }
  fmt::print("{}: {}: {}, {} proofs\n", path, title_of(set), proof.ok() ? "proven" : "REFUSED",
             proof.proofs);
  for (const std::string& finding : proof.texts()) fmt::print("    {}\n", finding);
  return proof.ok() ? 0 : 1;
}

}  // namespace capstan::cli
