// SPDX-License-Identifier: Apache-2.0

// Algorithms that a program writes in Python, or has in files.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "capstan/custom_algorithm.hpp"
#include "module.hpp"
#include "work.hpp"

namespace capstan::python {
namespace {

namespace py = pybind11;

Elements whole(std::int64_t value, const char* what) {
  if (value < 0) throw InvalidArgument(fmt::format("{}: {} is negative", what, value));
  return Elements{static_cast<std::uint64_t>(value)};
}

/// Records the steps of one rank: what a function of Python gets.
class Steps {
 public:
  Steps(Collective collective, const Group& group, const Shape& shape)
      : group_(group), shape_(shape), builder_(builder(collective, group, shape)) {}

  int rank() const { return group_.position(); }
  int size() const { return group_.size(); }
  int wrap(int position) const { return group_.wrap(position); }
  const Shape& shape() const { return shape_; }
  ScheduleBuilder& builder() { return builder_; }
  Rank peer(int position) const { return group_[group_.wrap(position)]; }

 private:
  static ScheduleBuilder builder(Collective collective, const Group& group, const Shape& shape) {
    const Contract contract{collective, shape, group.size()};
    Elements largest;
    for (int i = 0; i < group.size(); ++i) largest = std::max(largest, contract.lengths(i).output);
    const auto [input, output] = contract.lengths(group.position());
    return {group, input, output, largest};
  }

  const Group group_;
  const Shape shape_;
  ScheduleBuilder builder_;
};

std::vector<Span> spans_of(const py::args& sources) {
  std::vector<Span> spans;
  for (const py::handle source : sources) spans.push_back(source.cast<Span>());
  return spans;
}

/// A part of a span, as span[a:b] names it.
Span part(const Span& span, const py::slice& slice) {
  py::ssize_t start = 0, stop = 0, step = 0, length = 0;
  if (!slice.compute(static_cast<py::ssize_t>(span.length.value()), &start, &stop, &step, &length))
    throw py::error_already_set();
  if (step != 1)
    throw InvalidArgument("a part of a buffer has no gaps: leave the slice's step out");
  return span.part({whole(start, "start"), whole(length, "length")});
}

void bind_spans(py::module_& m) {
  py::class_<Span>(m, "Span", "A range of a rank's input, output or scratch. span[a:b] is a part.")
      .def("__len__", [](const Span& self) { return self.length.value(); })
      .def("__getitem__", &part)
      .def("__eq__", [](const Span& self, const Span& other) { return self == other; })
      .def("__repr__", [](const Span& self) {
        return fmt::format("{}[{}:{}]", name_of(self.buffer), self.offset.value(),
                           self.end().value());
      });
}

void bind_steps(py::module_& m) {
  py::class_<Steps, std::shared_ptr<Steps>>(
      m, "Steps", "What one rank does: an algorithm records it, see algorithm().")
      .def_property_readonly("rank", &Steps::rank)
      .def_property_readonly("size", &Steps::size)
      .def_property_readonly("root", [](const Steps& self) { return self.shape().root; })
      .def_property_readonly("count", [](const Steps& self) { return self.shape().count.value(); })
      .def_property_readonly("left", [](const Steps& self) { return self.wrap(self.rank() - 1); })
      .def_property_readonly("right", [](const Steps& self) { return self.wrap(self.rank() + 1); })
      .def_property_readonly("input", [](Steps& self) { return self.builder().input(); })
      .def_property_readonly("output", [](Steps& self) { return self.builder().output(); })
      .def(
          "block",
          [](const Steps& self, const Span& span, int index) {
            return span.part(nth_block(span.length, self.size(), self.wrap(index)));
          },
          py::arg("span"), py::arg("index"),
          "One of `size` nearly equal blocks, counted in a circle.")
      .def(
          "scratch",
          [](Steps& self, std::int64_t length) {
            return self.builder().scratch(whole(length, "scratch"));
          },
          py::arg("length"), "Memory of its own; the same calls on every rank.")
      .def("copy",
           [](Steps& self, const Span& to, const Span& from) { self.builder().copy(to, from); })
      .def("reduce", [](Steps& self, const Span& to,
                        const py::args& sources) { self.builder().reduce(to, spans_of(sources)); })
      .def(
          "complete",
          [](Steps& self, const Span& to, const py::args& sources) {
            self.builder().complete(to, spans_of(sources));
          },
          "A reduce that makes sums final: once for each element.")
      .def("put", [](Steps& self, int peer, const Span& to,
                     const Span& from) { self.builder().put(self.peer(peer), to, from); })
      .def("signal", [](Steps& self, int peer) { self.builder().signal(self.peer(peer)); })
      .def("wait", [](Steps& self, int peer) { self.builder().wait(self.peer(peer)); })
      .def(
          "send",
          [](Steps& self, int peer, const Span& to, const Span& from) {
            self.builder().send(self.peer(peer), to, from);
          },
          py::arg("peer"), py::arg("to"), py::arg("source"), "put and signal.")
      .def("next_phase", [](Steps& self) { self.builder().next_phase(); });
}

Collective collective_of(const std::string& name) {
  const auto found = collective_named(name);
  if (!found) throw InvalidArgument(fmt::format("there is no collective '{}'", name));
  return *found;
}

/// The schedule that the function of the program records.
Schedule recorded(const py::function& function, const std::string& name,
                  const std::shared_ptr<Steps>& steps) {
  try {
    function(py::cast(steps));
    return std::move(steps->builder()).build();
  } catch (py::error_already_set& error) {
    throw InvalidArgument(fmt::format("the algorithm '{}' failed for rank {} of {}: {}", name,
                                      steps->rank(), steps->size(), error.what()));
  }
}

void add(const std::string& collective, const std::string& name, py::function function,
         const std::string& summary, const std::vector<int>& ranks) {
  const Collective of = collective_of(collective);
  const auto held = freed_with_gil(std::move(function));
  CustomAlgorithm algorithm{
      name, of,
      [held, of, name](const Group& group, const Shape& shape) {
        std::optional<Schedule> schedule;
        const bool runs = PythonCallbacks::of_process().run([&] {
          const py::gil_scoped_acquire gil;
          schedule = recorded(*held, name, std::make_shared<Steps>(of, group, shape));
        });
        if (!runs) throw InvalidArgument(fmt::format("the algorithm '{}': Python has ended", name));
        return std::move(*schedule);
      },
      summary};
  const ReleasedGil others_run;
  add_algorithm(std::move(algorithm), ranks);
}

}  // namespace

void bind_algorithms(py::module_& m) {
  bind_spans(m);
  bind_steps(m);
  m.def("_add_algorithm", &add);
  m.def("add_schedules", &add_schedules, py::arg("paths"), py::call_guard<ReleasedGil>(),
        "Adds the algorithms of schedule files, or of folders of them, with commas between them.");
}

}  // namespace capstan::python
