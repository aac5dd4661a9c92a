// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/mpi/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace capstan {
namespace {

/// An MPI whose binary interface an adapter is built for.
struct Kind {
  const char* name;
  const char* library;
  const char* adapter;
  std::vector<const char*> signs;  ///< variables that its launcher sets
};

const std::array<Kind, 2>& kinds() {
  static const auto& all = *new std::array<Kind, 2>{
      Kind{"Open MPI",
           "libmpi.so.40",
           "libcapstan_mpi_openmpi.so",
           {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}},
      Kind{"MPICH", "libmpich.so.12", "libcapstan_mpi_mpich.so", {"PMI_RANK", "PMI_FD"}}};
  return all;
}

bool is_loaded(const Kind& kind) {
  void* const library = ::dlopen(kind.library, RTLD_LAZY | RTLD_NOLOAD);
  if (library) ::dlclose(library);  // it stays loaded
  return library;
}

bool has_launched(const Kind& kind) {
  for (const char* sign : kind.signs)
    if (std::getenv(sign)) return true;
  return false;
}

/// By what the process has loaded, else by what launched it, else any.
std::vector<const Kind*> choices() {
  for (const Kind& kind : kinds())
    if (is_loaded(kind)) return {&kind};
  for (const Kind& kind : kinds())
    if (has_launched(kind)) return {&kind};
  return {&kinds()[0], &kinds()[1]};
}

/// Where adapters lie: where the program says, beside this library, or where they were installed.
std::vector<std::filesystem::path> folders() {
  if (const char* named = std::getenv("CAPSTAN_PLUGINS")) return {named};
  std::vector<std::filesystem::path> all;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&kinds), &info) != 0 && info.dli_fname) {
    std::error_code ignored;
    const auto own = std::filesystem::weakly_canonical(info.dli_fname, ignored).parent_path();
    all.push_back(own / "capstan");
    all.push_back(own.parent_path() / CAPSTAN_LIBRARIES / "capstan");
  }
  all.emplace_back(CAPSTAN_INSTALLED_LIBRARIES "/capstan");
  return all;
}

const MpiAdapter* adapter_of(void* library) {
  using Get = const MpiAdapter* (*)();
  const auto get = reinterpret_cast<Get>(::dlsym(library, mpi_adapter_symbol));
  const MpiAdapter* adapter = get ? get() : nullptr;
  return adapter && adapter->version == MpiAdapter::current_version ? adapter : nullptr;
}

/// Loads the adapter and with it the library of MPI; null, and adds to the reason, if it cannot.
const MpiAdapter* load_adapter(const Kind& kind, std::string& reason) {
  std::string searched;
  for (const auto& folder : folders()) {
    const auto path = folder / kind.adapter;
    searched += fmt::format("{}{}", searched.empty() ? "" : ", ", folder.string());
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const MpiAdapter* const adapter = library ? adapter_of(library) : nullptr;
    if (adapter) return adapter;
    const char* const error = library ? "it is of another version of Capstan" : ::dlerror();
    reason += fmt::format("{}{}: {}", reason.empty() ? "" : "; ", kind.name,
                          error ? error : "it cannot be loaded");
    return nullptr;
  }
  reason += fmt::format("{}{}: its adapter {} is not in {}", reason.empty() ? "" : "; ", kind.name,
                        kind.adapter, searched);
  return nullptr;
}

constexpr std::string_view remedy =
    "install Open MPI or MPICH where the loader finds it (LD_LIBRARY_PATH), and Capstan's adapter "
    "for it (CAPSTAN_PLUGINS names its folder)";

void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 0);
}

void set_variables(const MpiConfig& config, bool open_mpi) {
  if (config.enable_tuning) {
    set("I_MPI_ADJUST_ALLREDUCE", "2");
    if (open_mpi) {
      set("OMPI_MCA_coll_tuned_use_dynamic_rules", "1");
      set("OMPI_MCA_coll_tuned_allreduce_algorithm", "6");
    } else {
      set("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "reduce_scatter_allgather");
      set("MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM", "sched_reduce_scatter_allgather");
    }
  }
  if (config.enable_profiling) {
    set("I_MPI_STATS", "1");
    if (open_mpi) set("OMPI_MCA_pml_monitoring_enable", "1");
  }
  if (config.buffer_size != MpiConfig{}.buffer_size) {
    const std::string size = fmt::to_string(config.buffer_size);
    if (open_mpi) {
      set("OMPI_MCA_btl_vader_eager_limit", size);
      set("OMPI_MCA_btl_tcp_eager_limit", size);
    } else {
      set("UCX_RNDV_THRESH", size);
    }
  }
}

bool needs_variables(const MpiConfig& config) {
  return config.enable_tuning || config.enable_profiling ||
         config.buffer_size != MpiConfig{}.buffer_size;
}

void check(const MpiConfig& config) {
  if (config.thread_level < 0 || config.thread_level > 3)
    throw InvalidArgument(fmt::format(
        "mpi: thread_level={}: pass 0 (single), 1 (funneled), 2 (serialized) or 3 (multiple)",
        config.thread_level));
  if (config.buffer_size < 1 || config.longest_count < 1)
    throw InvalidArgument("mpi: buffer_size and longest_count are positive");
}

int integer(const std::string& key, const std::string& value) {
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end || number < 0 || number > 0x7fffffff)
    throw InvalidArgument(fmt::format("mpi: {}='{}': pass an integer", key, value));
  return static_cast<int>(number);
}

}  // namespace

