// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/gpu_direct.hpp"
#include "capstan/quantity.hpp"
#include "capstan/reproducible.hpp"

namespace CAPSTAN_EXPORT capstan {

/// How ranks on several hosts find their store when its address is not set.
enum class Bootstrap {
  automatic,  ///< local sockets on one host; over several, the PMIx or PMI that the launcher offers
  tcp,        ///< only by an address that is set (CAPSTAN_STORE, MASTER_ADDR), or on one host
  pmix,       ///< by the launcher's PMIx, also on one host; an error where there is none
  pmi,        ///< by the launcher's PMI, also on one host; an error where there is none
};

/// See Settings::network.
enum class Network : std::uint8_t { automatic, tcp, ofi, verbs };

/// How data between hosts are protected: see Settings::wire.
enum class Wire : std::uint8_t { plain, authenticated, encrypted };
/// "plain".
std::string_view name_of(Wire wire);

/// Every setting of the engine. Each can be set in the program or by the environment variable
/// named beside it. What else the library reads from the environment is no setting: what launchers
/// say, where profiles are (XDG_CONFIG_HOME, HOME, XDG_CONFIG_DIRS), where adapters of backends are
/// (CAPSTAN_PLUGINS), where values write what ran (CAPSTAN_DEBUG_DAG), what is logged
/// (CAPSTAN_LOG), and variables of the drivers and libraries below it.
struct Settings {
  /// How long start-up waits for all ranks to join. CAPSTAN_JOIN_TIMEOUT, seconds.
  std::chrono::milliseconds join_timeout = std::chrono::seconds{60};

  /// How start-up finds the other ranks. CAPSTAN_BOOTSTRAP: auto, tcp, pmix or pmi.
  Bootstrap bootstrap = Bootstrap::automatic;

  /// A secret that the ranks share when they meet in a store of the program (Communicator::join):
  /// what they put there is encrypted with it, so that whoever else can read or write the store can
  /// neither join nor read along. The same on all ranks; 16 characters or more. Empty: everybody
  /// who can read the store can join. CAPSTAN_SECRET.
  std::string secret;

  /// The interface under which ranks on other hosts reach this host: the interface's name, its
  /// address, or a network that contains the address, for example eth0, 192.0.2.7, 192.0.2.0/24 or
  /// ::/0 (any IPv6); or several with commas between them, the best first. A network fits hosts
  /// whose interfaces have different names. Empty: the first that is up. CAPSTAN_INTERFACE.
  std::string interface;

  /// The transport between hosts. CAPSTAN_NETWORK: tcp, ofi (libfabric), verbs (RDMA), or auto:
  /// verbs where every rank has a device, else tcp.
  Network network = Network::automatic;

  /// The protection of data between hosts, over tcp; ofi and verbs have plain only. Authenticated:
  /// nobody outside the job can change, repeat or inject anything. Encrypted: nor read it. Both
  /// take processor time for each byte. The same on all ranks. CAPSTAN_WIRE: plain, authenticated
  /// or encrypted.
  Wire wire = Wire::plain;

  /// The congestion control of connections between hosts, for example "cubic" or "dctcp". Empty:
  /// the system's own, but reno instead of BBR, which underestimates the network when traffic comes
  /// in bursts. CAPSTAN_TCP_CONGESTION.
  std::string tcp_congestion;

  /// The provider of libfabric that the ofi network uses, for example "tcp" or "verbs". Empty: the
  /// best there is. CAPSTAN_PROVIDER.
  std::string provider;

  /// The devices of this host that carry data to other hosts. For the verbs network these are RDMA
  /// devices, for example "mlx5_0" or, with a port, "mlx5_0,mlx5_1:2". For ofi these are domains as
  /// `fi_info` names them, for example "mlx5_0,mlx5_1" or "eth0,eth1". The ranks on the host take
  /// the devices in turn. Empty: the first port that is up, or the best domain.
  /// CAPSTAN_RDMA_DEVICES.
  std::string rdma_devices;

