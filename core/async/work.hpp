#pragma once
#include "operation.hpp"
namespace capstan {
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  void wait() const {
    operation_->driver().drive([this] { return operation_->ended(); }, Deadline::never());
    if (operation_->error()) std::rethrow_exception(operation_->error());
  }
  bool is_completed() const { return operation_->ended(); }
  bool cancel() const { return operation_->driver().cancel(*operation_); }
 private:
  std::shared_ptr<Operation> operation_;
};
}  // namespace capstan
