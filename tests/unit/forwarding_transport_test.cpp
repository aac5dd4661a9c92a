// SPDX-License-Identifier: Apache-2.0

// Each virtual function of Transport reaches the transport that is wrapped, with its arguments, and
// its result comes back. transport.hpp itself says which functions there are.

#include "transports/compose/forwarding_transport.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

// --- What calls hand over ---

std::byte memory[64];
std::atomic<std::uint32_t> doorbell{1};  // rung
const Link link_to_peer{.segment = memory, .doorbell = &doorbell};
const std::string inner_name = "the inner one";
const std::shared_ptr<RemoteRead> under_way = std::make_shared<RemoteRead>(Rank{1}, Bytes{8});

struct Exposed final : ExposedMemory {
  std::uint64_t address() const override { return 77; }
  std::uint64_t key() const override { return 78; }
  void revoke() override {}
};

std::string text(Rank rank) {
  return fmt::format("rank {}", rank.value());
}
std::string text(Bytes size) {
  return fmt::format("{} bytes", size.value());
}
std::string text(std::uint64_t number) {
  return fmt::format("{}", number);
}
std::string text(const void* pointer) {
  return fmt::format("memory + {}", static_cast<const std::byte*>(pointer) - memory);
}
std::string text(std::span<const std::byte> part) {
  return fmt::format("{} of {}", text(part.data()), part.size());
}
std::string text(std::span<const Address> addresses) {
  return fmt::format("{} addresses", addresses.size());
}
std::string text(const Deadline& deadline) {
  return deadline.budget();
}
std::string text(std::chrono::nanoseconds time) {
  return fmt::format("{} ns", time.count());
}
std::string text(MemoryKind kind) {
  return kind == MemoryKind::device ? "device" : "host";
}
std::string text(const Link& link) {
  return &link == &link_to_peer ? "the link" : "another link";
}

/// Writes down its calls. Its results differ from the defaults of Transport.
class Recorder final : public Transport {
 public:
  explicit Recorder(std::vector<std::string>& calls) : calls_(calls) {}

  std::string_view name() const override { return note("name"), inner_name; }
  Address address() const override { return note("address"), Address{std::byte{5}}; }
  void connect(std::span<const Address> addresses, Deadline deadline) override {
    note("connect", addresses, deadline);
  }
  std::span<std::byte> segment() override { return note("segment"), memory; }
  const Link& link(Rank peer) const override { return note("link", peer), link_to_peer; }

  void push(Rank peer, Bytes offset, Bytes length) override { note("push", peer, offset, length); }
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override {
    note("push_from", peer, offset, from, length);
  }
  void announce_sources(std::span<const std::byte> input,
                        std::span<const std::byte> output) override {
    note("announce_sources", input, output);
  }
  bool pushed(Rank peer) const override { return note("pushed", peer), false; }
  void detach_sources(Rank peer) override { note("detach_sources", peer); }
  void progress() override { note("progress"); }

  bool read_remote(Rank peer, std::uint64_t address, void* to, Bytes size) override {
    return note("read_remote", peer, address, to, size), true;
  }
  bool write_remote(Rank peer, std::uint64_t address, const void* from, Bytes size) override {
    return note("write_remote", peer, address, from, size), true;
  }
  std::unique_ptr<ExposedMemory> expose(Rank peer, const void* data, Bytes size,
                                        MemoryKind kind) override {
    return note("expose", peer, data, size, kind), std::make_unique<Exposed>();
  }
  bool reaches_devices() override { return note("reaches_devices"), true; }
  std::shared_ptr<RemoteRead> start_read(Rank peer, std::uint64_t address, std::uint64_t key,
                                         void* to, Bytes size, MemoryKind kind) override {
    return note("start_read", peer, address, key, to, size, kind), under_way;
  }
  void end_reads(Rank peer) override { note("end_reads", peer); }
  bool shares_addresses() const override { return note("shares_addresses"), true; }

  int descriptor() const override { return note("descriptor"), 7; }
  void prepare_to_sleep() override { note("prepare_to_sleep"); }
  void sleep(std::chrono::nanoseconds at_most) override { note("sleep", at_most); }
  void cancel_sleep() override { note("cancel_sleep"); }

  bool watch(Rank peer) override { return note("watch", peer), false; }
  std::optional<std::string> departed(Rank peer) override { return note("departed", peer), "gone"; }
  void end_soon() override { note("end_soon"); }

 protected:
  void ring(const Link& link) override { note("ring", link); }

 private:
  template <class... Arguments>
  void note(std::string_view function, const Arguments&... arguments) const {
    const std::vector<std::string> all{text(arguments)...};
    calls_.push_back(fmt::format("{}({})", function, fmt::join(all, ", ")));
  }

  std::vector<std::string>& calls_;
};

// --- The calls ---

struct Case {
  std::string noted;                        // by the inner transport
  std::function<bool(Transport&)> as_told;  // calls, and says whether the inner one's result came
};

template <class Function>
Case without_result(std::string noted, Function call) {
  return {std::move(noted), [call](Transport& to) { return call(to), true; }};
}

