// SPDX-License-Identifier: Apache-2.0

// A store of the program, in which ranks meet.

#include "capstan/store.hpp"

#include "bindings/c/handles.hpp"
#include "bindings/c/settings.hpp"

struct capstan_store_value {
  static constexpr std::uint64_t kind = 0x6361'7073'7461'6e04;
  static constexpr const char* name = "value";

  capstan::c::Mark mark{kind};
  std::optional<std::vector<std::byte>> content;
};

namespace capstan::c {
namespace {

/// Seconds for "never" where the interface of C has a number.
constexpr double for_ever = 1e9;

class CallbackStore final : public Store {
 public:
  explicit CallbackStore(const capstan_store* store) : store_(versioned(store, "capstan_store")) {
    if (!store_.put || !store_.get || !store_.try_get)
      refuse("capstan_store: put, get and try_get must not be null");
  }

  void put(std::string_view key, std::span<const std::byte> value) override {
    check("put", store_.put(store_.context, std::string{key}.c_str(), value.data(), value.size()));
  }
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override {
    capstan_store_value value;
    const double seconds = deadline.is_never()
                               ? for_ever
                               : std::chrono::duration<double>(deadline.remaining()).count();
    check("get", store_.get(store_.context, std::string{key}.c_str(), seconds, &value));
    if (!value.content)
      throw BootstrapError("capstan_store.get returned CAPSTAN_OK without a capstan_answer()");
    return std::move(*value.content);
  }
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override {
    capstan_store_value value;
    check("try_get", store_.try_get(store_.context, std::string{key}.c_str(), &value));
    return std::move(value.content);
  }

 private:
  static void check(const char* function, capstan_status status) {
    if (status == CAPSTAN_OK) return;
    const std::string text = fmt::format("capstan_store.{} returned {} ({})", function, status,
                                         capstan_status_name(status));
    if (status == CAPSTAN_TIMED_OUT) throw TimedOut(text);
    throw BootstrapError(text);
  }

  const capstan_store store_;
};

}  // namespace
}  // namespace capstan::c

using namespace capstan::c;

capstan_status capstan_answer(capstan_store_value* value, const void* data, size_t bytes) {
  return guarded([&] {
    auto& content = of(value).content.emplace();
    if (bytes == 0) return;
    const auto* const first = &required(static_cast<const std::byte*>(data), "data");
    content.assign(first, first + bytes);
  });
}

capstan_status capstan_join_store(const capstan_store* store, int32_t rank, int32_t size,
                                  const char* prefix, const capstan_settings* settings,
                                  capstan_communicator** communicator) {
  return guarded([&] {
    capstan_communicator*& given = required(communicator, "communicator");
    given = new capstan_communicator(
        capstan::Communicator::join(std::make_shared<CallbackStore>(store), rank, size,
                                    to_settings(settings), prefix ? prefix : "capstan"));
  });
}
