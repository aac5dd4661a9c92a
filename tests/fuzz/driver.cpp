// Runs a fuzz target: NAME_fuzz [--seconds N] [--seed S] [--input HEX]
//
// Inputs are derived from seeds and from each other; one that reaches new code joins them. They run
// in a child process, so that whatever becomes of it the input that did it is known: it is printed
// with the line that runs it again. The same seed makes the same inputs in the same order.

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/fuzz/coverage.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/mutate.hpp"

namespace capstan::fuzz {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t longest_input = 2048;
constexpr auto longest_run = 30s;  // of one input: what takes longer hangs

/// What the child does at this moment.
struct Progress {
  std::atomic<std::uint64_t> runs{0}, kept{0};
  std::size_t size = 0;
  char input[longest_input]{};
};

struct Options {
  double seconds = 1;
  std::uint64_t seed = 1;
  std::string input;  // hexadecimal
};

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (; text.size() >= 2; text.remove_prefix(2))
    bytes.push_back(static_cast<char>(std::stoi(std::string{text.substr(0, 2)}, nullptr, 16)));
  return bytes;
}

void run_input(const std::string& input) {
  // A copy of its own size, so that a read beyond its end is seen.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void note(Progress& progress, const std::string& input) {
  progress.size = std::min(input.size(), longest_input);
  std::memcpy(progress.input, input.data(), progress.size);
  progress.runs.fetch_add(1);
}

void run_inputs(const Options& options, Progress& progress) {
  std::vector<std::string> corpus = seeds();
  corpus.emplace_back();
  for (const std::string& input : corpus) note(progress, input), run_input(input);
  Random random{options.seed};
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  while (Clock::now() < end) {
    std::string input = mutate(corpus, longest_input, random);
    note(progress, input);
    Coverage::reached_new_code = false;
    run_input(input);
    if (!Coverage::reached_new_code) continue;
    corpus.push_back(std::move(input));
    progress.kept.fetch_add(1);
  }
}

/// The child's wait status; it is killed when an input takes too long.
int await(pid_t child, const Progress& progress) {
  std::uint64_t seen = 0;
  auto since = Clock::now();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(10ms);
    if (const auto runs = progress.runs.load(); runs != seen) seen = runs, since = Clock::now();
    if (Clock::now() - since > longest_run) ::kill(child, SIGKILL);
  }
  return status;
}

int search(const Options& options, const char* program) {
  void* memory =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  auto& progress = *new (memory) Progress;
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    run_inputs(options, progress);
    std::exit(0);
  }
  const int status = await(child, progress);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    fmt::print("{} inputs, of which {} reached new code; seed {}\n", progress.runs.load(),
               progress.kept.load(), options.seed);
    return 0;
  }
  const std::string hex = to_hex({progress.input, progress.size});
  fmt::print("fails with input {} of seed {}:\n{}\nonce more: {} --input {}\n",
             progress.runs.load(), options.seed, hex, program, hex.empty() ? "''" : hex);
  return 1;
}

}  // namespace
}  // namespace capstan::fuzz

int main(int argc, char** argv) {
  capstan::fuzz::Options options;
  bool one = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name{argv[i]};
    if (name == "--seconds") options.seconds = std::stod(argv[i + 1]);
    if (name == "--seed") options.seed = std::stoull(argv[i + 1]);
    if (name == "--input") options.input = argv[i + 1], one = true;
  }
  if (!one) return capstan::fuzz::search(options, argv[0]);
  capstan::fuzz::run_input(capstan::fuzz::from_hex(options.input));
  return 0;
}
