// SPDX-License-Identifier: Apache-2.0

// Objects whose constructor never ran: Class.__new__(Class), or a subclass without
// super().__init__().

#include "classes.hpp"

namespace capstan::python {
namespace {

namespace py = pybind11;

constexpr const char* text =
    "this object was never initialised: functions of capstan make objects of its class, and a "
    "subclass calls super().__init__()";

/// pybind11 asks for memory where a method is called on such an object, and would leave it as it
/// is.
void* refuse_memory(std::size_t) {
  throw py::type_error(text);
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  if (is_initialised(object)) return py::detail::pybind11_getbuffer(object, view, flags);
  if (view) view->obj = nullptr;
  PyErr_SetString(PyExc_TypeError, text);
  return -1;
}

}  // namespace

bool is_initialised(PyObject* object) {
  auto* const instance = reinterpret_cast<py::detail::instance*>(object);
  return instance->get_value_and_holder().value_ptr() != nullptr;
}

void throw_uninitialised() {
  throw py::type_error(text);
}

void guard_classes(const py::module_& m) {
  const PyTypeObject* const bound = py::detail::get_internals().default_metaclass;
  for (const auto& [name, value] : py::dict(m.attr("__dict__"))) {
    if (Py_TYPE(value.ptr()) != bound) continue;
    auto* const type = reinterpret_cast<PyTypeObject*>(value.ptr());
    py::detail::get_type_info(type)->operator_new = &refuse_memory;
    if (type->tp_as_buffer && type->tp_as_buffer->bf_getbuffer)
      type->tp_as_buffer->bf_getbuffer = &get_buffer;
  }
}

}  // namespace capstan::python
