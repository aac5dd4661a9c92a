#include "core/lowering/protocol.hpp"

namespace capstan {
namespace {

struct Names {
  std::string_view word, clause;
};

constexpr Names names_of(Form form) {
  switch (form) {
    case Form::flags:
      return {"flags", "with flags"};
    case Form::packets:
      return {"packets", "in packets"};
    case Form::shared_packets:
      return {"shared_packets", "in packets for all"};
    case Form::direct:
      return {"inputs", "reading inputs"};
    case Form::open:
      return {"buffers", "reading buffers"};
    case Form::written:
      return {"outputs", "writing outputs"};
  }
  return {};
}

}  // namespace

std::string_view name_of(Form form) {
  return names_of(form).clause;
}

std::string_view word_for(Form form) {
  return names_of(form).word;
}

std::optional<Form> form_named(std::string_view word) {
  for (const Form form : all_forms)
    if (word_for(form) == word) return form;
  return std::nullopt;
}

}  // namespace capstan
