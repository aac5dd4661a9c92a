// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace capstan {

/// The process that a rank of the world is, for people who look for it.
struct Process {
  std::string host{};   ///< its name; empty where ranks are threads of one process
  int id = 0;           ///< on its host; 0 where ranks are threads of one process
  std::string space{};  ///< ids mean the same in processes with the same space

  static Process own();
};

/// As text that other ranks read.
std::string encode(const Process& process);
/// Whatever cannot be read stays empty.
Process decode_process(const std::string& text);

/// "host b, process 4711"; empty where ranks are threads of one process.
std::string to_string(const Process& process);

/// Whether the kernel says that the process has been stopped, by SIGSTOP or a debugger. False if it
/// cannot be asked, as the process is on another host.
bool is_stopped(const Process& process);

}  // namespace capstan
