// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/fake_device.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace capstan::fake {

// Counters, which tests change by adding to them. Set by tests: "fail_to_host" and
// "fail_to_device", the number of copies that fail; "hang", streams never continue; "lost", the
// error of all streams from now on; "version", of HIP; "capturing", streams are captured;
// "no_memory", allocations that fail; "multiprocessors", of each device beyond two; "peerless",
// devices do not reach each other; "linked", devices have a link of their own; "takes_turns",
// processes do on a device; "imageless", modules that fail to load; "kernelless", kernels that are
// not found; "fail_launch", launches fail. Read by tests: "kernels", launches; "to_host" and
// "to_device", copies made; "pinned", ranges pinned so far; "depth", contexts pushed and not
// popped, on all threads.

Devices& devices() {
  static auto& all = *new Devices;
  return all;
}

std::byte* Devices::allocate(std::size_t size, int device, void* context, bool managed,
                             bool shared) {
  const int memory = ::memfd_create("device", MFD_CLOEXEC);
  if (memory < 0 || ::ftruncate(memory, static_cast<off_t>(size)) != 0) return nullptr;
  return map({nullptr, size, nullptr, device, context, managed, shared, memory});
}

std::byte* Devices::map(Allocation made) {
  const auto map = [&](int access) {
    return static_cast<std::byte*>(::mmap(nullptr, made.size, access, MAP_SHARED, made.memory, 0));
  };
  made.address = map(made.managed ? PROT_READ | PROT_WRITE : PROT_NONE);
  made.data = map(PROT_READ | PROT_WRITE);
  const std::lock_guard lock{mutex_};
  made.number = ++numbers_;
  allocations_[reinterpret_cast<std::uintptr_t>(made.address)] = made;
  return made.address;
}

std::byte* Devices::open(const IpcHandle& handle) {
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int memory = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0) return nullptr;
  return map({nullptr, handle.size, nullptr, handle.device, nullptr, false, handle.shared, memory});
}

bool Devices::describe(const void* address, IpcHandle& handle) {
  const auto memory = find(address);
  if (!memory) return false;
  handle = {::getpid(), memory->memory, memory->size, memory->device, memory->shared, {}};
  return true;
}

int Devices::export_descriptor(const void* address) {
  const auto memory = find(address);
  return memory ? ::fcntl(memory->memory, F_DUPFD_CLOEXEC, 0) : -1;
}

int Devices::describe_allocation(const void* address, int attribute, void* value) {
  const auto memory = find(address);
  const std::uint64_t begin = memory ? reinterpret_cast<std::uintptr_t>(memory->address) : 0;
  if (attribute == 7) *static_cast<std::uint64_t*>(value) = memory ? memory->number : 0;
  if (attribute == 11) *static_cast<std::uint64_t*>(value) = begin;
  if (attribute == 12) *static_cast<std::uint64_t*>(value) = memory ? memory->size : 0;
  return memory ? success : invalid_value;
}

void Devices::release(const void* address) {
  streams().drain();  // a copy that was given up may be on its way
  if (const auto memory = find(address)) streams().await_untouched(memory->data, memory->size);
  const std::lock_guard lock{mutex_};
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == allocations_.end()) return;
  ::munmap(found->second.address, found->second.size);
  ::munmap(found->second.data, found->second.size);
  ::close(found->second.memory);
  allocations_.erase(found);
}

const Devices::Allocation* Devices::found(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin()) return nullptr;
  --next;
  return at < next->first + next->second.size ? &next->second : nullptr;
}

std::optional<Devices::Allocation> Devices::find(const void* address) {
  const std::lock_guard lock{mutex_};
  const Allocation* const allocation = found(address);
  return allocation ? std::optional{*allocation} : std::nullopt;
}

void* Devices::allocate_host(std::size_t size) {
  void* block = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  add_host(block, size);
  return block;
}

void Devices::release_host(void* block) {
  const std::lock_guard lock{mutex_};
  const auto found = pinned_.find(reinterpret_cast<std::uintptr_t>(block));
  if (found == pinned_.end()) return;
  ::munmap(block, found->second);
  pinned_.erase(found);
}

int Devices::add_host(const void* begin, std::size_t size) {
  const std::lock_guard lock{mutex_};
  ++knobs_["pinned"];
  return pinned_.emplace(reinterpret_cast<std::uintptr_t>(begin), size).second ? success
                                                                               : invalid_value;
}

int Devices::remove_host(const void* begin) {
  const std::lock_guard lock{mutex_};
  return pinned_.erase(reinterpret_cast<std::uintptr_t>(begin)) == 1 ? success : invalid_value;
}

