#include "core/communicator.hpp"

#include <fmt/format.h>

#include "core/runtime/bootstrap/launch.hpp"
#include "core/runtime/engine.hpp"
#include "core/runtime/world.hpp"

namespace capstan {

class Communicator::Impl {
 public:
  explicit Impl(std::unique_ptr<Engine> owned) : engine(std::move(owned)) {}
  std::unique_ptr<Engine> engine;
};

Communicator Communicator::from_environment(const Settings& settings) {
  return Communicator{
      std::make_unique<Impl>(join_launched_world(detect_launch(process_environment()), settings))};
}

Communicator Communicator::join(const UniqueId& id, int rank, int size, const Settings& settings) {
  return Communicator{std::make_unique<Impl>(join_world(id, rank, size, settings))};
}

std::vector<Communicator> Communicator::local_world(int ranks, const Settings& settings) {
  std::vector<Communicator> world;
  for (auto& engine : make_thread_world(ranks, settings))
    world.push_back(Communicator{std::make_unique<Impl>(std::move(engine))});
  return world;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const {
  return impl_->engine->rank();
}
int Communicator::size() const {
  return impl_->engine->size();
}

void Communicator::all_reduce(const void* input, void* output, Elements count, DataType type,
                              ReduceOp op) {
  impl_->engine->run({.type = type, .op = op, .shape = {.count = count}}, input, output);
}

std::string Communicator::explain_all_reduce(Elements count, DataType type) const {
  const Call call{.type = type, .shape = {.count = count}};
  const Choice choice = impl_->engine->choice(call);
  return fmt::format("{} ({}), {}: {}", choice.algorithm->name, choice.algorithm->summary,
                     choice.form == Form::packets ? "in packets" : "with flags", choice.reason);
}

std::string Communicator::all_reduce_algorithm(Elements count, DataType type) const {
  return std::string{
      impl_->engine->choice({.type = type, .shape = {.count = count}}).algorithm->name};
}

void Communicator::require_equal_lengths(std::size_t input, std::size_t output) const {
  if (input != output)
    throw InvalidArgument(fmt::format(
        "rank {}: all_reduce of {} input elements into {} output elements: both must be equally "
        "long",
        rank(), input, output));
}

}  // namespace capstan
