// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/device_staging.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/gpu_page_locker.hpp"

namespace capstan {
namespace {

void copy(const Transfer& transfer, void* to, const void* from, Bytes size) {
  DeviceCopies copies{transfer};
  copies.copy(to, from, size.value());
  copies.finish();
}

/// Whether a call writes its whole output. If not, the output has to be staged in, too.
bool writes_all(Collective collective) {
  return collective != Collective::exscan;
}

}  // namespace

std::string call_of(int rank, const std::string& call) {
  return fmt::format("rank {}: {}", rank, call);
}

PinnedMemory& DeviceStaging::memory(const void* on_device) {
  const DeviceBuffer where = find_device_buffer(on_device).value_or(DeviceBuffer{});
  const std::lock_guard lock{mutex_};
  const auto found = memory_.find(where.driver);
  if (found != memory_.end()) return found->second;
  return memory_.try_emplace(where.driver, make_page_locker(where), limit_).first->second;
}

std::shared_ptr<std::byte> DeviceStaging::pinned(Bytes size, const std::string& call,
                                                 const void* on_device) {
  try {
    auto handle = std::make_shared<PinnedMemory::Handle>(memory(on_device).allocate(size));
    std::byte* const data = handle->data();
    return {std::move(handle), data};
  } catch (const LimitReached& error) {
    throw LimitReached(fmt::format(
        "{}: buffers on a device need {} of pinned host memory: {}; or let other operations end "
        "first, or raise CAPSTAN_PINNED_MEMORY ({})",
        call, readable(size), error.what(), readable(limit_)));
  } catch (const SystemError& error) {
    throw SystemError(
        fmt::format("{}: no pinned host memory for buffers on a device: {}", call, error.what()));
  }
}

void DeviceStaging::stage(Task& task, int rank) {
  const bool input = task.input_bytes > Bytes{0} && on_device(task.input);
  const bool output = task.output_bytes > Bytes{0} && on_device(task.output);
  if (input || output) stage(task, call_of(rank, to_string(*task.call)), input, output);
}

void DeviceStaging::stage(Task& task, const std::string& call, bool input, bool output) {
  const void* const from = task.input;
  void* const to = task.output;
  std::vector<std::shared_ptr<void>> memory;  // the input's first, the output's last
  replace_buffers(task, input, output, [&](AddressRange range) {
    const auto block = pinned(range.size(), call, range.data());
    memory.push_back(block);
    return block.get();
  });
  task.keep.insert(task.keep.end(), memory.begin(), memory.end());
  const Transfer in = transfer(call, memory.front()), out = transfer(call, memory.back());
  const bool fills = output && !writes_all(task.call->collective);
  if (input || fills)
    task.transfers.add(TransferStep::stage,
                       [=, staged = task.input, staged_output = task.output,
                        size = task.input_bytes, output_size = task.output_bytes] {
                         if (input) copy(in, const_cast<void*>(staged), from, size);
                         if (fills) copy(out, staged_output, to, output_size);
                       });
  task.reads_input_at_once = input || fills;
  if (output)
    task.transfers.add(TransferStep::unstage, [=, staged = task.output, size = task.output_bytes] {
      copy(out, to, staged, size);
    });
}

void DeviceStaging::stage(Messages::MessageTransfer& message, const std::string& call) {
  if (message.size == 0 || !on_device(message.data)) return;
  const auto memory = pinned(Bytes{message.size}, call, message.data);
  const Transfer transfer = this->transfer(call, memory);
  std::byte* const data = std::exchange(message.data, memory.get());
  message.make_special().owner = memory;
  if (message.sends)
    copy(transfer, message.data, data, Bytes{message.size});
  else
    message.special->unpack = [=, staged = message.data](Bytes size) {
      copy(transfer, data, staged, size);
    };
}

void DeviceStaging::stage_if_needed(Messages::MessageTransfer& message, const std::string& call) {
  if (!message.sends && !flush_after_read(message, call)) return stage(message, call);
  message.make_special().stage = [this, call](Messages::MessageTransfer& later) {
    stage(later, call);
  };
}

/// A card's writes to a device are flushed when they have come. False where the device cannot do
/// it.
bool DeviceStaging::flush_after_read(Messages::MessageTransfer& message, const std::string& call) {
  const auto where = find_device_buffer(message.data);
  const auto flush = [where, call] {
    at_place(*where, call,
             [&](DeviceDriver& driver) { return driver.flush_remote_writes(where->place.device); });
  };
  try {
    if (where) flush();
  } catch (const SystemError&) {
    return false;
  }
  message.make_special().flush = flush;
  return where.has_value();
}

}  // namespace capstan
