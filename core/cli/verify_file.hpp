#pragma once

#include <string>

#include "capstan/quantity.hpp"

namespace capstan::cli {

/// Whether there is a file of this name, which is no collective's.
bool is_schedule_file(const std::string& word);

/// The text of a file of at most so many bytes. Throws InvalidArgument.
std::string text_of_file(const std::string& path, Bytes most = Bytes{std::uint64_t{4} << 30});

/// Proves the schedules of a file, and prints the result. Returns the exit status.
int verify_file(const std::string& path, bool json);

}  // namespace capstan::cli
