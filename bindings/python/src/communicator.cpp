// SPDX-License-Identifier: Apache-2.0

// capstan.Communicator: messages, groups and what it tells of itself.

#include "communicator.hpp"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "call.hpp"
#include "errors.hpp"
#include "module.hpp"
#include "stream.hpp"
#include "work.hpp"

namespace capstan::python {
namespace {

using Object = py::object;

Wait wait_of(bool wait, const Object& stream, const Object& array) {
  return {wait ? Wait::yes : Wait::no, stream_of(stream, array)};
}

Message message_of(bool sends, int peer, int tag, const Array& memory) {
  return {.sends = sends,
          .peer = peer,
          .tag = tag,
          .type = memory.type(),
          .data = memory.data(),
          .count = Elements{memory.count()},
          .foreign = memory.foreign()};
}

Object send(Endpoint& self, const Object& array, int to, int tag, bool wait, const Object& stream) {
  Array data = input_of(array, "send", Use::moved);
  const Message message = message_of(true, to, tag, data);
  return self.transfer(message, data, wait_of(wait, stream, array));
}

Object receive(Endpoint& self, const Object& array, int source, int tag, bool wait,
               const Object& stream) {
  Array data = Array::writable(array, Use::moved);
  const bool at_once = wait && !self.is_grouping() && data.is_on_host();
  if (!at_once) require_dense(data, "recv", "array");
  const auto message_to = [&](const Array& memory) {
    return message_of(false, source, tag, memory);
  };
  if (data.is_dense()) return self.transfer(message_to(data), data, wait_of(wait, stream, array));
  Array dense = data.packed();
  Object info = self.transfer(message_to(dense), dense, {});
  copy(data.view(), dense.view());
  return info;
}

MessageInfo probe(Endpoint& self, int source, int tag) {
  std::function<void()> between;
  if (handles_signals())
    between = [] {
      const py::gil_scoped_acquire gil;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    };
  return self.without_gil([&](Communicator& world) { return world.probe(source, tag, between); });
}

/// Memory that ranks of one host read in place, as a writable buffer.
struct Shared {
  std::shared_ptr<std::byte> memory;
  std::size_t bytes;
};

Shared allocate(Endpoint& self, std::size_t bytes) {
  const auto take = [bytes](Communicator& world) { return world.allocate_bytes(bytes); };
  return {self.form("allocate()", take), bytes};
}

/// As an exception that is raised, or None.
Object async_error(const Endpoint& self) {
  const std::exception_ptr error = self.communicator().async_error();
  if (!error) return py::none();
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return exception_of(known);
  }
}

std::optional<Endpoint> group_of(std::optional<Communicator> made) {
  if (!made) return std::nullopt;
  return Endpoint{std::move(*made)};
}

void bind_messages(py::class_<Endpoint>& c) {
  const auto wait = py::arg("wait") = true;
  const auto stream = py::arg("stream") = py::none();
  c.def("send", &send, py::arg("array"), py::arg("to"), py::arg("tag") = 0, py::kw_only(), wait,
        stream, "Sends the array to a rank. Returns when it may be changed again.")
      .def("recv", &receive, py::arg("array"), py::arg("source") = any_source,
           py::arg("tag") = any_tag, py::kw_only(), wait, stream,
           "Receives into the array, which may be longer than the message. Returns a MessageInfo.")
      .def("probe", &probe, py::arg("source") = any_source, py::arg("tag") = any_tag,
           "Waits for a message and says what it is, without receiving it.")
      .def(
          "try_probe",
          [](Endpoint& self, int source, int tag) {
            return self.without_gil(
                [=](Communicator& world) { return world.try_probe(source, tag); });
          },
          py::arg("source") = any_source, py::arg("tag") = any_tag,
          "As probe, but None where there is no message yet.")
      .def("_open_group", &Endpoint::open_group)
      .def(
          "_close_group",
          [](Endpoint& self, const Object& stream) {
            return self.close_group({Wait::yes, stream_of(stream, py::none())});
          },
          py::arg("stream"))
      .def("_drop_group", &Endpoint::drop_group);
}

void bind_groups(py::class_<Endpoint>& c) {
  c.def(
       "split",
       [](Endpoint& self, int colour, int key) {
         const auto split = [=](Communicator& world) { return world.split(colour, key); };
         return group_of(self.form("split()", split));
       },
       py::arg("colour"), py::arg("key") = 0,
       "A communicator of the ranks that pass the same colour. All ranks call it; with a negative "
       "colour\na rank gets None.")
      .def(
          "subgroup",
          [](Endpoint& self, const std::vector<int>& ranks) {
            const auto choose = [ranks](Communicator& world) { return world.subgroup(ranks); };
            return group_of(self.form("subgroup()", choose));
          },
          py::arg("ranks"),
          "A communicator of these ranks, in this order. All ranks call it; others get None.")
      .def(
          "shrink",
          [](Endpoint& self, const std::vector<int>& exclude, bool minority_continues) {
            const ShrinkOptions options{exclude, minority_continues};
            const auto shrink = [options](Communicator& world) {
              return std::optional{world.shrink(options)};
            };
            return group_of(self.form("shrink()", shrink));
          },
          py::arg("exclude") = std::vector<int>{}, py::kw_only(),
          py::arg("minority_continues") = false,
          "A communicator of the ranks that are left, after a failure or without one. All that "
          "live "
          "call it,\nbut for those in `exclude`.")
      .def(
          "grow",
          [](Endpoint& self, int joiners, const std::optional<std::string>& id,
             const std::string& name, const std::string& secret) {
            const MeetingPlace place = place_of(id, name, secret);
            const auto grow = [=](Communicator& world) {
              return std::optional{world.grow(joiners, place)};
            };
            return group_of(self.form("grow()", grow));
          },
          py::arg("joiners") = 1, py::kw_only(), py::arg("id") = py::none(), py::arg("name") = "",
          py::arg("secret") = "",
          "A communicator of these ranks, which keep their numbers, and `joiners` new ones, which "
          "call\njoin_growing(). All ranks call it; one at least passes the id (unique_id()), or "
          "all the same\nname and secret. It succeeds on all ranks or on none.")
      .def(
          "with_reproducible",
          [](Endpoint& self, const std::string& promise) {
            Settings settings;
            settings.set("reproducible", promise);
            const auto keep = [kept = settings.reproducible](Communicator& world) {
              return std::optional{world.with_reproducible(kept)};
            };
            return group_of(self.form("with_reproducible()", keep));
          },
          py::arg("promise"),
          "A communicator of the same ranks whose sums keep this promise: none, run, shape, "
          "placement or "
          "rank_order\n(docs/reproducibility.md). All ranks call it.")
      .def(
          "world_rank",
          [](Endpoint& self, int rank) { return self.communicator().world_rank(rank); },
          py::arg("rank"), "The rank in the world of a rank of this communicator.")
      .def(
          "rank_of",
          [](Endpoint& self, int world_rank) { return self.communicator().rank_of(world_rank); },
          py::arg("world_rank"), "The rank here of a rank of the world, or None.")
      .def("_allocate", &allocate, py::arg("bytes"));
}

Request described(const std::string& collective, std::uint64_t bytes, const std::string& type,
                  const Object& op, int root, int ranks) {
  const auto found = collective_named(collective);
  if (!found) throw InvalidArgument(fmt::format("there is no collective '{}'", collective));
  const auto element = data_type_named(type);
  if (!element) throw InvalidArgument(fmt::format("there is no element type '{}'", type));
  if (has_counts(*found))
    throw InvalidArgument(fmt::format("{}: ask for the form without counts", collective));
  Request request;
  request.collective = *found;
  request.reducer = reducer_of(op);
  request.root = root;
  request.type = *element;
  const Shape shape{Elements{bytes / size_of(*element).value()}, root, {}};
  const Contract contract{*found, shape, ranks};
  static std::byte there;
  request.input_count = contract.lengths(0).input;
  request.output_count = contract.lengths(0).output;
  request.input = request.output = &there;
  return request;
}

/// The destructor lets other threads run. pybind11 2.10 leaves the object to the garbage collector
/// meanwhile, which another thread may run: it would end the object a second time.
void end_uncollected(PyHeapTypeObject* type) {
  type->ht_type.tp_dealloc = [](PyObject* self) {
    PyObject_GC_UnTrack(self);
    py::detail::pybind11_object_dealloc(self);
  };
}

}  // namespace

