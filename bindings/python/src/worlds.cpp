// How communicators are made, with settings by name.

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cstring>
#include <utility>

#include "communicator.hpp"
#include "module.hpp"

namespace capstan::python {
namespace {

std::chrono::milliseconds seconds(py::handle value) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(value.cast<double>()));
}

/// The environment's settings, with what the program says instead.
Settings settings_of(const py::kwargs& named) {
  Settings settings = Settings::from_environment();
  const std::vector<std::pair<const char*, std::function<void(py::handle)>>> known = {
      {"timeout", [&](py::handle v) { settings.timeout = seconds(v); }},
      {"join_timeout", [&](py::handle v) { settings.join_timeout = seconds(v); }},
      {"algorithm", [&](py::handle v) { settings.algorithm = v.cast<std::string>(); }},
      {"interface", [&](py::handle v) { settings.interface = v.cast<std::string>(); }},
      {"progress_thread", [&](py::handle v) { settings.progress_thread = v.cast<bool>(); }},
      {"autotune", [&](py::handle v) { settings.autotune = v.cast<bool>(); }},
      {"single_copy", [&](py::handle v) { settings.single_copy = v.cast<bool>(); }},
      {"huge_pages", [&](py::handle v) { settings.huge_pages = v.cast<bool>(); }},
      {"chunk", [&](py::handle v) { settings.chunk = Bytes{v.cast<std::uint64_t>()}; }},
      {"rails", [&](py::handle v) { settings.rails = v.cast<int>(); }},
      {"virtual_hosts", [&](py::handle v) { settings.virtual_hosts = v.cast<int>(); }},
  };
  for (const auto& [name, value] : named) {
    const auto key = name.cast<std::string>();
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const auto& setting) { return setting.first == key; });
    if (found == known.end()) {
      std::string names;
      for (const auto& setting : known) names += fmt::format(" {}", setting.first);
      throw py::type_error(fmt::format("there is no setting '{}'; there are{}", key, names));
    }
    found->second(value);
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
