// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/gpu_page_locker.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"

// This file declares the few functions of CUDA's driver and HIP's runtime that it uses, as their
// ABIs have them, so that Capstan builds without either.

namespace capstan {
namespace {

constexpr int out_of_memory = 2;  ///< in both

[[noreturn]] void refuse(std::string_view call, Bytes size, int code, const char* text) {
  const std::string what = fmt::format("{} of {} failed: {} ({})", call, readable(size),
                                       text != nullptr ? text : "unknown error", code);
  if (code == out_of_memory)
    throw LimitReached(what +
                       ": use less page-locked memory, or look for what limits it: the "
                       "machine's memory, its cgroup, RLIMIT_MEMLOCK");
  throw SystemError(what);
}

AddressRange block_at(void* block, Bytes size) {
  return address_range(block, size, "allocate");
}

/// CUDA's driver API: 0 is success everywhere.
class CudaLocker final : public PageLocker {
 public:
  static std::unique_ptr<PageLocker> open(std::shared_ptr<SharedLibrary> library) {
    std::unique_ptr<CudaLocker> locker{new CudaLocker(std::move(library))};
    if (locker->complete() && locker->retain_context()) return locker;
    return nullptr;
  }
  ~CudaLocker() override {
    if (context_ != nullptr) primary_context_release_(device_);
  }

  std::string_view name() const override { return "CUDA"; }

  AddressRange allocate(Bytes size) override {
    void* block = nullptr;
    in_context("cuMemHostAlloc", size, [&] { return host_alloc_(&block, size.value(), portable); });
    return block_at(block, size);
  }
  void deallocate(AddressRange block) noexcept override {
    if (!enter()) return;
    host_free_(block.data());
    leave();
  }
  void lock(AddressRange pages) override {
    in_context("cuMemHostRegister", pages.size(),
               [&] { return host_register_(pages.data(), pages.size().value(), portable); });
  }
  void unlock(AddressRange pages) noexcept override {
    if (!enter()) return;
    host_unregister_(pages.data());
    leave();
  }

 private:
  using Context = void*;
  static constexpr unsigned portable = 1;  ///< pinned for all contexts

  explicit CudaLocker(std::shared_ptr<SharedLibrary> library) : library_(std::move(library)) {
    library_->find(init_, "cuInit");
    library_->find(device_get_, "cuDeviceGet");
    library_->find(primary_context_retain_, "cuDevicePrimaryCtxRetain");
    library_->find(primary_context_release_, "cuDevicePrimaryCtxRelease_v2");
    library_->find(push_, "cuCtxPushCurrent_v2");
    library_->find(pop_, "cuCtxPopCurrent_v2");
    library_->find(host_alloc_, "cuMemHostAlloc");
    library_->find(host_free_, "cuMemFreeHost");
    library_->find(host_register_, "cuMemHostRegister_v2");
    library_->find(host_unregister_, "cuMemHostUnregister");
    library_->find(error_string_, "cuGetErrorString");
  }

  bool complete() const {
    return init_ && device_get_ && primary_context_retain_ && primary_context_release_ && push_ &&
           pop_ && host_alloc_ && host_free_ && host_register_ && host_unregister_ && error_string_;
  }
  bool retain_context() {
    return init_(0) == 0 && device_get_(&device_, 0) == 0 &&
           primary_context_retain_(&context_, device_) == 0;
  }
  bool enter() const { return push_(context_) == 0; }
  void leave() const {
    Context ours = nullptr;
    pop_(&ours);
  }

  template <class Call>
  void in_context(std::string_view call, Bytes size, const Call& make) {
    int code = push_(context_);
    if (code == 0) {
      code = make();
      leave();
    }
    if (code == 0) return;
    const char* text = nullptr;
    error_string_(code, &text);
    refuse(call, size, code, text);
  }

  std::shared_ptr<SharedLibrary> library_;
  int device_ = 0;
  Context context_ = nullptr;

