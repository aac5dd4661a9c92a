// SPDX-License-Identifier: Apache-2.0

// Messages of backends: checks, and tensors that are packed.

#include <fmt/format.h>

#include "capstan/backends/backend.hpp"
#include "core/extras/backends/backend_call.hpp"

namespace capstan {
namespace {

/// The tensor itself, or a copy of one that has strides or is staged.
struct Parcel {
  std::shared_ptr<PackedElements> packing;
  TensorView view;

  Parcel(const TensorView& tensor, std::shared_ptr<DeviceRuntime> staging) : view(tensor) {
    if (tensor.is_dense() && !staging) return;
    packing = std::make_shared<PackedElements>(tensor, std::move(staging));
    view = TensorView{packing->data(), tensor.type, tensor.shape};
  }
};

}  // namespace

Work AsynchronousPart::start(const Message& message, Finish /*finish*/) {
  throw NotSupported("", fmt::format("{} in the background is not supported by this backend: use "
                                     "the form that waits",
                                     describe(message)));
}

void Backend::require_peer(std::string_view call, bool sends, int peer, int tag) const {
  const Capabilities can = capabilities();
  const bool any = !sends && (peer == any_source || tag == any_tag);
  if (any && !can.any_source)
    refuse(fmt::format("{} from any source or with any tag", call), "name the source and the tag");
  if (tag != 0 && tag != any_tag && !can.tags)
    refuse(fmt::format("{} with tag {}", call, tag),
           "messages of a pair arrive in the order in which they are sent: pass tag 0");
  if (tag < (sends ? 0 : any_tag) || tag > (1 << 30))
    refuse_argument(caller_of(*this), call,
                    fmt::format("tag {} does not exist: tags are 0 to 2^30", tag));
  if (peer < (sends ? 0 : any_source) || peer >= world_size())
    refuse_argument(
        caller_of(*this), call,
        fmt::format("rank {} does not exist: ranks are 0 to {}", peer, world_size() - 1));
}

Message Backend::message_of(bool sends, const TensorView& tensor, int peer, int tag) const {
  const std::string_view call = sends ? "send" : "receive";
  require_possible(call, tensor);
  require_peer(call, sends, peer, tag);
  if (!tensor.data && tensor.count() > Elements{0})
    refuse_argument(caller_of(*this), call,
                    fmt::format("the tensor {} is null: pass its memory", to_string(tensor)));
  if (is_on_device(tensor) && !tensor.is_dense() && !staging_for(tensor.device))
    refuse(fmt::format("{} of a tensor with strides on a device", call), "make it dense");
  return {sends, peer, tag, tensor.type, tensor.data, tensor.count()};
}

void Backend::require_filled(const TensorView& buffer, const MessageInfo& info) const {
  const Bytes wanted = bytes_of(buffer.count(), size_of(buffer.type));
  if (info.size != wanted)
    throw Mismatch(fmt::format(
        "rank {}: {}: receive: the message from rank {} with tag {} has {} bytes, but {} has {}: "
        "pass a tensor of the sender's shape and type",
        rank(), name(), info.source, info.tag, info.size.value(), to_string(buffer),
        wanted.value()));
}

void Backend::send(const TensorView& data, int destination, int tag) {
  PointToPointPart& part = require_point_to_point("send");
  (void)message_of(true, data, destination, tag);
  const Parcel parcel{data, staging_for(data.device)};
  if (parcel.packing) parcel.packing->copy(parcel.view, data);
  part.run(message_of(true, parcel.view, destination, tag));
}

Work Backend::start_send(const TensorView& data, int destination, int tag) {
  require_point_to_point("send");
  AsynchronousPart& part = require_asynchronous("send");
  (void)message_of(true, data, destination, tag);
  const Parcel parcel{data, staging_for(data.device)};
  if (parcel.packing) parcel.packing->copy(parcel.view, data);
  AsynchronousPart::Finish keep;
  if (parcel.packing) keep = [parcel] {};
  return part.start(message_of(true, parcel.view, destination, tag), std::move(keep));
}

MessageInfo Backend::receive(const TensorView& buffer, int source, int tag) {
  PointToPointPart& part = require_point_to_point("receive");
  (void)message_of(false, buffer, source, tag);
  const Parcel parcel{buffer, staging_for(buffer.device)};
  const MessageInfo info = part.run(message_of(false, parcel.view, source, tag));
  require_filled(buffer, info);
  if (parcel.packing) parcel.packing->copy(buffer, parcel.view);
  return info;
}

Work Backend::start_receive(const TensorView& buffer, int source, int tag) {
  require_point_to_point("receive");
  AsynchronousPart& part = require_asynchronous("receive");
  (void)message_of(false, buffer, source, tag);
  const Parcel parcel{buffer, staging_for(buffer.device)};
  AsynchronousPart::Finish finish;
  if (parcel.packing) finish = [parcel, buffer] { parcel.packing->copy(buffer, parcel.view); };
  return part.start(message_of(false, parcel.view, source, tag), std::move(finish));
}

Tensor Backend::receive(DataType type, int source, int tag) {
  PointToPointPart& part = require_point_to_point("receive");
  require_peer("receive", false, source, tag);
  if (!capabilities().probe)
    refuse("receive of a message of unknown size", "pass a tensor of the sender's shape and type");
  return part.receive(type, source, tag);
}

Tensor Backend::receive_like(const Tensor& like, int source, int tag) {
  Tensor received{like.type(), like.shape()};
  receive(received.view(), source, tag);
  return received;
}

std::optional<MessageInfo> Backend::probe(int source, int tag) {
  PointToPointPart& part = require_point_to_point("probe");
  require_peer("probe", false, source, tag);
  if (!capabilities().probe) refuse("probe", "receive the message");
  return part.probe(source, tag);
}

}  // namespace capstan