void bind_communicator(py::module_& m) {
  py::class_<MessageInfo>(m, "MessageInfo", "What a receive or a probe has found.")
      .def_readonly("source", &MessageInfo::source)
      .def_readonly("tag", &MessageInfo::tag)
      .def_property_readonly("bytes", [](const MessageInfo& self) { return self.size.value(); })
      .def("__repr__", [](const MessageInfo& self) {
        return fmt::format("MessageInfo(source={}, tag={}, bytes={})", self.source, self.tag,
                           self.size.value());
      });

  py::class_<Shared>(m, "_SharedMemory", py::buffer_protocol()).def_buffer([](Shared& self) {
    return py::buffer_info(reinterpret_cast<std::uint8_t*>(self.memory.get()),
                           static_cast<py::ssize_t>(self.bytes));
  });

  py::class_<Endpoint> c(m, "Communicator", py::dynamic_attr(),
                         py::custom_type_setup(&end_uncollected));
  c.def_property_readonly("rank", [](const Endpoint& self) { return self.communicator().rank(); })
      .def_property_readonly("size",
                             [](const Endpoint& self) { return self.communicator().size(); })
      .def_property_readonly("closed", &Endpoint::is_closed)
      .def("close", &Endpoint::close,
           "Leaves. Peers that still need this rank get a PeerLost. May be called twice.")
      .def(
          "abort",
          [](const Endpoint& self, const std::string& reason) {
            self.without_gil([&](Communicator& world) { world.abort(reason); });
          },
          py::arg("reason"),
          "Ends the communicator on all ranks: what waits raises Aborted with the reason. From any "
          "thread.")
      .def("async_error", &async_error,
           "The failure of the communicator as an exception, or None. Waits for nothing.")
      .def("attach", &Endpoint::attach, py::arg("profiler"), py::arg("tag") = "",
           "Records the collectives of this rank from now on; `tag` names the communicator.")
      .def("detach_profiler", &Endpoint::detach_profiler)
      .def("_report",
           [](const Endpoint& self, bool as_json) {
             return self.without_gil([=](const Communicator& world) {
               return as_json ? world.report_json() : world.report();
             });
           })
      .def("_explain", [](const Endpoint& self, const std::string& collective, std::uint64_t bytes,
                          const std::string& type, const Object& op, int root) {
        const Communicator& world = self.communicator();
        const Request request = described(collective, bytes, type, op, root, world.size());
        return std::pair{world.algorithm(request), world.explain(request)};
      });
  bind_collectives(c);
  bind_messages(c);
  bind_groups(c);
  bind_worlds(m);
  m.def("_end_callbacks", &Endpoint::end_callbacks, py::call_guard<ReleasedGil>());
  py::module_::import("atexit").attr("register")(m.attr("_end_callbacks"));
}

}  // namespace capstan::python
