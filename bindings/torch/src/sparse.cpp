// SPDX-License-Identifier: Apache-2.0

// Sums of sparse tensors: each rank gathers the elements of all and adds them up in the same order.

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "errors.hpp"
#include "group.hpp"
#include "signals.hpp"

namespace capstan::pytorch {

namespace {

constexpr std::size_t most_dimensions = 13;

/// The shape of a sparse tensor: the numbers of its elements, of sparse and of all dimensions, the
/// type, and the dimensions.
using Shape = std::array<std::int64_t, 4 + most_dimensions>;

Shape shape_of(const at::Tensor& tensor) {
  Shape shape{tensor._nnz(), tensor.sparse_dim(), tensor.dim(),
              static_cast<std::int64_t>(tensor.scalar_type())};
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), shape.begin() + 4);
  return shape;
}

void check_sparse(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto kind = static_cast<c10d::ReduceOp::RedOpType>(op);
  const bool sums = kind == c10d::ReduceOp::SUM || kind == c10d::ReduceOp::AVG;
  if (!sums) refuse("all_reduce of sparse tensors: only SUM and AVG are defined");
  if (!tensor.device().is_cpu()) refuse("all_reduce of sparse tensors: they must be on the CPU");
  if (static_cast<std::size_t>(tensor.dim()) > most_dimensions)
    refuse(fmt::format("all_reduce of sparse tensors: {} dimensions, but {} at most are possible",
                       tensor.dim(), most_dimensions));
}

/// All ranks see the same shapes, so all refuse those that differ.
void check_same_shapes(const std::vector<Shape>& shapes) {
  for (const Shape& shape : shapes)
    if (!std::equal(shape.begin() + 1, shape.end(), shapes.front().begin() + 1))
      refuse(
          "all_reduce of sparse tensors: ranks have different shapes, types, or sparse dimensions");
}

/// A gather of tensors whose lengths differ by rank, and where each one lies in `all`.
struct Gather {
  std::vector<Elements> counts;
  at::Tensor mine, all;

  Gather(at::Tensor tensor, const std::vector<std::int64_t>& lengths) : mine(std::move(tensor)) {
    std::int64_t sum = 0;
    const std::int64_t bytes = mine.element_size();
    for (const std::int64_t length : lengths) {
      counts.emplace_back(static_cast<std::uint64_t>(length * bytes));
      sum += length;
    }
    all = at::empty({sum}, mine.options());
  }
  Request request() const {
    Request request;
    request.collective = Collective::all_gather_v;
    request.input = mine.data_ptr();
    request.input_count = Elements{mine.nbytes()};
    request.output = all.data_ptr();
    request.output_count = Elements{all.nbytes()};
    request.counts = counts;
    return request;
  }
};

std::vector<Shape> shapes_of_all(Communicator& communicator, const Shape& own) {
  struct Exchange {
    Shape own;
    std::vector<Shape> all;
  };
  const auto exchange = std::make_shared<Exchange>(
      own, std::vector<Shape>(static_cast<std::size_t>(communicator.size())));
  translating([&] {
    Request request;
    request.collective = Collective::all_gather;
    request.type = DataType::i64;
    request.input = exchange->own.data();
    request.input_count = Elements{own.size()};
    request.output = exchange->all.data();
    request.output_count = Elements{own.size() * exchange->all.size()};
    const capstan::Work work = communicator.start(request);
    work.on_complete([exchange](const capstan::Work&) {});  // keeps it, if Ctrl-C ends the wait
    ends_before(work, Deadline::never());
  });
  return exchange->all;
}

at::Tensor sum_of(const std::vector<Shape>& shapes, const at::Tensor& indices,
                  const at::Tensor& values, const at::Tensor& like) {
  std::vector<at::Tensor> places;
  std::int64_t first = 0;
  for (const Shape& shape : shapes) {
    const std::int64_t elements = shape[0], dimensions = shape[1];
    places.push_back(indices.narrow(0, first, elements * dimensions).view({dimensions, elements}));
    first += elements * dimensions;
  }
  const at::Tensor place = at::cat(places, 1);
  auto sizes = like._values().sizes().vec();
  sizes[0] = place.size(1);
  return at::sparse_coo_tensor(place, values.view(sizes), like.sizes(), like.options()).coalesce();
}

}  // namespace

/// Returns when all ranks have called it, as lengths are exchanged first.
void Group::start_sparse_all_reduce(Handle& handle, const at::Tensor& tensor,
                                    const c10d::ReduceOp& op) {
  check_sparse(tensor, op);
  const at::NoGradGuard no_gradients;
  const at::Tensor own = tensor.coalesce();
  const std::vector<Shape> shapes = shapes_of_all(*communicator(), shape_of(own));
  check_same_shapes(shapes);

  std::vector<std::int64_t> places, values;
  std::int64_t block = 1;
  for (std::int64_t i = own.sparse_dim(); i < own.dim(); ++i) block *= own.size(i);
  for (const Shape& shape : shapes) {
    places.push_back(shape[0] * shape[1]);
    values.push_back(shape[0] * block);
  }
  const Gather of_places{own._indices().contiguous(), places};
  const Gather of_values{resolved(own._values()).contiguous(), values};
  start(handle, of_places.request());
  start(handle, of_values.request());
  const bool averages = static_cast<c10d::ReduceOp::RedOpType>(op) == c10d::ReduceOp::AVG;
  handle.tensors().at_end([=, size = size_, to = tensor] {
    const c10::InferenceMode as_it_was{to.is_inference()};
    const at::Tensor sum = sum_of(shapes, of_places.all, of_values.all, own);
    at::Tensor result = to;
    result.copy_(averages ? sum / size : sum);
  });
}

}  // namespace capstan::pytorch
