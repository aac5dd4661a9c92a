// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/job_documents.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "core/platform/net/text_of_file.hpp"
#include "perf/measure/report.hpp"

namespace capstan::cli {
namespace {

std::string head() {
  return fmt::format("{{\n\"format\": \"{}\",\n\"command\": \"perf jobs\",\n\"jobs\": [\n",
                     perf::results_format);
}

constexpr const char* tail = "]\n}\n";

void print(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);  // the job's own output follows
}

}  // namespace

JobDocuments::JobDocuments(const std::string& json, std::vector<std::string> arguments)
    : json_(json), arguments_(std::move(arguments)) {}

std::string JobDocuments::part(int number) const {
  return fmt::format("{}.{}", json_, number);
}

void JobDocuments::begin() {
  if (json_ == "-")
    print(begun_ == 0 ? head() : ",\n");
  else if (begun_ > 0)
    print("\n");
  ++begun_;
}

/// A job writes its part, whichever way the command named the file.
std::vector<std::string> JobDocuments::arguments() const {
  if (!has_file()) return arguments_;
  std::vector<std::string> own;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const std::string& word = arguments_[i];
    const bool file_follows =
        word == "--json" && i + 1 < arguments_.size() && arguments_[i + 1] == json_;
    if (file_follows) ++i;
    if (word != "--json" && !word.starts_with("--json=")) own.push_back(word);
  }
  own.push_back("--json=" + part(begun_));
  return own;
}

void JobDocuments::end() {
  if (json_ == "-") print(tail);
  if (!has_file()) return;
  std::string text = head();
  for (int number = 1; number <= begun_; ++number)
    text += (number > 1 ? ",\n" : "") + text_of_file(part(number));
  perf::write_document(json_, text + tail);
  for (int number = 1; number <= begun_; ++number) std::filesystem::remove(part(number));
}

}  // namespace capstan::cli
