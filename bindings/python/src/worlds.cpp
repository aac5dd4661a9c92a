// How communicators are made, with settings by name.

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "capstan/deadline.hpp"
#include "communicator.hpp"
#include "module.hpp"

namespace capstan::python {
namespace {

using Set = std::function<void(Settings&, py::handle)>;

/// From a number of seconds or a timedelta.
std::chrono::milliseconds seconds(const char* name, py::handle value) {
  py::object number = py::reinterpret_borrow<py::object>(value);
  if (py::hasattr(value, "total_seconds")) number = value.attr("total_seconds")();
  const auto limit = time_limit_of(number.cast<double>());
  if (!limit || limit->count() == 0)
    throw py::value_error(fmt::format("{}={}: pass seconds above 0, for example 60 or 0.5", name,
                                      py::str(value).cast<std::string>()));
  return *limit;
}

/// A setting that takes a value of its own type, or bytes.
template <class T>
std::pair<const char*, Set> setting(const char* name, T Settings::* member) {
  return {name, [name, member](Settings& settings, py::handle value) {
            if constexpr (std::is_same_v<T, Bytes>)
              settings.*member = Bytes{value.cast<std::uint64_t>()};
            else if constexpr (std::is_same_v<T, std::chrono::milliseconds>)
              settings.*member = seconds(name, value);
            else
              settings.*member = value.cast<T>();
          }};
}

/// One that has names.
template <class T>
std::pair<const char*, Set> setting(const char* name, T Settings::* member,
                                    std::vector<std::string> names) {
  return {name, [=](Settings& settings, py::handle value) {
            const auto wanted = value.cast<std::string>();
            const auto found = std::find(names.begin(), names.end(), wanted);
            if (found == names.end())
              throw py::value_error(
                  fmt::format("{}='{}'; there are {}", name, wanted, fmt::join(names, ", ")));
            settings.*member = static_cast<T>(found - names.begin());
          }};
}

std::vector<std::pair<const char*, Set>> known_settings() {
  return {
      setting("timeout", &Settings::timeout),
      setting("join_timeout", &Settings::join_timeout),
      setting("algorithm", &Settings::algorithm),
      setting("schedules", &Settings::schedules),
      setting("profile", &Settings::profile),
      setting("save_profile", &Settings::save_profile),
      setting("prove", &Settings::prove),
      setting("proof_limit", &Settings::proof_limit),
      setting("trust_long_proofs", &Settings::trust_long_proofs),
      setting("same_bits", &Settings::same_bits),
      setting("interface", &Settings::interface),
      setting("network", &Settings::network, {"auto", "tcp", "ofi", "verbs"}),
      setting("bootstrap", &Settings::bootstrap, {"auto", "tcp", "pmix", "pmi"}),
      setting("wire", &Settings::wire, {"plain", "authenticated", "encrypted"}),
      setting("tcp_congestion", &Settings::tcp_congestion),
      setting("provider", &Settings::provider),
      setting("rdma_devices", &Settings::rdma_devices),
      setting("secret", &Settings::secret),
      setting("faults", &Settings::faults),
      setting("progress_thread", &Settings::progress_thread),
      setting("autotune", &Settings::autotune),
      setting("single_copy", &Settings::single_copy),
      setting("huge_pages", &Settings::huge_pages),
      setting("chunk", &Settings::chunk),
      setting("pinned_memory", &Settings::pinned_memory),
      setting("buffer_limit", &Settings::buffer_limit),
      setting("unexpected_messages", &Settings::unexpected_messages),
      setting("rails", &Settings::rails),
      setting("virtual_hosts", &Settings::virtual_hosts),
  };
}

/// The environment's settings, with what the program says instead.
Settings settings_of(const py::kwargs& named) {
  Settings settings = Settings::from_environment();
  const auto known = known_settings();
  for (const auto& [name, value] : named) {
    const auto key = name.cast<std::string>();
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == key; });
    if (found == known.end()) {
      std::string names;
      for (const auto& one : known) names += fmt::format(" {}", one.first);
      throw py::type_error(fmt::format("there is no setting '{}'; there are{}", key, names));
    }
    found->second(settings, value);
  }
  return settings;
}

UniqueId id_of(const std::string& bytes) {
  UniqueId id{};
  if (bytes.size() != id.bytes.size())
    throw InvalidArgument(
        fmt::format("a unique id has {} bytes, not {}", id.bytes.size(), bytes.size()));
  std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  return id;
}

Endpoint init(const py::kwargs& named) {
  const Settings settings = settings_of(named);
  const py::gil_scoped_release others_run;
  return Endpoint{Communicator::from_environment(settings)};
}

Endpoint join(const py::bytes& id, int rank, int size, const py::kwargs& named) {
  const Settings settings = settings_of(named);
  const UniqueId unique = id_of(id);
  const py::gil_scoped_release others_run;
  return Endpoint{Communicator::join(unique, rank, size, settings)};
}

std::vector<Endpoint> local_world(int ranks, const py::kwargs& named) {
  const Settings settings = settings_of(named);
  std::vector<Endpoint> endpoints;
  const py::gil_scoped_release others_run;
  for (Communicator& communicator : Communicator::local_world(ranks, settings))
    endpoints.emplace_back(std::move(communicator));
  return endpoints;
}

py::bytes unique_id(const std::string& address) {
  const UniqueId id = create_unique_id(address);
  return {reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size()};
}

}  // namespace

void bind_worlds(py::module_& m) {
  m.def("_init", &init);
  m.def("join", &join, py::arg("id"), py::arg("rank"), py::arg("size"),
        "Joins the ranks that share a unique id. Settings by name.");
  m.def("local_world", &local_world, py::arg("ranks"),
        "Communicators of a world of threads: the n-th is for the n-th thread.");
  m.def("unique_id", &unique_id, py::arg("address") = "127.0.0.1",
        "An id by which ranks find each other: make it once, pass it to all, and join().");
}

}  // namespace capstan::python
