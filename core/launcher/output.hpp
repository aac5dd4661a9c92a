#pragma once

#include <string>
#include <string_view>

namespace capstan::launcher {

/// Writes all bytes, however long that takes. False if nobody reads any more.
bool write_all(int out, std::string_view bytes);

/// Copies a rank's output to one of this process's own streams, line by line, so that lines of
/// different ranks never mix.
class LineForwarder {
 public:
  /// `prefix` goes before each line; `out` is a file descriptor of this process.
  LineForwarder(std::string prefix, int out) : prefix_(std::move(prefix)), out_(out) {}

  /// Writes the complete lines; keeps the rest for later. A line of more than 1 MiB is broken.
  void take(std::string_view text);
  /// Writes the rest, with a line end.
  void finish();
  /// Why bytes could not be written, as errno; 0 if all could.
  int error() const { return error_; }

 private:
  void write_line(std::string_view line);
  void flush();

  std::string prefix_;
  int out_;
  std::string partial_;
  std::string ready_;
  int error_ = 0;
};

}  // namespace capstan::launcher
