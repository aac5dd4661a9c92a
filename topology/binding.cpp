// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "capstan/error.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

/// An affinity mask of any length, as cpu_set_t is limited to 1024 processors.
class Mask {
 public:
  explicit Mask(std::size_t cpus) : words_((cpus + bits - 1) / bits, 0) {}

  std::size_t bytes() const { return words_.size() * sizeof(unsigned long); }
  std::size_t cpus() const { return words_.size() * bits; }
  void add(std::size_t cpu) { words_[cpu / bits] |= 1UL << (cpu % bits); }
  bool has(std::size_t cpu) const { return (words_[cpu / bits] >> (cpu % bits) & 1UL) != 0; }
  cpu_set_t* data() { return reinterpret_cast<cpu_set_t*>(words_.data()); }

 private:
  static constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
  std::vector<unsigned long> words_;
};

CpuSet to_cpu_set(const Mask& mask) {
  std::vector<unsigned> cpus;
  for (std::size_t cpu = 0; cpu < mask.cpus(); ++cpu)
    if (mask.has(cpu)) cpus.push_back(static_cast<unsigned>(cpu));
  return CpuSet{std::move(cpus)};
}

}  // namespace

CpuSet current_binding() {
  for (std::size_t cpus = 1024; cpus <= CpuSet::largest_index + 1; cpus *= 2) {
    Mask mask{cpus};
    if (::sched_getaffinity(0, mask.bytes(), mask.data()) == 0) return to_cpu_set(mask);
    if (errno != EINVAL) break;  // EINVAL: the kernel's masks are longer
  }
  throw SystemError(
      fmt::format("cannot read which processors this thread may use: "
                  "sched_getaffinity: {}; does a sandbox forbid it?",
                  std::strerror(errno)));
}

void bind_this_thread(const CpuSet& set) {
  if (set.empty()) throw InvalidArgument("cannot bind a thread to no processor: name at least one");
  Mask mask{*std::ranges::max_element(set) + std::size_t{1}};
  for (const unsigned cpu : set) mask.add(cpu);
  if (::sched_setaffinity(0, mask.bytes(), mask.data()) == 0) return;
  const int error = errno;
  throw SystemError(
      fmt::format("cannot bind this thread to processors {}: {}; it runs on {} and "
                  "may be bound to what its cgroup allows: widen the cpuset, or "
                  "start without binding",
                  to_string(set), std::strerror(error), to_string(current_binding())));
}

}  // namespace capstan
