#include "core/runtime/call.hpp"

#include <fmt/format.h>

namespace capstan {

std::uint64_t Call::signature() const {
  return 1 | static_cast<std::uint64_t>(collective) << 8 | static_cast<std::uint64_t>(type) << 16 |
         static_cast<std::uint64_t>(op) << 24;
}

Call Call::unpack(std::uint64_t signature, Elements count) {
  return {.collective = static_cast<Collective>(signature >> 8 & 0xff),
          .type = static_cast<DataType>(signature >> 16 & 0xff),
          .op = static_cast<ReduceOp>(signature >> 24 & 0xff),
          .count = count};
}

std::string to_string(const Call& call) {
  return fmt::format("{}({} x {}, {})", name_of(call.collective), call.count.value(),
                     name_of(call.type), name_of(call.op));
}

}  // namespace capstan
