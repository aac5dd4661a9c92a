#pragma once

#include <ranges>

#include "capstan/export.hpp"
#include "capstan/message_info.hpp"
#include "capstan/request.hpp"

namespace CAPSTAN_EXPORT capstan {

/// One message of an exchange; see Communicator::exchange(). It refers to its buffer, which has to
/// exist until the exchange has ended: temporary vectors and arrays are refused at compile time.
struct Message {
  bool sends = false;
  int peer = any_source;  ///< the receiver, or the sender; receives: any_source
  int tag = 0;            ///< 0 to 2^30; receives: any_tag
  DataType type = DataType::u8;
  void* data = nullptr;  ///< a send does not change it; null: no elements
  Elements count{};      ///< of the message; receives: the longest message that fits

  template <LastingRange Data>
  static Message to(int destination, Data&& data, int tag = 0) {
    using T = std::ranges::range_value_t<Data>;
    return {true,
            destination,
            tag,
            element_type_of<Data>(),
            const_cast<T*>(std::ranges::data(data)),
            Elements{std::ranges::size(data)}};
  }
  template <LastingMutableRange Data>
  static Message from(int source, Data&& buffer, int tag = any_tag) {
    return {false,
            source,
            tag,
            element_type_of<Data>(),
            std::ranges::data(buffer),
            Elements{std::ranges::size(buffer)}};
  }
};

}  // namespace capstan