MpiConfig MpiConfig::from_options(const std::map<std::string, std::string>& options) {
  MpiConfig config;
  for (const auto& [key, value] : options) {
    if (key == "use_cuda_aware_mpi") config.use_cuda_aware_mpi = integer(key, value) != 0;
    if (key == "thread_level") config.thread_level = integer(key, value);
    if (key == "enable_profiling") config.enable_profiling = integer(key, value) != 0;
    if (key == "buffer_size") config.buffer_size = integer(key, value);
    if (key == "enable_tuning") config.enable_tuning = integer(key, value) != 0;
    if (key == "longest_count") config.longest_count = integer(key, value);
  }
  check(config);
  return config;
}

void MpiConfig::apply() const {
  check(*this);
  const LoadedMpi& library = LoadedMpi::get();
  if (library.adapter().initialized() && needs_variables(*this))
    throw InvalidArgument(
        "mpi: enable_tuning, enable_profiling and buffer_size come too late: MPI has been "
        "initialised. Apply them before the first backend, and before MPI_Init");
  set_variables(*this, library.is_open_mpi());
}

LoadedMpi* LoadedMpi::load(std::string& reason) {
  for (const Kind* kind : choices())
    if (const MpiAdapter* adapter = load_adapter(*kind, reason)) return new LoadedMpi{adapter};
  return nullptr;
}

namespace {

struct Loaded {
  std::string reason;
  LoadedMpi* library;
};

}  // namespace

/// Loaded once, for ever.
static Loaded& loaded(LoadedMpi* (*load)(std::string&)) {
  static auto& once = *[load] {
    auto* made = new Loaded{};
    made->library = load(made->reason);
    return made;
  }();
  return once;
}

LoadedMpi& LoadedMpi::get() {
  const Loaded& found = loaded(load);
  if (!found.library)
    throw NotSupported("mpi", fmt::format("mpi: no MPI can be used: {}: {}", found.reason, remedy));
  return *found.library;
}

Availability LoadedMpi::look() {
  const Loaded& found = loaded(load);
  if (found.library) return {};
  return {false, found.reason, std::string{remedy}};
}

bool LoadedMpi::is_open_mpi() const {
  return std::string_view{adapter_->library} == "Open MPI";
}

/// The process that has initialised MPI.
static pid_t initialised_in = 0;

void LoadedMpi::finalise() {
  if (initialised_in != ::getpid()) return;  // a forked child
  const MpiAdapter& mpi = get().adapter();
  if (mpi.initialized() && !mpi.finalized()) mpi.finalize();
}

void LoadedMpi::ensure_initialised(const MpiConfig& config) {
  const std::lock_guard lock{mutex_};
  if (adapter_->finalized())
    throw InvalidArgument(
        "mpi: MPI has been finalised in this process and cannot be initialised again: make "
        "backends before that");
  config.apply();
  if (adapter_->initialized()) return;
  int got = 0;
  require(adapter_->init(config.thread_level, &got), "mpi: MPI_Init_thread");
  initialised_here_ = true;
  initialised_in = ::getpid();
  std::atexit(&LoadedMpi::finalise);
}

MpiState LoadedMpi::state() {
  const std::lock_guard lock{mutex_};
  std::string text(MpiAdapter::text_length, '\0');
  adapter_->version_text(text.data());
  MpiState state{adapter_->library,
                 text.c_str(),
                 adapter_->initialized() && !adapter_->finalized(),
                 initialised_here_,
                 0,
                 adapter_->cuda_aware()};
  if (state.initialised) state.thread_level = adapter_->thread_level();
  return state;
}

void LoadedMpi::require(int code, const std::string& call) const {
  if (code == 0) return;
  std::string text(MpiAdapter::text_length, '\0');
  adapter_->error_text(code, text.data());
  const std::string message = fmt::format("{}: {} says: {}", call, adapter_->library, text.c_str());
  if (adapter_->is_truncation(code)) throw Truncated(message);
  throw BackendError("mpi", adapter_->error_class(code), message);
}

MpiState mpi_state() {
  return LoadedMpi::get().state();
}

}  // namespace capstan
