#include "onnx/file.hpp"

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>

#include <onnx.pb.h>
#include "base/fail.hpp"
#include "onnx/elements.hpp"
#include "weft/dim.hpp"

namespace weft::onnx {
namespace {

namespace schema = weft_onnx;
static_assert(std::endian::native == std::endian::little, "elements lie in files as little-endian numbers");

// The names and dtypes of element types, by their numbers.
struct ElementRow {
  const char* name;
  int dtype;  // -1: Weft has none
  int bits;   // 0: not of a fixed size
};
constexpr int of(DType dtype) { return static_cast<int>(dtype); }
constexpr ElementRow element_rows[] = {
    {"undefined", -1, 0},
    {"f32", of(DType::f32), 32},
    {"u8", of(DType::u8), 8},
    {"i8", of(DType::i8), 8},
    {"u16", of(DType::u16), 16},
    {"i16", of(DType::i16), 16},
    {"i32", of(DType::i32), 32},
    {"i64", of(DType::i64), 64},
    {"string", -1, 0},
    {"bool", of(DType::boolean), 8},
    {"f16", of(DType::f16), 16},
    {"f64", of(DType::f64), 64},
    {"u32", of(DType::u32), 32},
    {"u64", -1, 64},
    {"complex64", -1, 64},
    {"complex128", -1, 128},
    {"bf16", of(DType::bf16), 16},
    {"float8e4m3fn", -1, 8},
    {"float8e4m3fnuz", -1, 8},
    {"float8e5m2", -1, 8},
    {"float8e5m2fnuz", -1, 8},
    {"u4", -1, 4},
    {"i4", -1, 4},
    {"float4e2m1", -1, 4},
};
constexpr int element_count = static_cast<int>(std::size(element_rows));

std::string domain_of(const std::string& name) { return name == "ai.onnx" ? "" : name; }
template <class Proto>
std::map<std::string, std::int64_t> operator_sets_of(const Proto& from) {
  std::map<std::string, std::int64_t> sets;
  for (const auto& set : from.opset_import()) sets[domain_of(set.domain())] = set.version();
  return sets;
}

// What reading one file shares.
struct Reader {
  std::string file, folder;
  Loc loc;
  int depth = 0;
  std::map<std::string, std::shared_ptr<const MappedFile>> mapped = {};  // other files, by their paths
  std::shared_ptr<const MappedFile> whole = {};         // the model's own file, where elements stay in it
  std::span<const WithoutElements::Place> places = {};  // of initializers of the model's graph

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("onnx::load", loc, file, ": ", parts...);
  }

  template <class From, class Numbers>
  static void append(std::string& bytes, const Numbers& numbers) {
    bytes.reserve(bytes.size() + static_cast<std::size_t>(numbers.size()) * sizeof(From));
    for (auto number : numbers) {
      const auto element = static_cast<From>(number);
      bytes.append(reinterpret_cast<const char*>(&element), sizeof element);
    }
  }
  // Elements that the file has as a list of numbers, each wider than the element.
  void read_listed(const schema::TensorProto& from, TensorData& to) const {
    switch (to.type) {
      case 1: return append<float>(to.bytes, from.float_data());
      case 11: return append<double>(to.bytes, from.double_data());
      case 7: return append<std::int64_t>(to.bytes, from.int64_data());
      case 12: return append<std::uint32_t>(to.bytes, from.uint64_data());
      case 6: return append<std::int32_t>(to.bytes, from.int32_data());
      case 4:
      case 5:
      case 10:
      case 16: return append<std::uint16_t>(to.bytes, from.int32_data());
      case 2:
      case 3:
      case 9: return append<std::uint8_t>(to.bytes, from.int32_data());
      default: return;
    }
  }

