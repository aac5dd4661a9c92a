// SPDX-License-Identifier: Apache-2.0

// The collectives of capstan.Communicator.

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "call.hpp"
#include "communicator.hpp"
#include "method.hpp"
#include "module.hpp"
#include "persistent.hpp"
#include "stream.hpp"

namespace capstan::python {
namespace {

using Counts = std::vector<std::size_t>;
using Object = py::object;

/// Sums of booleans would leave values that are no booleans.
void check_operation(const Array& array, const Reducer& reducer) {
  if (!array.is_bool() || reducer.user()) return;
  const ReduceOp op = reducer.op();
  const bool keeps_booleans = op != ReduceOp::sum && op != ReduceOp::average;
  if (!keeps_booleans)
    throw py::type_error(
        fmt::format("booleans have no {}: use 'logical_or', 'logical_and', or an "
                    "array of integers",
                    name_of(op)));
}

std::int64_t total(const Counts& counts) {
  return static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
}

Request request_of(Collective collective, Reducer reducer = {}, int root = 0) {
  Request request;
  request.collective = collective;
  request.reducer = std::move(reducer);
  request.root = root;
  return request;
}

// Calls that may have a count for each rank have it in the _v form.
Request request_of(Collective plain, Collective with_counts, const std::optional<Counts>& counts,
                   Reducer reducer = {}, int root = 0) {
  Request request = request_of(counts ? with_counts : plain, std::move(reducer), root);
  if (counts) request.counts = request::counts(*counts);
  return request;
}

/// Counts are in the program's elements, which may travel as several.
void scale(std::vector<Elements>& counts, std::size_t pieces) {
  for (Elements& count : counts) count = Elements{count.value() * pieces};
}

/// For a call on arrays that are not contiguous, which cannot be persistent or in a stream.
bool waits(Wait wait, const char* name) {
  if (wait == Wait::persistent || wait.stream)
    throw py::value_error(fmt::format("{}: {} takes one contiguous array: copy into one", name,
                                      wait.stream ? "a stream" : "wait='persistent'"));
  return wait == Wait::yes;
}

Object carry_out(Endpoint& self, Call call, Wait wait) {
  call.request.stream = wait.stream;
  if (!call.arrays.empty()) {
    scale(call.request.counts, call.arrays.front().pieces());
    scale(call.request.receive_counts, call.arrays.front().pieces());
  }
  if (wait == Wait::persistent && !call.strided)
    return py::cast(Persistent{self.shared(), call.request, std::move(call.arrays), call.result});
  if (!call.strided)
    return self.call(call.request, call.arrays, std::move(call.result), wait == Wait::yes);
  if (wait != Wait::yes)
    throw py::buffer_error(
        fmt::format("{}: with wait={} the output must be contiguous: pass a contiguous one",
                    call.name(), wait == Wait::no ? "False" : "'persistent'"));
  if (wait.stream) waits(wait, call.name());
  const bool output_is_first = call.arrays.front().data() == call.request.output;
  self.call(call.request, call.arrays, py::none(), true);
  copy(call.strided->view(), call.arrays[output_is_first ? 0 : 1].view());
  return call.result;
}

/// all_reduce, scan, exscan: in place unless there is an output.
Object reduce_everywhere(Endpoint& self, Collective collective, Object array, Reducer reducer,
                         const Object& out, Wait wait) {
  Call call{request_of(collective, std::move(reducer))};
  if (out.is_none()) {
    call.set_in_place(Array::writable(array), array);
  } else {
    call.set_input(input_of(array, call.name()));
    call.set_output(Array::writable(out), out);
  }
  check_operation(call.arrays.front(), call.request.reducer);
  return carry_out(self, std::move(call), wait);
}

/// In place, in an array that is not contiguous. Those of other ranks may be.
Object in_strides(Endpoint& self, Collective collective, Array array, Object result,
                  const Reducer& reducer, int root, bool waits) {
  const TensorRequest request{.collective = collective,
                              .inputs = {array.view()},
                              .foreign = array.foreign(),
                              .reducer = reducer,
                              .root = root,
                              .any_shape = true};
  std::vector<Array> arrays;
  arrays.push_back(std::move(array));
  const auto start = [&](Communicator& world) { return world.start(request); };
  return self.started(start, std::move(arrays), std::move(result), waits);
}

Object all_reduce(Endpoint& self, const Object& array, const Object& op, const Object& out,
                  Wait wait) {
  Reducer reducer = reducer_of(op);
  if (out.is_none()) {
    Array strided = Array::writable(array);
    if (!strided.is_dense()) {
      check_operation(strided, reducer);
      return in_strides(self, Collective::all_reduce, std::move(strided), array, reducer, 0,
                        waits(wait, "all_reduce"));
    }
  }
  return reduce_everywhere(self, Collective::all_reduce, array, std::move(reducer), out, wait);
}

Object scan(Endpoint& self, const Object& array, const Object& op, const Object& out, Wait wait) {
  return reduce_everywhere(self, Collective::scan, array, reducer_of(op), out, wait);
}

Object exscan(Endpoint& self, const Object& array, const Object& op, const Object& out, Wait wait) {
  return reduce_everywhere(self, Collective::exscan, array, reducer_of(op), out, wait);
}

Object broadcast(Endpoint& self, const Object& array, int root, Wait wait) {
  Array data = Array::writable(array, Use::moved);
  if (!data.is_dense())
    return in_strides(self, Collective::broadcast, std::move(data), array, {}, root,
                      waits(wait, "broadcast"));
  Call call{request_of(Collective::broadcast, {}, root)};
  call.set_in_place(std::move(data), array);
  return carry_out(self, std::move(call), wait);
}

Object reduce(Endpoint& self, const Object& array, int root, const Object& op, const Object& out,
              Wait wait) {
  Call call{request_of(Collective::reduce, reducer_of(op), root)};
  Array input = input_of(array, "reduce");
  check_operation(input, call.request.reducer);
  if (self.communicator().rank() == root) {
    const Object output = out.is_none() ? empty(array, input.shape()) : out;
    call.set_output(Array::writable(output), output);
  }
  call.set_input(std::move(input));
  return carry_out(self, std::move(call), wait);
}

Object all_gather(Endpoint& self, const Object& array, const Object& out,
                  const std::optional<Counts>& counts, Wait wait) {
  Call call{request_of(Collective::all_gather, Collective::all_gather_v, counts)};
  Array input = input_of(array, "all_gather", Use::moved);
  Object output = out;
  if (output.is_none())
    output = empty(array, counts ? std::vector{total(*counts)}
                                 : gathered_shape(input, self.communicator().size()));
  call.set_output(Array::writable(output, Use::moved), output);
  call.set_input(std::move(input));
  return carry_out(self, std::move(call), wait);
}

Object gather(Endpoint& self, const Object& array, int root, const Object& out,
              const std::optional<Counts>& counts, Wait wait) {
  Call call{request_of(Collective::gather, Collective::gather_v, counts, {}, root)};
  Array input = input_of(array, "gather", Use::moved);
  if (self.communicator().rank() == root) {
    Object output = out;
    if (output.is_none())
      output = empty(array, counts ? std::vector{total(*counts)}
                                   : gathered_shape(input, self.communicator().size()));
    call.set_output(Array::writable(output, Use::moved), output);
  }
  call.set_input(std::move(input));
  return carry_out(self, std::move(call), wait);
}

Object reduce_scatter(Endpoint& self, const Object& array, const Object& op, const Object& out,
                      const std::optional<Counts>& counts, Wait wait) {
  Call call{
      request_of(Collective::reduce_scatter, Collective::reduce_scatter_v, counts, reducer_of(op))};
  Array input = input_of(array, "reduce_scatter");
  check_operation(input, call.request.reducer);
  const Communicator& world = self.communicator();
  Object output = out;
  if (output.is_none()) {
    const auto mine = static_cast<std::size_t>(world.rank());
    output = empty(array, counts && mine < counts->size()
                              ? std::vector{static_cast<std::int64_t>((*counts)[mine])}
                              : scattered_shape(input, world.size()));
  }
  call.set_output(Array::writable(output), output);
  call.set_input(std::move(input));
  return carry_out(self, std::move(call), wait);
}

Object scatter(Endpoint& self, const Object& array, int root, const Object& out,
               const std::optional<Counts>& counts, Wait wait) {
  Call call{request_of(Collective::scatter, Collective::scatter_v, counts, {}, root)};
  const Communicator& world = self.communicator();
  Object output = out;
  if (world.rank() == root) {
    Array input = input_of(array, "scatter", Use::moved);
    const auto mine = static_cast<std::size_t>(root);
    if (output.is_none())
      output = empty(array, counts && mine < counts->size()
                                ? std::vector{static_cast<std::int64_t>((*counts)[mine])}
                                : scattered_shape(input, world.size()));
    call.set_input(std::move(input));
  } else if (output.is_none()) {
    throw InvalidArgument(fmt::format(
        "scatter: rank {} is not the root, {}, so it has to pass `out`", world.rank(), root));
  }
  call.set_output(Array::writable(output, Use::moved), output);
  return carry_out(self, std::move(call), wait);
}

Object all_to_all(Endpoint& self, const Object& array, const Object& out,
                  const std::optional<Counts>& send_counts,
                  const std::optional<Counts>& receive_counts, Wait wait) {
  if (send_counts.has_value() != receive_counts.has_value())
    throw InvalidArgument("all_to_all: pass both send_counts and receive_counts, or neither");
  Call call{request_of(Collective::all_to_all, Collective::all_to_all_v, send_counts)};
  if (receive_counts) call.request.receive_counts = request::counts(*receive_counts);
  Array input = input_of(array, "all_to_all", Use::moved);
  Object output = out;
  if (output.is_none())
    output = empty(array, receive_counts ? std::vector{total(*receive_counts)} : input.shape());
  call.set_output(Array::writable(output, Use::moved), output);
  call.set_input(std::move(input));
  return carry_out(self, std::move(call), wait);
}

Object barrier(Endpoint& self, Wait wait) {
  return carry_out(self, Call{Request{}}, wait);
}

/// All arrays in one call, in place.
Object all_reduce_fused(Endpoint& self, const Object& list, const Object& op, Wait wait) {
  const Reducer reducer = reducer_of(op);
  std::vector<Array> arrays;
  for (const py::handle object : list) {
    arrays.push_back(Array::writable(object));
    check_operation(arrays.back(), reducer);
    if (arrays.back().type() != arrays.front().type() ||
        arrays.back().foreign() != arrays.front().foreign())
      throw py::type_error("all_reduce_fused: all arrays have one element type");
  }
  if (arrays.empty()) throw InvalidArgument("all_reduce_fused: there is no array");
  TensorRequest request;
  request.reducer = reducer;
  request.foreign = arrays.front().foreign();
  request.any_shape = true;
  for (const Array& array : arrays) request.inputs.push_back(array.view());
  const auto start = [&](Communicator& world) { return world.start(request); };
  return self.started(start, std::move(arrays), list, waits(wait, "all_reduce_fused"));
}

template <class Argument>
const Argument& in_stream(const Argument& argument, void* /*stream*/) {
  return argument;
}
Wait in_stream(Wait wait, void* stream) {
  return {wait.kind, stream};
}

/// The first array of a call, which knows its library's current stream.
const Object& first_of(const Object& array, const auto&... /*others*/) {
  return array;
}

/// The same call with an algorithm and a stream as its last arguments.
template <Collective collective, auto function>
struct Chosen;
template <Collective collective, class... Arguments, Object (*function)(Endpoint&, Arguments...)>
struct Chosen<collective, function> {
  static Object call(Endpoint& self, Arguments... arguments, const Object& algorithm,
                     const Object& stream) {
    void* const handle = stream_of(stream, first_of(arguments...));
    return function(self.by(collective, algorithm), in_stream(arguments, handle)...);
  }
};
template <Object (*function)(Endpoint&, Wait)>
struct Chosen<Collective::barrier, function> {
  static Object call(Endpoint& self, Wait wait, const Object& algorithm) {
    return function(self.by(Collective::barrier, algorithm), wait);
  }
};

template <Collective collective, auto function>
using Bound = Method<&Chosen<collective, function>::call>;

}  // namespace

void bind_collectives(py::handle c) {
  Bound<Collective::barrier, &barrier>::add(c,
                                            "barrier($self, *, wait=True, algorithm=None)\n--\n\n"
                                            "Returns when all ranks have called it.");
  Bound<Collective::broadcast, &broadcast>::add(
      c,
      "broadcast($self, array, root=0, *, wait=True, algorithm=None, stream=None)\n--\n\n"
      "Every rank's array becomes the root's. Returns the array.");
  Bound<Collective::reduce, &reduce>::add(
      c,
      "reduce($self, array, root=0, op='sum', *, out=None, wait=True, algorithm=None, "
      "stream=None)\n--\n\n"
      "Combines all ranks' arrays at the root, which gets the result; others get None.");
  Bound<Collective::all_reduce, &all_reduce>::add(
      c,
      "all_reduce($self, array, op='sum', *, out=None, wait=True, algorithm=None, "
      "stream=None)\n--\n\n"
      "Combines all ranks' arrays: in place, or into `out`. Returns the result.");
  Method<&all_reduce_fused>::add(
      c,
      "all_reduce_fused($self, arrays, op='sum', *, wait=True)\n--\n\n"
      "One all_reduce, in place, for many arrays of one type, such as gradients.");
  Bound<Collective::all_gather, &all_gather>::add(
      c,
      "all_gather($self, array, *, out=None, counts=None, wait=True, algorithm=None, "
      "stream=None)\n--\n\n"
      "All ranks' arrays one after another: shape (size, *array.shape), or flat with `counts`, "
      "the\n"
      "length of each rank's array.");
  Bound<Collective::gather, &gather>::add(c,
                                          "gather($self, array, root=0, *, out=None, counts=None, "
                                          "wait=True, algorithm=None, stream=None)\n--\n\n"
                                          "As all_gather, at the root only; others get None.");
  Bound<Collective::reduce_scatter, &reduce_scatter>::add(
      c,
      "reduce_scatter($self, array, op='sum', *, out=None, counts=None, wait=True, "
      "algorithm=None, stream=None)\n--\n\n"
      "Combines all ranks' arrays; rank r gets part r of `size` equal parts, or of `counts`.");
  Bound<Collective::scatter, &scatter>::add(
      c,
      "scatter($self, array=None, root=0, *, out=None, counts=None, wait=True, "
      "algorithm=None, stream=None)\n--\n\n"
      "Rank r gets part r of the root's array. Ranks that are not the root pass `out`.");
  Bound<Collective::all_to_all, &all_to_all>::add(
      c,
      "all_to_all($self, array, *, out=None, send_counts=None, receive_counts=None, wait=True, "
      "algorithm=None, stream=None)\n--\n\n"
      "Part i of the array goes to rank i; part i of the result comes from rank i.");
  Bound<Collective::scan, &scan>::add(
      c,
      "scan($self, array, op='sum', *, out=None, wait=True, algorithm=None, stream=None)\n--\n\n"
      "Combines the arrays of ranks 0 to this one.");
  Bound<Collective::exscan, &exscan>::add(
      c,
      "exscan($self, array, op='sum', *, out=None, wait=True, algorithm=None, stream=None)\n--\n\n"
      "Combines the arrays of the ranks before this one; rank 0's result stays as it is.");
}

}  // namespace capstan::python
