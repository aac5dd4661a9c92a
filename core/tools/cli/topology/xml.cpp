// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/topology/xml.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>

#include "capstan/error.hpp"

namespace capstan::cli {
namespace {

constexpr const char* remedy =
    "write the file anew, by NCCL_TOPO_DUMP_FILE=FILE or lstopo FILE.xml";

// Files of real machines stay far below both.
constexpr int most_depth = 64;
constexpr std::size_t most_elements = 1 << 20;

/// Collects elements. The first reason to stop counts.
class Reading {
 public:
  explicit Reading(XML_Parser parser) : parser_(parser) {
    XML_SetUserData(parser, this);
    XML_SetElementHandler(parser, open, close);
    XML_SetEntityDeclHandler(parser, entity);
  }

  std::vector<XmlElement> read(const std::string& text, const std::string& path) {
    if (XML_Parse(parser_, text.data(), static_cast<int>(text.size()), 1) != XML_STATUS_OK)
      refuse(path);
    return std::move(elements_);
  }

 private:
  [[noreturn]] void refuse(const std::string& path) const {
    XmlElement here;
    place(here);
    const std::string why =
        stopped_.empty()
            ? fmt::format("not well-formed XML ({})", XML_ErrorString(XML_GetErrorCode(parser_)))
            : stopped_;
    here.refuse(path, fmt::format("{}: {}", why, remedy));
  }

  static Reading& of(void* data) { return *static_cast<Reading*>(data); }

  static void XMLCALL open(void* data, const XML_Char* name, const XML_Char** attributes) {
    Reading& self = of(data);
    if (self.depth_ >= most_depth)
      return self.stop(fmt::format("more than {} elements within each other", most_depth));
    if (self.elements_.size() >= most_elements)
      return self.stop(fmt::format("more than {} elements", most_elements));
    XmlElement& element = self.elements_.emplace_back();
    element.name = name;
    self.place(element);
    element.depth = self.depth_++;
    for (; *attributes != nullptr; attributes += 2)
      element.attributes.emplace_back(attributes[0], attributes[1]);
  }

  static void XMLCALL close(void* data, const XML_Char*) { --of(data).depth_; }

  /// A few entities can stand for any amount of text; descriptions of machines have none.
  static void XMLCALL entity(void* data, const XML_Char* name, int, const XML_Char*, int,
                             const XML_Char*, const XML_Char*, const XML_Char*, const XML_Char*) {
    of(data).stop(fmt::format("the entity '{}' is defined", name));
  }

  void stop(std::string why) {
    if (stopped_.empty()) stopped_ = std::move(why);
    XML_StopParser(parser_, XML_FALSE);
  }

  void place(XmlElement& element) const {
    element.line = XML_GetCurrentLineNumber(parser_);
    element.column = XML_GetCurrentColumnNumber(parser_) + 1;
  }

  XML_Parser parser_;
  std::vector<XmlElement> elements_;
  int depth_ = 0;
  std::string stopped_;  ///< why reading ends early
};

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
  const auto found =
      std::ranges::find(attributes, attribute, &std::pair<std::string, std::string>::first);
  return found == attributes.end() ? nullptr : &found->second;
}

void XmlElement::refuse(const std::string& path, std::string_view what) const {
  throw InvalidArgument(fmt::format("{}:{}:{}: {}", path, line, column, what));
}

bool is_wide(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

std::vector<XmlElement> xml_elements(const std::string& text, const std::string& path) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser{
      XML_ParserCreate(is_wide(text) ? "UTF-16" : nullptr), &XML_ParserFree};
  if (!parser) throw std::bad_alloc{};
  return Reading{parser.get()}.read(text, path);
}

}  // namespace capstan::cli
