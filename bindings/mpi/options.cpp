// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/options.hpp"

#include <fmt/format.h>

#include <sstream>

namespace capstan::mpi {
namespace {

struct Row {
  const char* name;
  bool has_root, reduces;
};

constexpr Row rows[] = {
#define COUNTLESS(Name, name, text) {#text, false, false},
#define COLLECTIVE(Name, name, text)                                                               \
  {#text,                                                                                          \
   Kind::name == Kind::bcast || Kind::name == Kind::reduce || Kind::name == Kind::gather ||        \
       Kind::name == Kind::gatherv || Kind::name == Kind::scatter || Kind::name == Kind::scatterv, \
   Kind::name == Kind::reduce || Kind::name == Kind::allreduce ||                                  \
       Kind::name == Kind::reduce_scatter || Kind::name == Kind::scan ||                           \
       Kind::name == Kind::reduce_scatter_block || Kind::name == Kind::exscan},
#define FUNCTION(Name)
#include "bindings/mpi/names.hpp"
#undef COUNTLESS
#undef COLLECTIVE
#undef FUNCTION
};

}  // namespace

bool has_root(Kind kind) {
  return rows[static_cast<int>(kind)].has_root;
}
bool reduces(Kind kind) {
  return rows[static_cast<int>(kind)].reduces;
}
const char* name_of(Kind kind) {
  return rows[static_cast<int>(kind)].name;
}

Options Options::parse(const std::string& text, std::string& complaint) {
  Options options;
  bool listed = false;
  std::istringstream words{text};
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "off" || word == "report" || word == "on") {
      options.off = options.off || word == "off";
      options.report = options.report || word == "report";
      continue;
    }
    if (word.starts_with("only:")) {
      word.erase(0, 5);
      options.served = 0;
      listed = true;
    }
    bool known = false;
    for (int kind = 0; kind < static_cast<int>(Kind::count); ++kind)
      if (listed && word == name_of(static_cast<Kind>(kind))) {
        options.served |= 1U << kind;
        known = true;
      }
    if (known) continue;
    complaint = fmt::format(
        "CAPSTAN_MPI='{}': '{}' is none of off, report, only: and a collective ({}, ...): all "
        "collectives are MPI's",
        text, word, name_of(Kind::allreduce));
    options.off = true;
  }
  return options;
}

}  // namespace capstan::mpi