  void read_external(const schema::TensorProto& from, TensorData& to) {
    std::string location;
    std::uint64_t offset = 0;
    std::int64_t length = -1;
    for (const auto& entry : from.external_data()) {
      char* end = nullptr;
      to.place.emplace_back(entry.key(), entry.value());
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = std::strtoull(entry.value().c_str(), &end, 10);
      if (entry.key() == "length") length = std::strtoll(entry.value().c_str(), &end, 10);
      if (end && (*end || entry.value().empty() || entry.value()[0] == '-'))
        refuse("tensor ", to.name, " has the ", entry.key(), " \"", entry.value(), "\" in another file");
    }
    namespace fs = std::filesystem;
    if (location.find('\0') != std::string::npos)
      refuse("tensor ", to.name, " lies in a file whose name has a zero byte");
    if (folder.empty()) refuse("tensor ", to.name, " lies in another file, ", location, ", and bytes have no folder");
    std::error_code error;
    const fs::path root = fs::weakly_canonical(folder, error),
                   path = fs::weakly_canonical(fs::path(folder) / location, error);
    const auto [left, at] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
    if (error || fs::path(location).is_absolute() || left != root.end() || at == path.end())
      refuse("tensor ", to.name, " lies in ", location, ", which is not in the folder of the model");
    std::shared_ptr<const MappedFile>& there = mapped[path];
    if (!there) there = MappedFile::open("onnx::load", path.c_str(), loc);
    to.file = there;
    const std::uint64_t size = to.file->bytes().size();
    to.offset = offset;
    to.length = length >= 0 ? static_cast<std::uint64_t>(length) : size - std::min(offset, size);
    if (offset > size || to.length > size - offset)
      refuse("tensor ", to.name, " wants ", to.length, " bytes from ", offset, " on of ", location, ", which has ",
             size);
  }

  // Consumes the elements, which are the most of a file.
  TensorData read(schema::TensorProto& from, WithoutElements::Place place = {}) {
    TensorData to;
    to.name = from.name();
    to.type = from.data_type();
    if (to.type <= 0 || to.type >= element_count)
      refuse("tensor ", to.name, " is of the element type ", to.type, ", which is unknown");
    if (from.has_segment()) refuse("tensor ", to.name, " lies in segments, which are not read");
    std::int64_t count = 1;
    to.sizes.assign(from.dims().begin(), from.dims().end());
    if (to.sizes.size() > std::size_t{max_rank})
      refuse("tensor ", to.name, " has ", to.sizes.size(), " axes, and a tensor has at most ", max_rank);
    for (std::int64_t size : to.sizes)
      if (size < 0 || (size > 0 && count > (std::int64_t{1} << 58) / size))
        refuse("tensor ", to.name, " has a size that no tensor has: ", size);
      else
        count *= size;
    if (to.type == 8) {
      to.texts.assign(from.string_data().begin(), from.string_data().end());
      return to;
    }
    if (from.data_location() == schema::TensorProto::EXTERNAL)
      read_external(from, to);
    else if (place.length > 0)
      to.file = whole, to.offset = place.offset, to.length = place.length;
    else if (from.has_raw_data())
      to.bytes = std::move(*from.mutable_raw_data());
    else
      read_listed(from, to);
    const std::uint64_t found = to.elements().size();
    if (has_dtype(to.type)) {
      const auto wanted = storage_bytes(dtype_of_element(to.type), count);
      if (found != wanted) refuse("tensor ", to.name, " has ", found, " bytes, and its sizes say ", wanted);
    }
    return to;
  }

  AttributeData read(schema::AttributeProto& from) {
    AttributeData to;
    to.name = from.name();
    to.reference = from.ref_attr_name();
    using Kind = AttributeData::Kind;
    switch (from.type()) {
      case schema::AttributeProto::FLOAT: to.kind = Kind::number, to.number = static_cast<double>(from.f()); break;
      case schema::AttributeProto::INT: to.kind = Kind::integer, to.integer = from.i(); break;
      case schema::AttributeProto::STRING: to.kind = Kind::text, to.text = from.s(); break;
      case schema::AttributeProto::TENSOR:
        to.kind = Kind::tensor;
        to.tensor = std::make_shared<TensorData>(read(*from.mutable_t()));
        break;
      case schema::AttributeProto::GRAPH:
        to.kind = Kind::graph;
        to.graph = std::make_shared<GraphData>(read(*from.mutable_g()));
        break;
      case schema::AttributeProto::FLOATS:
        to.kind = Kind::numbers;
        to.numbers.assign(from.floats().begin(), from.floats().end());
        break;
      case schema::AttributeProto::INTS:
        to.kind = Kind::integers;
        to.integers.assign(from.ints().begin(), from.ints().end());
        break;
      case schema::AttributeProto::STRINGS:
        to.kind = Kind::texts;
        to.texts.assign(from.strings().begin(), from.strings().end());
        break;
      default: break;
    }
    return to;
  }

  static ValueData read(const schema::ValueInfoProto& from) {
    ValueData to;
    to.name = from.name();
    if (!from.type().has_tensor_type()) return to;
    const auto& type = from.type().tensor_type();
    to.type = type.elem_type();
    to.has_sizes = type.has_shape();
    for (const auto& axis : type.shape().dim())
      to.axes.push_back({axis.has_dim_value() ? axis.dim_value() : -1, axis.has_dim_param() ? axis.dim_param() : ""});
    return to;
  }