const std::vector<Case>& set_up_and_data() {
  static const std::vector<Case> cases = {
      {"name()", [](auto& to) { return to.name() == inner_name; }},
      {"address()", [](auto& to) { return to.address() == Address{std::byte{5}}; }},
      without_result("connect(3 addresses, 30 s)",
                     [](auto& to) { to.connect(std::vector<Address>(3), Deadline::in(30s)); }),
      {"segment()", [](auto& to) { return to.segment().data() == memory; }},
      {"link(rank 1)", [](auto& to) { return &to.link(Rank{1}) == &link_to_peer; }},
      without_result("push(rank 1, 8 bytes, 16 bytes)",
                     [](auto& to) { to.push(Rank{1}, Bytes{8}, Bytes{16}); }),
      without_result("push_from(rank 1, 8 bytes, memory + 3, 16 bytes)",
                     [](auto& to) { to.push_from(Rank{1}, Bytes{8}, memory + 3, Bytes{16}); }),
      without_result("announce_sources(memory + 1 of 2, memory + 3 of 4)",
                     [](auto& to) { to.announce_sources({memory + 1, 2}, {memory + 3, 4}); }),
      {"pushed(rank 1)", [](auto& to) { return !to.pushed(Rank{1}); }},
      without_result("detach_sources(rank 1)", [](auto& to) { to.detach_sources(Rank{1}); }),
      without_result("progress()", [](auto& to) { to.progress(); }),
  };
  return cases;
}

const std::vector<Case>& remote_memory() {
  static const std::vector<Case> cases = {
      {"read_remote(rank 1, 2, memory + 3, 4 bytes)",
       [](auto& to) { return to.read_remote(Rank{1}, 2, memory + 3, Bytes{4}); }},
      {"write_remote(rank 1, 2, memory + 3, 4 bytes)",
       [](auto& to) { return to.write_remote(Rank{1}, 2, memory + 3, Bytes{4}); }},
      {"expose(rank 1, memory + 2, 3 bytes, device)",
       [](auto& to) {
         const auto exposed = to.expose(Rank{1}, memory + 2, Bytes{3}, MemoryKind::device);
         return exposed && exposed->key() == 78;
       }},
      {"reaches_devices()", [](auto& to) { return to.reaches_devices(); }},
      {"start_read(rank 1, 2, 3, memory + 4, 5 bytes, device)",
       [](auto& to) {
         return to.start_read(Rank{1}, 2, 3, memory + 4, Bytes{5}, MemoryKind::device) == under_way;
       }},
      without_result("end_reads(rank 1)", [](auto& to) { to.end_reads(Rank{1}); }),
      {"shares_addresses()", [](auto& to) { return to.shares_addresses(); }},
  };
  return cases;
}

const std::vector<Case>& sleeping_and_leaving() {
  static const std::vector<Case> cases = {
      {"descriptor()", [](auto& to) { return to.descriptor() == 7; }},
      without_result("prepare_to_sleep()", [](auto& to) { to.prepare_to_sleep(); }),
      without_result("sleep(9 ns)", [](auto& to) { to.sleep(9ns); }),
      without_result("cancel_sleep()", [](auto& to) { to.cancel_sleep(); }),
      without_result("ring(the link)", [](auto& to) { to.wake(link_to_peer); }),
      {"watch(rank 1)", [](auto& to) { return !to.watch(Rank{1}); }},
      {"departed(rank 1)", [](auto& to) { return to.departed(Rank{1}) == "gone"; }},
      without_result("end_soon()", [](auto& to) { to.end_soon(); }),
  };
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto* cases : {&set_up_and_data(), &remote_memory(), &sleeping_and_leaving()})
    all.insert(all.end(), cases->begin(), cases->end());
  return all;
}

TEST(ForwardingTransport, PassesCallsOnAndResultsBack) {
  std::vector<std::string> calls;
  ForwardingTransport outer{std::make_unique<Recorder>(calls)};
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(one.noted);
    calls.clear();
    EXPECT_TRUE(one.as_told(outer));
    EXPECT_THAT(calls, ElementsAre(one.noted));
  }
}

// --- Which functions there are ---

/// The virtual functions of class Transport in this text, without its destructor; overloads count.
std::vector<std::string> virtual_functions(std::string text) {
  text = std::regex_replace(text, std::regex{"//[^\n]*"}, "");
  const auto begin = std::min(text.find("\nclass Transport {"), text.size());
  text = text.substr(begin, text.find("\n};", begin) - begin);
  static const std::regex declaration{R"(\bvirtual\s[^(~;]*?(\w+)\()"};
  std::vector<std::string> names;
  for (std::sregex_iterator match{text.begin(), text.end(), declaration}, end; match != end;
       ++match)
    names.push_back((*match)[1]);
  return names;
}

TEST(ForwardingTransport, LeavesNoVirtualFunctionOut) {
  std::ifstream file{CAPSTAN_SOURCE_DIR "/transports/transport.hpp"};
  const auto declared = virtual_functions({std::istreambuf_iterator<char>(file), {}});
  std::vector<std::string> passed_on;
  for (const Case& one : all_cases()) passed_on.push_back(one.noted.substr(0, one.noted.find('(')));
  EXPECT_THAT(passed_on, UnorderedElementsAreArray(declared))
      << "A new virtual function of Transport needs a forward in ForwardingTransport and a case "
         "above. Then see whether the other wrappers (transports/compose) have to forward it.";
}

TEST(ForwardingTransport, VirtualFunctionsAreFound) {
  EXPECT_THAT(virtual_functions("class Other {\n  virtual void other();\n};\n"
                                "class Transport {\n  virtual ~Transport();\n"
                                "  [[nodiscard]] virtual std::optional<int> one(Rank) const = 0;\n"
                                "  virtual std::shared_ptr<RemoteRead>\n      two(int) {\n  }\n"
                                "  virtual void two(Rank);  // not virtual void comment()\n"
                                "  void plain();\n};\nclass Last {\n  virtual void last();\n};\n"),
              ElementsAre("one", "two", "two"));
}

}  // namespace
}  // namespace capstan
