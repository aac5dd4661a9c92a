// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "capstan/settings.hpp"
#include "errors.hpp"

namespace capstan::pytorch {

namespace {

std::optional<DataType> type_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kByte:
      return DataType::u8;
    case at::kChar:
      return DataType::i8;
    case at::kInt:
      return DataType::i32;
    case at::kLong:
      return DataType::i64;
    case at::kHalf:
      return DataType::f16;
    case at::kBFloat16:
      return DataType::bf16;
    case at::kFloat:
      return DataType::f32;
    case at::kDouble:
      return DataType::f64;
    case at::kComplexFloat:
      return DataType::c64;
    case at::kComplexDouble:
      return DataType::c128;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case at::kFloat8_e4m3fn:
      return DataType::f8_e4m3;
    case at::kFloat8_e5m2:
      return DataType::f8_e5m2;
    case at::kUInt32:
      return DataType::u32;
    case at::kUInt64:
      return DataType::u64;
#endif
    default:
      return std::nullopt;
  }
}

bool is_short(at::ScalarType type) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  if (type == at::kUInt16) return true;
#endif
  return type == at::kShort;
}

thread_local std::optional<Reproducible> promise_of_thread;

template <class Supplement>
double factor_in(const Supplement& supplement) {
  const auto& tensor = [&]() -> const at::Tensor& {
    if constexpr (requires { supplement.tensor_factor; })
      return supplement.tensor_factor;
    else {
      static const at::Tensor none;
      return supplement.tensor_factors.empty() ? none : supplement.tensor_factors.front();
    }
  }();
  return tensor.defined() ? tensor.template item<double>() : supplement.double_factor;
}

double factor_of(const c10d::ReduceOp& op) {
  const auto* supplement = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) refuse("PREMUL_SUM has no factor");
  return factor_in(*supplement);
}

Reducer reducer_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::average;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::product;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return ReduceOp::bit_and;
    case c10d::ReduceOp::BOR:
      return ReduceOp::bit_or;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::bit_xor;
    case c10d::ReduceOp::PREMUL_SUM:
      return Reducer::premultiplied_sum(factor_of(op));
    default:
      refuse("this ReduceOp is none that Capstan knows");
  }
}

}  // namespace

Memory memory_to_move(const at::Tensor& tensor) {
  const bool is_bool = tensor.scalar_type() == at::kBool;
  if (const auto type = type_of(tensor.scalar_type()))
    return {*type, tensor.data_ptr(), Elements{static_cast<std::uint64_t>(tensor.numel())},
            is_bool ? ForeignType::boolean() : ForeignType{}};
  return {DataType::u8, tensor.data_ptr(), Elements{tensor.nbytes()},
          ForeignType::named(tensor.element_size(), c10::toString(tensor.scalar_type()))};
}

Memory memory_to_reduce(const at::Tensor& tensor) {
  if (!type_of(tensor.scalar_type()))
    refuse(
        fmt::format("Capstan cannot combine elements of type {}: convert the tensor, for example "
                    "with .to(torch.int32)",
                    c10::toString(tensor.scalar_type())));
  return memory_to_move(tensor);
}

std::string promise_bits(const std::string& promise) {
  std::optional<Reproducible> next;
  if (!promise.empty()) {
    Settings settings;
    settings.set("reproducible", promise);
    next = settings.reproducible;
  }
  const auto before = std::exchange(promise_of_thread, next);
  return before ? std::string{name_of(*before)} : "";
}

Reducer reducer_of(const c10d::ReduceOp& op, at::ScalarType type) {
  const Reducer reducer = reducer_of(op);
  const bool sums = reducer.op() == ReduceOp::sum || reducer.op() == ReduceOp::average;
  if (type == at::kBool && sums)
    refuse(
        "sums of bool are not defined: pass ReduceOp.MAX for \"any rank\", ReduceOp.MIN for "
        "\"all ranks\", or convert the tensor to count");
  return promise_of_thread ? reducer.kept(*promise_of_thread) : reducer;
}

