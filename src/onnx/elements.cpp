#include "onnx/elements.hpp"

#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx.pb.h>

namespace weft::onnx {

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t least_bytes = 4096;  // of elements that stay

// f(number, the whole field, its contents where it has a length) for each field of a message, until one is refused.
// False then, or where the bytes are no message.
template <class Function>
bool each_field(Bytes message, Function f) {
  CodedInputStream in(message.data(), static_cast<int>(message.size()));
  const auto at = [&] { return static_cast<std::size_t>(in.CurrentPosition()); };
  while (at() < message.size()) {
    const std::size_t begin = at();
    const std::uint32_t tag = in.ReadTag();
    std::optional<Bytes> contents;
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      std::uint32_t length = 0;
      if (!in.ReadVarint32(&length) || length > message.size() - at()) return false;
      contents = message.subspan(at(), length);
      if (!in.Skip(static_cast<int>(length))) return false;
    } else if (tag == 0 || !WireFormatLite::SkipField(&in, tag)) {
      return false;
    }
    if (!f(WireFormatLite::GetTagFieldNumber(tag), message.subspan(begin, at() - begin), contents)) return false;
  }
  return true;
}

void append(std::string& to, Bytes bytes) { to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

void append_field(std::string& to, int number, const std::string& contents) {
  for (std::size_t word :
       {static_cast<std::size_t>(number) << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED, contents.size()}) {
    for (; word >= 0x80; word >>= 7) to += static_cast<char>(word | 0x80);
    to += static_cast<char>(word);
  }
  to += contents;
}

}  // namespace

std::optional<WithoutElements> without_elements(Bytes bytes) {
  using Model = weft_onnx::ModelProto;
  using Graph = weft_onnx::GraphProto;
  using Initializer = weft_onnx::TensorProto;
  WithoutElements made;
  bool has_graph = false;
  const auto keep_initializer = [&](Bytes initializer, std::string& graph) {
    WithoutElements::Place place;
    std::string rest;
    const bool is_sound = each_field(initializer, [&](int number, Bytes field, std::optional<Bytes> contents) {
      if (number != Initializer::kRawDataFieldNumber || !contents || contents->size() < least_bytes) {
        append(rest, field);
        return number != Initializer::kRawDataFieldNumber || place.length == 0;
      }
      if (place.length > 0) return false;  // given twice
      place = {static_cast<std::size_t>(contents->data() - bytes.data()), contents->size()};
      return true;
    });
    made.initializers.push_back(place);
    append_field(graph, Graph::kInitializerFieldNumber, rest);
    return is_sound;
  };
  const auto keep_graph = [&](Bytes contents) {
    std::string graph;
    const bool is_sound = each_field(contents, [&](int number, Bytes field, std::optional<Bytes> inner) {
      if (number == Graph::kInitializerFieldNumber && inner) return keep_initializer(*inner, graph);
      append(graph, field);
      return true;
    });
    append_field(made.model, Model::kGraphFieldNumber, graph);
    return is_sound;
  };
  const bool is_sound = each_field(bytes, [&](int number, Bytes field, std::optional<Bytes> contents) {
    if (number == Model::kGraphFieldNumber && contents) return !std::exchange(has_graph, true) && keep_graph(*contents);
    append(made.model, field);
    return true;
  });
  return is_sound && has_graph ? std::optional(std::move(made)) : std::nullopt;
}

}  // namespace weft::onnx