  NodeData read(schema::NodeProto& from) {
    NodeData to;
    to.name = from.name();
    to.operation = from.op_type();
    to.domain = domain_of(from.domain());
    to.overload = from.overload();
    to.inputs.assign(from.input().begin(), from.input().end());
    to.outputs.assign(from.output().begin(), from.output().end());
    for (auto& attribute : *from.mutable_attribute()) to.attributes.push_back(read(attribute));
    return to;
  }

  FunctionData read(schema::FunctionProto& from) {
    FunctionData to;
    to.name = from.name();
    to.domain = domain_of(from.domain());
    to.overload = from.overload();
    to.inputs.assign(from.input().begin(), from.input().end());
    to.outputs.assign(from.output().begin(), from.output().end());
    to.attributes.assign(from.attribute().begin(), from.attribute().end());
    to.operator_sets = operator_sets_of(from);
    for (auto& each : *from.mutable_attribute_proto()) to.defaults.push_back(read(each));
    for (auto& node : *from.mutable_node()) to.nodes.push_back(read(node));
    return to;
  }

  GraphData read(schema::GraphProto& from) {
    if (++depth > 64) refuse("graphs are nested more than 64 deep");
    GraphData to;
    to.name = from.name();
    for (auto& node : *from.mutable_node()) to.nodes.push_back(read(node));
    if (from.sparse_initializer_size() > 0)
      refuse("a sparse tensor is not read: ", from.sparse_initializer(0).values().name());
    const bool is_whole = depth == 1;  // the model's graph, no body
    for (auto& tensor : *from.mutable_initializer()) {
      const std::size_t i = to.initializers.size();
      to.initializers.push_back(read(tensor, is_whole && i < places.size() ? places[i] : WithoutElements::Place{}));
    }
    for (const auto& value : from.input()) to.inputs.push_back(read(value));
    for (const auto& value : from.output()) to.outputs.push_back(read(value));
    --depth;
    return to;
  }
};

// ---- writing --------------------------------------------------------------------------------------------------------

void write(const TensorData& from, schema::TensorProto& to) {
  to.set_name(from.name);
  to.set_data_type(from.type);
  for (std::int64_t size : from.sizes) to.add_dims(size);
  for (const auto& [key, value] : from.place) {
    auto& entry = *to.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  if (!from.place.empty()) return to.set_data_location(schema::TensorProto::EXTERNAL);
  const auto elements = from.elements();
  to.set_raw_data(elements.data(), elements.size());
}
void write(const GraphData& from, schema::GraphProto& to);
void write(const AttributeData& from, schema::AttributeProto& to) {
  using Kind = AttributeData::Kind;
  to.set_name(from.name);
  if (!from.reference.empty()) to.set_ref_attr_name(from.reference);
  switch (from.kind) {
    case Kind::number: to.set_type(schema::AttributeProto::FLOAT), to.set_f(static_cast<float>(from.number)); break;
    case Kind::integer: to.set_type(schema::AttributeProto::INT), to.set_i(from.integer); break;
    case Kind::text: to.set_type(schema::AttributeProto::STRING), to.set_s(from.text); break;
    case Kind::tensor: to.set_type(schema::AttributeProto::TENSOR), write(*from.tensor, *to.mutable_t()); break;
    case Kind::graph: to.set_type(schema::AttributeProto::GRAPH), write(*from.graph, *to.mutable_g()); break;
    case Kind::numbers:
      to.set_type(schema::AttributeProto::FLOATS);
      for (double number : from.numbers) to.add_floats(static_cast<float>(number));
      break;
    case Kind::integers:
      to.set_type(schema::AttributeProto::INTS);
      for (std::int64_t integer : from.integers) to.add_ints(integer);
      break;
    case Kind::texts:
      to.set_type(schema::AttributeProto::STRINGS);
      for (const std::string& text : from.texts) to.add_strings(text);
      break;
    case Kind::other: break;
  }
}
void write(const ValueData& from, schema::ValueInfoProto& to) {
  to.set_name(from.name);
  if (from.type == 0) return;
  auto& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(from.type);
  if (!from.has_sizes) return;
  auto& shape = *type.mutable_shape();
  for (const AxisData& axis : from.axes) {
    auto& size = *shape.add_dim();
    if (axis.size >= 0)
      size.set_dim_value(axis.size);
    else if (!axis.name.empty())
      size.set_dim_param(axis.name);
  }
}
void write(const NodeData& from, schema::NodeProto& to) {
  if (!from.name.empty()) to.set_name(from.name);
  to.set_op_type(from.operation);
  if (!from.domain.empty()) to.set_domain(from.domain);
  if (!from.overload.empty()) to.set_overload(from.overload);
  for (const std::string& name : from.inputs) to.add_input(name);
  for (const std::string& name : from.outputs) to.add_output(name);
  for (const AttributeData& attribute : from.attributes) write(attribute, *to.add_attribute());
}
void write(const GraphData& from, schema::GraphProto& to) {
  to.set_name(from.name);
  for (const NodeData& node : from.nodes) write(node, *to.add_node());
  for (const TensorData& tensor : from.initializers) write(tensor, *to.add_initializer());
  for (const ValueData& value : from.inputs) write(value, *to.add_input());
  for (const ValueData& value : from.outputs) write(value, *to.add_output());
}
template <class Proto>
void write(const std::map<std::string, std::int64_t>& operator_sets, Proto& to) {
  for (const auto& [domain, version] : operator_sets) {
    auto& set = *to.add_opset_import();
    set.set_domain(domain);
    set.set_version(version);
  }
}
void write(const FunctionData& from, schema::FunctionProto& to) {
  to.set_name(from.name);
  to.set_domain(from.domain);
  if (!from.overload.empty()) to.set_overload(from.overload);
  for (const std::string& name : from.inputs) to.add_input(name);
  for (const std::string& name : from.outputs) to.add_output(name);
  for (const std::string& name : from.attributes) to.add_attribute(name);
  for (const NodeData& node : from.nodes) write(node, *to.add_node());
  write(from.operator_sets, to);
  for (const AttributeData& each : from.defaults) write(each, *to.add_attribute_proto());
}

}  // namespace

int element_type(DType dtype) {
  for (int type = 0; type < element_count; ++type)
    if (element_rows[type].dtype == of(dtype)) return type;
  fail("onnx", {}, "Weft writes no ", info(dtype).name, " to ONNX files: cast it first");
}
bool has_dtype(int element_type) {
  return element_type > 0 && element_type < element_count && element_rows[element_type].dtype >= 0;
}
DType dtype_of_element(int element_type) { return static_cast<DType>(element_rows[element_type].dtype); }
const char* element_name(int element_type) {
  return element_rows[element_type > 0 && element_type < element_count ? element_type : 0].name;
}

std::int64_t TensorData::count() const {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}
std::span<const std::uint8_t> TensorData::elements() const {
  if (file) return file->bytes().subspan(offset, length);
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

const AttributeData* NodeData::find(std::string_view wanted) const {
  for (const AttributeData& attribute : attributes)
    if (attribute.name == wanted) return &attribute;
  return nullptr;
}

ModelData parse_model(std::span<const std::uint8_t> bytes, const std::string& file, const std::string& folder, Loc loc,
                      const std::shared_ptr<const MappedFile>& mapped) {
  Reader reader{file, folder, loc};
  schema::ModelProto parsed;
  std::optional<WithoutElements> small;
  if (bytes.size() > std::size_t{std::numeric_limits<int>::max()})
    reader.refuse("it has ", bytes.size(), " bytes, and a model of more than 2 GiB has its tensors in other files");
  if (mapped) small = without_elements(bytes);
  if (small) {
    bytes = {reinterpret_cast<const std::uint8_t*>(small->model.data()), small->model.size()};
    reader.whole = mapped;
    reader.places = small->initializers;
  }
  if (!parsed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !parsed.has_graph())
    reader.refuse("it is no ONNX model, or damaged");
  ModelData model;
  model.ir_version = parsed.ir_version();
  model.producer = parsed.producer_name();
  model.operator_sets = operator_sets_of(parsed);
  for (auto& function : *parsed.mutable_functions()) model.functions.push_back(reader.read(function));
  model.graph = reader.read(*parsed.mutable_graph());
  return model;
}
std::string serialize_model(const ModelData& model) {
  schema::ModelProto made;
  made.set_ir_version(model.ir_version);
  made.set_producer_name(model.producer);
  write(model.operator_sets, made);
  write(model.graph, *made.mutable_graph());
  for (const FunctionData& each : model.functions) write(each, *made.add_functions());
  if (made.ByteSizeLong() > std::size_t{std::numeric_limits<int>::max()})
    fail("onnx", {}, "the model has ", made.ByteSizeLong(), " bytes, and one piece of ONNX has at most 2 GiB");
  return made.SerializeAsString();
}
TensorData parse_tensor(std::span<const std::uint8_t> bytes, const std::string& file, Loc loc) {
  Reader reader{file, {}, loc};
  schema::TensorProto parsed;
  if (!parsed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    reader.refuse("it is no tensor, or damaged");
  return reader.read(parsed);
}

}  // namespace weft::onnx
