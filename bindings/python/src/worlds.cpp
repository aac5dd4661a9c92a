// SPDX-License-Identifier: Apache-2.0

// How communicators are made, with settings by name.

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "communicator.hpp"
#include "module.hpp"

namespace capstan::python {

namespace {

UniqueId id_of(const std::string& bytes) {
  UniqueId id{};
  if (bytes.size() != id.bytes.size())
    throw InvalidArgument(
        fmt::format("a unique id has {} bytes, not {}", id.bytes.size(), bytes.size()));
  std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  return id;
}

}  // namespace

MeetingPlace place_of(const std::optional<std::string>& id, const std::string& name,
                      const std::string& secret) {
  return {id ? std::optional{id_of(*id)} : std::nullopt, name, secret};
}

namespace {

/// A value as Settings::set() takes it: a number of seconds, a timedelta, a bool, a text, a path.
std::string text_of(py::handle value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "1" : "0";
  if (py::hasattr(value, "total_seconds")) return py::str(value.attr("total_seconds")());
  if (py::hasattr(value, "__fspath__")) return py::str(value.attr("__fspath__")());
  return py::str(value);
}

/// The environment's settings, with what the program says instead. An unknown name is a TypeError,
/// as that of any keyword is.
Settings settings_of(const py::kwargs& named) {
  Settings settings = Settings::from_environment();
  for (const auto& [key, value] : named) {
    const auto name = key.cast<std::string>();
    try {
      static_cast<void>(settings.text(name));
    } catch (const InvalidArgument& error) {
      throw py::type_error(error.what());
    }
    settings.set(name, text_of(value));
  }
  return settings;
}

/// Nothing ends a start but its time-out. After Ctrl-C its thread waits for that, and leaves the
/// world if there is one by then.
template <class Start>
Endpoint start(const char* call, Start start) {
  return Endpoint{run_interruptibly(call, std::move(start), [] {})};
}

Endpoint init(const py::kwargs& named) {
  return start("init()", [settings = settings_of(named)] {
    return Communicator::from_environment(settings);
  });
}

Endpoint join(const py::bytes& id, int rank, int size, const py::kwargs& named) {
  return start("join()", [unique = id_of(id), rank, size, settings = settings_of(named)] {
    return Communicator::join(unique, rank, size, settings);
  });
}

Endpoint join_growing(const std::optional<py::bytes>& id, const std::string& name, int rank,
                      const py::kwargs& named) {
  const auto bytes = id ? std::optional{id->cast<std::string>()} : std::nullopt;
  return start("join_growing()",
               [place = place_of(bytes, name, {}), rank, settings = settings_of(named)] {
                 return Communicator::join_growing(place, settings, rank);
               });
}

std::vector<Endpoint> local_world(int ranks, const py::kwargs& named) {
  const Settings settings = settings_of(named);
  std::vector<Endpoint> endpoints;
  const ReleasedGil others_run;
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
  m.def("join_growing", &join_growing, py::arg("id") = py::none(), py::arg("name") = "",
        py::arg("rank") = -1,
        "Joins a communicator that grows, as a new rank: by the id that its members pass, or by "
        "their name\nand secret=. Settings by name.");
  m.def("local_world", &local_world, py::arg("ranks"),
        "Communicators of a world of threads: the n-th is for the n-th thread.");
  m.def("unique_id", &unique_id, py::arg("address") = "127.0.0.1",
        "An id by which ranks find each other: make it once, pass it to all, and join(). An empty "
        "address\nis the one that other hosts reach, as CAPSTAN_INTERFACE says.");
}

}  // namespace capstan::python