  int (*init_)(unsigned) = nullptr;
  int (*device_get_)(int*, int) = nullptr;
  int (*primary_context_retain_)(Context*, int) = nullptr;
  int (*primary_context_release_)(int) = nullptr;
  int (*push_)(Context) = nullptr;
  int (*pop_)(Context*) = nullptr;
  int (*host_alloc_)(void**, std::size_t, unsigned) = nullptr;
  int (*host_free_)(void*) = nullptr;
  int (*host_register_)(void*, std::size_t, unsigned) = nullptr;
  int (*host_unregister_)(void*) = nullptr;
  int (*error_string_)(int, const char**) = nullptr;
};

class HipLocker final : public PageLocker {
 public:
  static std::unique_ptr<PageLocker> open(std::shared_ptr<SharedLibrary> library) {
    std::unique_ptr<HipLocker> locker{new HipLocker(std::move(library))};
    int devices = 0;
    if (locker->complete() && locker->device_count_(&devices) == 0 && devices > 0) return locker;
    return nullptr;
  }

  std::string_view name() const override { return "HIP"; }

  AddressRange allocate(Bytes size) override {
    void* block = nullptr;
    check("hipHostMalloc", size, host_malloc_(&block, size.value(), portable));
    return block_at(block, size);
  }
  void deallocate(AddressRange block) noexcept override { host_free_(block.data()); }
  void lock(AddressRange pages) override {
    check("hipHostRegister", pages.size(),
          host_register_(pages.data(), pages.size().value(), portable));
  }
  void unlock(AddressRange pages) noexcept override { host_unregister_(pages.data()); }

 private:
  static constexpr unsigned portable = 1;

  explicit HipLocker(std::shared_ptr<SharedLibrary> library) : library_(std::move(library)) {
    library_->find(device_count_, "hipGetDeviceCount");
    library_->find(host_malloc_, "hipHostMalloc");
    library_->find(host_free_, "hipHostFree");
    library_->find(host_register_, "hipHostRegister");
    library_->find(host_unregister_, "hipHostUnregister");
    library_->find(error_string_, "hipGetErrorString");
  }
  bool complete() const {
    return device_count_ && host_malloc_ && host_free_ && host_register_ && host_unregister_ &&
           error_string_;
  }
  void check(std::string_view call, Bytes size, int code) const {
    if (code != 0) refuse(call, size, code, error_string_(code));
  }

  std::shared_ptr<SharedLibrary> library_;
  int (*device_count_)(int*) = nullptr;
  int (*host_malloc_)(void**, std::size_t, unsigned) = nullptr;
  int (*host_free_)(void*) = nullptr;
  int (*host_register_)(void*, std::size_t, unsigned) = nullptr;
  int (*host_unregister_)(void*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
};

}  // namespace

std::unique_ptr<PageLocker> make_cuda_locker(const LibraryLoader& loader) {
  auto library = loader.open({"libcuda.so.1"});
  return library ? CudaLocker::open(std::move(library)) : nullptr;
}

std::unique_ptr<PageLocker> make_hip_locker(const LibraryLoader& loader) {
  auto library = loader.open(hip_libraries());
  return library ? HipLocker::open(std::move(library)) : nullptr;
}

std::unique_ptr<PageLocker> make_page_locker(const LibraryLoader& loader) {
  if (auto locker = make_cuda_locker(loader)) return locker;
  if (auto locker = make_hip_locker(loader)) return locker;
  return make_memory_locker();
}

std::unique_ptr<PageLocker> make_page_locker(const DeviceBuffer& where) {
  const std::string_view vendor = where.driver ? where.driver->name() : "";
  auto locker = vendor == "CUDA"  ? make_cuda_locker()
                : vendor == "HIP" ? make_hip_locker()
                                  : nullptr;
  return locker ? std::move(locker) : make_page_locker();
}

}  // namespace capstan
