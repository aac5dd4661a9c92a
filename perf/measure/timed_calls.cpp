// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/timed_calls.hpp"

#include <algorithm>

#include "perf/measure/device_calls.hpp"

namespace capstan::perf {
namespace {

constexpr std::size_t line = 64;

/// From one buffer to the next one of its kind.
std::size_t stride_of(std::size_t bytes) {
  return std::max(line, (bytes + line - 1) / line * line);
}

/// A pointer that a call with no elements has as well stays as it is.
template <class Pointer>
void move(Pointer& pointer, std::size_t bytes) {
  if (pointer) pointer = static_cast<std::byte*>(const_cast<void*>(pointer)) + bytes;
}

}  // namespace

std::string_view name_of(Calling form) {
  constexpr std::string_view names[] = {"blocking", "started", "fused"};
  return names[static_cast<std::size_t>(form)];
}

/// Twice as much as all caches hold, input and output together.
std::size_t area_bytes(Bytes largest, Bytes cache, const CallOptions& options) {
  constexpr std::size_t least = 4096, widest_element = 16;
  const std::size_t one_call = stride_of(largest.value()) * static_cast<std::size_t>(options.many);
  const std::size_t all = options.off_cache ? std::max(one_call * 2, cache.value()) : one_call;
  return std::max(all, least) + options.offset * widest_element;
}

TimedCalls::TimedCalls(Communicator& ranks, DeviceCalls* device, const Cell& cell,
                       const BufferArea& area, const CallOptions& options)
    : ranks_(ranks),
      device_(device),
      form_(options.form),
      simple_(!device && options.form == Calling::blocking && !options.off_cache) {
  const Bytes element = size_of(cell.type),
              extent = bytes_of(cell.contract(ranks.size()).extent(), element);
  const std::size_t offset = options.offset * element.value();
  const auto many = static_cast<std::size_t>(options.many);
  stride_ = stride_of(extent.value());
  for (std::size_t at = offset; buffers_.size() < many; at += stride_) {
    buffers_.push_back({area.input + at, area.output + at, extent.value()});
    requests_.push_back(request_of(cell, ranks.rank(), ranks.size(), buffers_.back().input,
                                   buffers_.back().output));
  }
  first_ = requests_;
  if (options.off_cache) places_ = (area.bytes - offset) / (stride_ * many);
  if (form_ != Calling::fused) return;
  whole_ = requests_.front();
  whole_.input_count = whole_.output_count = Elements{whole_.input_count.value() * many};
  fused_.reducer = cell.op;
  for (const Request& each : requests_)
    fused_.inputs.emplace_back(
        each.output, each.type,
        std::vector<std::int64_t>{static_cast<std::int64_t>(each.output_count.value())});
}

void TimedCalls::use_place(std::size_t place) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i].input = first_[i].input, requests_[i].output = first_[i].output;
    move(requests_[i].input, place * stride_ * requests_.size());
    move(requests_[i].output, place * stride_ * requests_.size());
  }
}

/// To the buffers of the next call.
void TimedCalls::step() {
  if (places_ == 1) return;
  place_ = (place_ + 1) % places_;
  use_place(place_);
}

void TimedCalls::begin() {
  if (form_ == Calling::fused) {
    under_way_.push_back(ranks_.start(fused_));
    return;
  }
  for (const Request& request : requests_)
    if (device_)
      device_->run(request);
    else if (form_ == Calling::blocking)
      ranks_.run(request);
    else
      under_way_.push_back(ranks_.start(request));
}

void TimedCalls::end() {
  for (const Work& work : under_way_) work.wait();
  under_way_.clear();
  step();
}

void TimedCalls::continue_by_thread() {
  for (const Work& work : under_way_) work.ensure_overlap();
}

}  // namespace capstan::perf