bool Devices::is_pinned(const void* begin, std::size_t size) {
  const std::lock_guard lock{mutex_};
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  auto next = pinned_.upper_bound(at);
  return next != pinned_.begin() && at + size <= (--next)->first + next->second;
}

/// The address for copies. Null past the end of an allocation; host memory has its own address.
const std::byte* Devices::reachable(const void* address, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(address);
  const Allocation* const allocation = found(address);
  if (!allocation) return bytes;
  const auto offset = static_cast<std::size_t>(bytes - allocation->address);
  return offset + size <= allocation->size ? allocation->data + offset : nullptr;
}

int Devices::copy_now(void* to, const void* from, std::size_t size) {
  if (size == 0) return success;
  const std::lock_guard lock{mutex_};
  auto* const target = const_cast<std::byte*>(reachable(to, size));
  const std::byte* const source = reachable(from, size);
  if (!target || !source) return invalid_value;
  std::memcpy(target, source, size);
  return success;
}

void* Devices::make_stream(void* context, int device) {
  return streams().make(context, device);
}

int Devices::start_copy(void* to, const void* from, std::size_t size, void* stream, void* context,
                        int device) {
  auto* const on = static_cast<Stream*>(stream);
  if (on->context != context || on->device != device) return invalid_context;
  const bool to_device = find(to).has_value();
  if (!is_pinned(to_device ? from : to, size)) return invalid_value;
  std::unique_lock lock{mutex_};
  int& failures = knobs_[to_device ? "fail_to_device" : "fail_to_host"];
  if (failures > 0) return --failures, launch_failed;
  const Allocation* const memory = found(to_device ? to : from);
  if (!memory || memory->device != device || (memory->context && memory->context != context))
    return invalid_context;
  auto* const target = const_cast<std::byte*>(reachable(to, size));
  const std::byte* const source = reachable(from, size);
  if (!target || !source) return invalid_value;
  ++knobs_[to_device ? "to_device" : "to_host"];
  lock.unlock();
  streams().put(on, {.action = [target, source, size] { std::memcpy(target, source, size); },
                     .touches = to_device ? target : source});
  return success;
}

int Devices::set(void* memory, int value, std::size_t size, void* stream) {
  std::unique_lock lock{mutex_};
  auto* const target = found(memory) ? const_cast<std::byte*>(reachable(memory, size)) : nullptr;
  lock.unlock();
  if (!target) return invalid_value;
  streams().put(static_cast<Stream*>(stream),
                {.action = [=] { std::memset(target, value, size); }});
  return success;
}

int Devices::multiprocessors() {
  return 2 + knob("multiprocessors", 0);
}

int Devices::query(void* stream) {
  return streams().query(static_cast<Stream*>(stream));
}

bool Devices::take(const std::string& name) {
  const std::lock_guard lock{mutex_};
  int& left = knobs_[name];
  return left > 0 && left-- > 0;
}

int Devices::knob(const std::string& name, int change) {
  const std::lock_guard lock{mutex_};
  const int value = knobs_[name] += change;
  if (name == "hang") {
    streams().hang = value != 0;
    streams().has_hung = true;
  }
  if (name == "lost") streams().lost = value;
  return value;
}

}  // namespace capstan::fake

// For programs of tests.
extern "C" {

int fake_knob(const char* name, int change) {
  return capstan::fake::devices().knob(name, change);
}
/// A kernel in a stream: the function gets `data`, and accesses memory of devices by fake_data().
int fake_launch(void* stream, void (*kernel)(void*), void* data) {
  capstan::fake::streams().put(static_cast<capstan::fake::Stream*>(stream),
                               {.action = [kernel, data] { kernel(data); }});
  return 0;
}
/// Puts the kernels that have been captured in a stream there again.
void fake_replay(void* stream) {
  capstan::fake::devices().replay(static_cast<capstan::fake::Stream*>(stream));
}
int fake_synchronize(void* stream) {
  return capstan::fake::streams().synchronize(static_cast<capstan::fake::Stream*>(stream));
}
int fake_synchronize_alone(void* stream) {
  return capstan::fake::streams().synchronize_alone(static_cast<capstan::fake::Stream*>(stream));
}
/// Where devices access the memory at an address of theirs.
void* fake_data(const void* address) {
  const auto memory = capstan::fake::devices().find(address);
  return memory ? memory->data + (static_cast<const std::byte*>(address) - memory->address)
                : nullptr;
}
}