  /// The number of connections over which a rank sends long data to a rank on another host, 1 to 8.
  /// Each connection takes the next of the devices, or of the interfaces, that are named above, so
  /// that a rank uses several network cards. The same on all ranks. CAPSTAN_RAILS.
  int rails = 1;

  /// Within a host, the first calls of each kind and size are run by several candidates (algorithm,
  /// protocol and block length) and timed; later calls run by the fastest, the same on all ranks.
  /// The best candidates are timed again from time to time, ever more rarely, because machines
  /// change. Floating-point results do not depend on this setting: candidates are compared only if
  /// they give the same bits. Off on any rank, or with rules in `algorithm`, the model of the
  /// machine decides alone. CAPSTAN_AUTOTUNE, 0 or 1.
  bool autotune = true;

  /// How long an operation waits for a peer that is alive before it fails with TimedOut.
  /// CAPSTAN_TIMEOUT, seconds.
  std::chrono::milliseconds timeout = std::chrono::seconds{300};

  /// Rules that choose the algorithm instead of the selector, by message size, number of ranks or
  /// hosts, type, and memory: "all_reduce:0-4k:flat,4k-1m:direct,1m-inf:ring", "all_reduce:0-4k
  /// ranks=2-8 hosts=1 type=f32|f64 memory=device:flat", or just "all_reduce:ring". The first rule
  /// counts that matches and can be followed. Bounds of sizes exclude their end, others include it.
  /// CAPSTAN_ALGORITHM.
  std::string algorithm;

  /// Files of schedules, or folders of them, with commas between them: they are added as
  /// add_schedules() does (capstan/custom_algorithm.hpp), so that `algorithm` can name what is in
  /// them. The same on all ranks. CAPSTAN_SCHEDULES.
  std::string schedules;

  /// Whether the plans of built-in algorithms are proven, too, before they first run: for tests,
  /// and for the doubtful. Those of added ones always are (capstan/custom_algorithm.hpp). The same
  /// on all ranks. CAPSTAN_PROVE, 0 or 1.
  bool prove = false;

  /// The longest proof of one plan, as it is estimated from its steps. A call whose plan would take
  /// longer is refused, or, where `trust_long_proofs` is set, runs without a proof. The same on all
  /// ranks. CAPSTAN_PROOF_LIMIT, seconds; or trust, which sets the latter.
  std::chrono::milliseconds proof_limit = std::chrono::seconds{1};
  bool trust_long_proofs = false;

  /// The promise about bits of sums and products of floating-point numbers, and of operations of
  /// the program. What each promises, costs and leaves open: docs/reproducibility.md. Below `run`
  /// schedules that were added may run though their ranks add in different orders. Beyond it a call
  /// runs by algorithms alone whose sums are proven to be one reduction in the order of ranks; one
  /// that has none is InvalidArgument. The same on all ranks. CAPSTAN_REPRODUCIBLE: none, run,
  /// shape, placement or rank_order.
  Reproducible reproducible = Reproducible::run;

  /// A file that `capstan tune` has written, by which algorithms are chosen where `algorithm` says
  /// nothing. Rank 0's counts for all ranks. Empty: the user's profile of this machine,
  /// capstan/profiles/ID.json in XDG_CONFIG_HOME or ~/.config, or else the system's, in one of
  /// XDG_CONFIG_DIRS or in /etc/xdg. "none": no profile. A profile of another machine or version of
  /// Capstan is ignored, and a warning says why. CAPSTAN_PROFILE.
  std::string profile;

  /// A profile to which each communicator adds what the autotuner has measured when it is
  /// destroyed, or "user" for the user's one: see Communicator::save_profile(). A warning says why
  /// it cannot. Communicators that are left to exit() while another thread uses them add nothing.
  /// Empty: none. CAPSTAN_SAVE_PROFILE.
  std::string save_profile;

  /// The largest staged block of a long operation; 0 sizes it from the caches.
  /// CAPSTAN_CHUNK, bytes with an optional k or m.
  Bytes chunk{0};

