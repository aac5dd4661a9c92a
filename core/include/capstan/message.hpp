// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/foreign_type.hpp"
#include "capstan/message_info.hpp"
#include "capstan/request.hpp"
#include "capstan/tensor.hpp"

namespace CAPSTAN_EXPORT capstan {

/// One message of an exchange; see Communicator::exchange(). It refers to its buffer, which has to
/// exist until the exchange has ended: temporary vectors and arrays are refused at compile time.
struct Message {
  bool sends = false;
  int peer = any_source;  ///< the receiver, or the sender; receives: any_source
  int tag = 0;            ///< 0 to 2^30; receives: any_tag
  DataType type = DataType::u8;
  void* data = nullptr;                ///< a send does not change it; null: no elements
  Elements count{};                    ///< of the message; receives: the longest message that fits
  std::optional<TensorView> tensor{};  ///< the buffer, where it is a tensor
  /// Receives of any length: gives memory for so many elements of a type, when a message has been
  /// matched. What it throws is the error of the receive, and the message is lost. Must call
  /// nothing of the communicator.
  std::function<void*(DataType, std::size_t)> allocate{};
  bool any_type = false;           ///< the same for any type of elements; `type` does not count
  std::shared_ptr<void> memory{};  ///< lives as long as a handle of the operation
  ForeignType foreign{};           ///< see Request

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
  static Message to(int destination, const TensorView& data, int tag = 0) {
    return {true, destination, tag, data.type, data.data, data.count(), data};
  }
  static Message from(int source, const TensorView& buffer, int tag = any_tag) {
    return {false, source, tag, buffer.type, buffer.data, buffer.count(), buffer};
  }
  /// Receives a message of any length into a vector, which is resized to it.
  template <Element T>
  static Message any_length(int source, std::vector<T>& elements, int tag = any_tag) {
    Message message{false, source, tag, *data_type_of<T>};
    message.allocate = [&elements](DataType, std::size_t count) -> void* {
      elements.resize(count);
      return elements.data();
    };
    return message;
  }
};

/// A message of any length that has been received.
template <Element T>
struct Received {
  std::vector<T> elements{};
  MessageInfo info{};
};

}  // namespace CAPSTAN_EXPORT capstan