void check_reachable(const at::Tensor& tensor) {
  if (!tensor.defined()) refuse("a tensor is undefined");
  if (!tensor.device().is_cpu())
    refuse(
        fmt::format("the backend capstan takes tensors on the CPU, not on {}: use it as "
                    "\"cpu:capstan\" beside the backend for that device",
                    tensor.device().str()));
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    refuse(
        "sparse and quantized tensors are not supported, but for all_reduce of sparse ones: pass "
        "tensor.to_dense() or tensor.dequantize()");
}

at::Tensor resolved(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg();
}

at::Tensor& only(std::vector<at::Tensor>& tensors, const char* call) {
  if (tensors.size() != 1)
    refuse(fmt::format("{} takes one tensor per rank, not {}", call, tensors.size()));
  check_reachable(tensors.front());
  return tensors.front();
}

void check_same_type(const at::Tensor& a, const at::Tensor& b, const char* call) {
  if (a.scalar_type() != b.scalar_type())
    refuse(fmt::format("{}: the tensors have different types, {} and {}", call,
                       c10::toString(a.scalar_type()), c10::toString(b.scalar_type())));
}

at::Tensor Tensors::kept(at::Tensor tensor) {
  kept_.push_back(tensor);
  return tensor;
}

void Tensors::copy_back(const at::Tensor& tensor, at::Tensor from) {
  const auto vector_of = [](at::IntArrayRef numbers) { return numbers.vec(); };
  const TensorView places{nullptr, DataType::u8, vector_of(tensor.sizes()),
                          vector_of(tensor.strides())};
  if (places.overlaps_itself())
    refuse(
        "elements of a tensor that is to be written share memory, as after expand(), so a result "
        "for each has no place: pass tensor.clone()");
  copies_.emplace_back(tensor, std::move(from));
}

at::ScalarType Tensors::type_of(const at::Tensor& tensor) const {
  const at::ScalarType type = tensor.scalar_type();
  return widens_ && is_short(type) ? at::kInt : type;
}

/// As it is, without a copy: its memory holds what it shows.
bool Tensors::takes_part(const at::Tensor& tensor) const {
  return tensor.is_contiguous() && type_of(tensor) == tensor.scalar_type() && !tensor.is_neg() &&
         !tensor.is_conj();
}

at::Tensor Tensors::input(const at::Tensor& tensor) {
  check_reachable(tensor);
  const at::NoGradGuard no_gradients;
  return kept(resolved(tensor).to(type_of(tensor)).contiguous());
}

at::Tensor Tensors::output(const at::Tensor& tensor) {
  check_reachable(tensor);
  if (takes_part(tensor)) return kept(tensor);
  const at::Tensor dense = at::empty(tensor.sizes(), tensor.options().dtype(type_of(tensor)));
  copy_back(tensor, dense);
  return kept(dense);
}

at::Tensor Tensors::in_place(const at::Tensor& tensor) {
  check_reachable(tensor);
  const at::Tensor dense = input(tensor);
  if (!takes_part(tensor)) copy_back(tensor, dense);
  return dense;
}

at::Tensor Tensors::inputs(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) {
    check_reachable(tensor);
    check_same_type(tensors.front(), tensor, "a list of inputs");
    flat.push_back(resolved(tensor).reshape({-1}).to(type_of(tensor)));
  }
  return kept(at::cat(flat));
}

at::Tensor Tensors::outputs(const std::vector<at::Tensor>& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) {
    check_reachable(tensor);
    check_same_type(tensors.front(), tensor, "a list of outputs");
    count += tensor.numel();
  }
  const at::Tensor& first_one = tensors.front();
  const at::Tensor flat = at::empty({count}, first_one.options().dtype(type_of(first_one)));
  std::int64_t first = 0;
  for (const at::Tensor& tensor : tensors) {
    copy_back(tensor, flat.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    first += tensor.numel();
  }
  return kept(flat);
}

void Tensors::settle() {
  const at::NoGradGuard no_gradients;
  for (const auto& [to, from] : copies_) {
    // Tensors of inference mode are written in it alone, and this may be a thread of the library.
    const c10::InferenceMode as_they_were{to.is_inference()};
    to.copy_(from);
  }
  copies_.clear();
  for (const auto& step : last_steps_) step();
  last_steps_.clear();
}

}  // namespace capstan::pytorch