  /// Whether each rank has a progress thread, which moves operations on while the program computes.
  /// Without the thread they move on while a caller waits; Work::future() starts the thread anyway.
  /// CAPSTAN_PROGRESS_THREAD, 0 or 1.
  bool progress_thread = false;

  /// Whether long messages, and in collectives long inputs and outputs, are read straight from the
  /// memory of their owner, where the system lets one process read another. Otherwise, or when this
  /// is off, they are copied through shared memory. The same on all ranks.
  /// CAPSTAN_SINGLE_COPY, 0 or 1.
  bool single_copy = true;

  /// Whether buffers of 128 KiB and more that a program uses again and again are moved into huge
  /// pages, where the kernel finds them faster for other ranks. Addresses stay the same. Other data
  /// in the pages at a buffer's ends are moved as well, unless that takes more memory at an end
  /// than half a page or half of the buffer. Done where the system can and every rank has this on.
  /// CAPSTAN_HUGE_PAGES, 0 or 1.
  bool huge_pages = true;

  /// The most page-locked host memory that a rank uses at a time for buffers that lie on devices.
  /// CAPSTAN_PINNED_MEMORY, bytes with an optional k, m or g.
  Bytes pinned_memory{std::uint64_t{1} << 30};

  /// Whether collectives of StreamCollectives (capstan/async/streams.hpp) run in kernels on the
  /// devices where they can. Otherwise, or when this is off on any rank, they go through pinned
  /// host memory. CAPSTAN_DEVICE_EXECUTOR, 0 or 1.
  bool device_executor = true;

  /// Whether network cards read and write memory of devices themselves (GPUDirect): over verbs, and
  /// over ofi where the provider drives a card that does so (FI_HMEM); with one rail, for messages
  /// of more than 8 KiB. `detect`: where capstan::gpu_direct() finds
  /// that they can; `always`: wherever a card accepts the memory, whatever was found; `never`: all
  /// memory of devices is staged through pinned host memory. Each rank decides for its own memory.
  /// CAPSTAN_GPU_DIRECT, detect, always or never.
  GpuDirectUse gpu_direct = GpuDirectUse::detect;

  /// The most bytes that each rank may have from Communicator::allocate. 0: half of the host's
  /// memory. CAPSTAN_BUFFER_LIMIT, bytes with an optional k, m or g.
  Bytes buffer_limit{0};

  /// The most bytes of messages that a rank stores because no receive has asked for them yet; each
  /// other rank has an equal share. Beyond it, a short message waits at its sender, as a long one
  /// always does: a blocking send then returns when the message is received. Each message counts
  /// with 128 bytes more than its data. What a rank sends to itself is stored apart, up to the same
  /// limit. 0: every send waits for its receive. The same on all ranks.
  /// CAPSTAN_UNEXPECTED_MESSAGES, bytes with an optional k, m or g.
  Bytes unexpected_messages{64 << 20};

  /// Treats the ranks as spread evenly over so many virtual hosts, so that runs over several hosts
  /// can be tried on one: ranks of different virtual hosts use the network between them. 0: the
  /// real hosts. The same on all ranks. CAPSTAN_VIRTUAL_HOSTS.
  int virtual_hosts = 0;

  /// For tests with a bad network: faults that every transport injects, the same on all ranks, as
  /// transports/compose/faulty/fault_plan.hpp reads them, for example
  /// "seed=42,delay=0.1,death=3@50". No ranks share memory then. CAPSTAN_FAULTS.
  std::string faults;

  /// Reads the variables named above. Throws InvalidArgument that names the variable, its value
  /// and what it should look like.
  static Settings from_environment();

  /// The names of the members above but for trust_long_proofs, which is proof_limit's "trust".
  static std::vector<std::string_view> names();
  /// Sets the member of this name from text, as its variable has it: "timeout", "60". Throws
  /// InvalidArgument for another name, and for a value that its variable would not take.
  void set(std::string_view name, std::string_view text);
  /// A member as set() takes it. Throws InvalidArgument for another name.
  std::string text(std::string_view name) const;
};

}  // namespace CAPSTAN_EXPORT capstan
