// SPDX-License-Identifier: Apache-2.0

// Element types, arrays of other types, and how elements are combined.

#include <fmt/format.h>

#include "communicator.hpp"
#include "module.hpp"
#include "work.hpp"

namespace capstan::python {
namespace {

/// An operation for calls that keep a promise of their own.
Reducer reproducible(const std::string& promise, py::handle op) {
  Settings settings;
  settings.set("reproducible", promise);
  return reducer_of(op).kept(settings.reproducible);
}

/// numpy's name of an element type, for operations of the program.
const char* numpy_name(DataType type) {
  switch (type) {
    case DataType::i8:
      return "i1";
    case DataType::u8:
      return "u1";
    case DataType::i32:
      return "i4";
    case DataType::u32:
      return "u4";
    case DataType::i64:
      return "i8";
    case DataType::u64:
      return "u8";
    case DataType::f16:
      return "f2";
    case DataType::f32:
      return "f4";
    case DataType::f64:
      return "f8";
    case DataType::c64:
      return "c8";
    case DataType::c128:
      return "c16";
    case DataType::bf16:
    case DataType::f8_e4m3:
    case DataType::f8_e5m2:
      break;
  }
  throw InvalidArgument(fmt::format(
      "operations of the program are not defined for {}: numpy has no such type", name_of(type)));
}

/// An array over the engine's memory. Made by numpy's own functions: what pybind11 knows of numpy's
/// structures is another version's where it is older than the numpy that runs.
py::object array_over(const py::object& dtype, const void* data, std::size_t bytes,
                      bool read_only) {
  const auto memory = py::memoryview::from_memory(const_cast<void*>(data),
                                                  static_cast<py::ssize_t>(bytes), read_only);
  return py::module_::import("numpy").attr("frombuffer")(memory, dtype);
}

/// Calls a function of Python on arrays over the engine's memory.
Reducer operation(py::function function, const py::object& type, bool commutative,
                  std::optional<std::string> name) {
  const DataType element = element_type_of(type);
  const auto dtype =
      freed_with_gil(py::object{py::module_::import("numpy").attr("dtype")(numpy_name(element))});
  const std::string called =
      name ? *name : std::string{py::str(py::getattr(function, "__name__", py::str("operation")))};
  const auto held = freed_with_gil(std::move(function));
  return Reducer::of(UserOperation{
      called, element, commutative,
      [held, dtype, size = size_of(element).value()](void* accumulator, const void* next,
                                                     std::size_t count) {
        const bool ran = PythonCallbacks::of_process().run([&] {
          const py::gil_scoped_acquire gil;
          try {
            const py::object into = array_over(*dtype, accumulator, count * size, false);
            const py::object combined = (*held)(into, array_over(*dtype, next, count * size, true));
            if (!combined.is_none()) into[py::ellipsis()] = combined;
          } catch (py::error_already_set& error) {
            throw std::runtime_error(error.what());
          }
        });
        if (!ran) throw std::runtime_error("the interpreter has ended");
      }});
}

}  // namespace

Reducer reducer_of(py::handle op) {
  if (op.is_none()) return ReduceOp::sum;
  if (PyUnicode_Check(op.ptr())) {
    const auto name = op.cast<std::string_view>();
    if (const auto known = reduce_op_named(name)) return *known;
    std::string names;
    for (const ReduceOp known : all_reduce_ops()) names += fmt::format(" {}", name_of(known));
    throw InvalidArgument(fmt::format("there is no operation '{}'; there are{}", name, names));
  }
  if (py::isinstance<Reducer>(op)) return op.cast<Reducer>();
  throw py::type_error(
      "`op` is a name such as 'sum', or made by operation(), scaled_sum() or reproducible()");
}

void bind_arrays(py::module_& m) {
  py::class_<Typed>(m, "_Typed");
  m.def(
      "typed",
      [](py::object array, const py::object& type) {
        return Typed{std::move(array), element_type_of(type)};
      },
      py::arg("array"), py::arg("dtype"),
      "An array whose elements are of another type of the same size: bf16 in an array of uint16.");
  m.def(
      "dtype_of",
      [](const py::object& array) { return std::string{name_of(Array::readable(array).type())}; },
      py::arg("array"), "The name of an array's element type: 'f32'.");
  m.def("dtypes", [] {
    std::vector<std::string> names;
    for (const DataType type : all_data_types()) names.emplace_back(name_of(type));
    return names;
  });
  m.def("ops", [] {
    std::vector<std::string> names;
    for (const ReduceOp op : all_reduce_ops()) names.emplace_back(name_of(op));
    return names;
  });

  py::class_<Reducer>(m, "Operation", "How elements of different ranks are combined.")
      .def("__repr__", [](const Reducer& self) {
        const std::string bits =
            self.promise() ? fmt::format(", bits by {}", name_of(*self.promise())) : "";
        if (self.user()) return fmt::format("<capstan.Operation {}{}>", self.user()->name, bits);
        return self.scales()
                   ? fmt::format("<capstan.Operation sum of inputs x {}{}>", self.factor(), bits)
                   : fmt::format("<capstan.Operation {}{}>", name_of(self.op()), bits);
      });
  m.def("operation", &operation, py::arg("function"), py::arg("dtype"),
        py::arg("commutative") = true, py::arg("name") = py::none(),
        "An operation of the program: function(accumulator, next) changes the numpy array "
        "`accumulator`\nin place, or returns the combined array. It has to be associative.");
  m.def("scaled_sum", &Reducer::premultiplied_sum, py::arg("factor"),
        "The sum of each rank's array times that rank's own factor.");
  m.def(
      "reproducible", &reproducible, py::arg("promise"), py::arg("op") = "sum",
      "The operation `op` for calls that keep this promise, whatever the communicator's is: none, "
      "run,\nshape, placement or rank_order (docs/reproducibility.md). All ranks pass the same.");
}

}  // namespace capstan::python
