#include "capstan/async/execute.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace capstan {
namespace {

std::string names_of_pending(std::span<const Work> works) {
  std::string names;
  for (const Work& work : works)
    if (!work.is_completed()) names += (names.empty() ? "" : ", ") + work.describe();
  return names;
}

void cancel_pending(std::span<const Work> works) {
  for (const Work& work : works) work.withdraw();
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an error of unknown type";
  }
}

}  // namespace

namespace detail {

void give_up(std::span<const Work> works) {
  const auto cause = std::current_exception();
  cancel_pending(works);
  throw OperationFailed("an operation could not be started: " + text_of(cause), cause);
}

}  // namespace detail

void finish_all(std::span<const Work> works, std::chrono::nanoseconds timeout,
                const std::stop_token& stop) {
  const Deadline deadline = Deadline::in(timeout);
  const auto failed = [](const Work& work) { return work.error() != nullptr; };
  std::vector<Work> pending(works.begin(), works.end());
  while (!pending.empty()) {
    // The driver of one operation moves on all operations of its rank.
    constexpr auto look_again = std::chrono::milliseconds{20};
    Work::wait_any(pending, Deadline::in(look_again).clamp(deadline));
    std::erase_if(pending, &Work::is_completed);
    const auto trouble = std::ranges::find_if(works, failed);
    const bool stopped = stop.stop_requested();
    if (trouble == works.end() && !stopped && (pending.empty() || !deadline.expired())) continue;

    const std::string names = names_of_pending(works);
    cancel_pending(works);
    if (trouble != works.end())
      throw OperationFailed(
          fmt::format("{} failed: {}", trouble->describe(), text_of(trouble->error())),
          trouble->error());
    if (stopped && !names.empty())
      throw Cancelled(fmt::format("a stop was requested during {}", names));
    if (!names.empty())
      throw DeadlineExceeded(
          fmt::format("{} did not complete within {}", names, deadline.budget()));
  }
  for (const Work& work : works) work.wait();  // throws Cancelled if somebody else cancelled it
}

}  // namespace capstan
