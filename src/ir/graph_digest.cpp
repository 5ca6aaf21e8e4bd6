#include "ir/graph_digest.hpp"

#include <unordered_map>

#include "base/member_count.hpp"
#include "base/storage.hpp"
#include "ir/offload_mark.hpp"

namespace weft {

namespace {

// Not in the digest: when and by whom a node was recorded, what it was computed as, and where a condition was decided.
static_assert(member_count<Node> == 24 && member_count<Node::More> == 5 && member_count<Type> == 4 &&
                  member_count<Device> == 2 && member_count<Loc> == 2 && member_count<Graph> == 8 &&
                  member_count<DimSymbol> == 3 && member_count<DimCondition> == 6,
              "a member was added: put it in the digest where it changes what is compiled, then count it here");

using BodyDigests = std::unordered_map<const Graph*, Digest>;

class GraphBytes {
 public:
  explicit GraphBytes(BodyDigests& bodies) : bodies_(bodies) {}
  void add(const Graph& graph) {
    put(graph.nodes.size());
    for (const Tensor& value : graph.nodes) add(graph, *value.node());
    for (const auto* values : {&graph.inputs, &graph.outputs, &graph.effects}) {
      put(values->size());
      for (const Tensor& value : *values) put_value(graph, value);
    }
    put(graph.symbols.size());
    for (const DimSymbol& symbol : graph.symbols) put(symbol.hint), put(symbol.lower), put(symbol.upper);
    put(graph.conditions.size());
    for (const DimCondition& condition : graph.conditions) {
      put(condition.kind), put(condition.holds);
      put(condition.left), put(condition.right);
    }
  }
  const std::string& bytes() const { return bytes_; }
  bool whole() const { return whole_; }

 private:
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(std::string_view text) {
    put(text.size());
    bytes_.append(text);
  }
  void put(Dim dim) {
    put(dim.is_constant());
    if (dim.is_constant()) return put(dim.constant());
    put(dims::to_string(dim));
  }
  void put_value(const Graph& graph, const Tensor& value) {
    put(graph.number(value));
    put(static_cast<std::uint32_t>(value.output()));
  }
  void put(const Type& type) {
    put(type.dtype), put(type.weak), put(type.device.type), put(type.device.index);
    put(type.shape.rank());
    for (const Dim size : type.shape) put(size);
  }
  // A text that comes again and again, at one address, is a number after the first time.
  void put_known(const char* text) {
    const auto [found, added] = texts_.emplace(text, texts_.size());
    put(found->second);
    if (added) put(std::string_view(text ? text : ""));
  }
  // A body by its contents: which nodes share one object depends on what the process did before.
  void put_body(const std::shared_ptr<const Graph>& body) {
    put(body != nullptr);
    if (!body) return;
    const auto [found, added] = bodies_.try_emplace(body.get());
    Digest& digest_of = found->second;
    if (added) {
      GraphBytes bytes(bodies_);
      bytes.add(*body);
      whole_ = whole_ && bytes.whole();
      digest_of = digest(bytes.bytes());
    }
    put(digest_of.low), put(digest_of.high);
  }
  template <class T>
  void put_list(const void* place) {
    const auto& list = *static_cast<const List<T>*>(place);
    put(list.count);
    for (const T item : list) put(item);
  }
  void put(FieldKind kind, const void* place) {
    switch (kind) {
      case FieldKind::integer: return put(*static_cast<const std::int64_t*>(place));
      case FieldKind::real: return put(*static_cast<const double*>(place));
      case FieldKind::boolean: return put(*static_cast<const bool*>(place));
      case FieldKind::axis: return put(*static_cast<const std::uint8_t*>(place));
      case FieldKind::dtype: return put(*static_cast<const DType*>(place));
      case FieldKind::size: return put(*static_cast<const Dim*>(place));
      case FieldKind::axis_set: return put(static_cast<const AxisSet*>(place)->bits);
      case FieldKind::text: return put_known(interned_text(static_cast<const InternedText*>(place)->id).c_str());
      case FieldKind::number: return put(static_cast<const NumberBits*>(place)->word);
      case FieldKind::axes: return put_list<std::uint8_t>(place);
      case FieldKind::sizes: return put_list<Dim>(place);
      case FieldKind::integers: return put_list<std::int64_t>(place);
    }
  }
  // A recomputation by its place among those of the graph: its number depends on all that was traced before it.
  void put_recomputation(std::uint32_t number) {
    put(number == 0 ? 0 : recomputations_.emplace(number, recomputations_.size() + 1).first->second);
  }
  void add(const Graph& graph, const Node& node) {
    put(node.op), put(node.output_count), put(node.severed), put_recomputation(node.recomputation);
    put(node.type);
    for (const Type& type : node.more_types()) put(type);
    put_known(interned_text(node.scope).c_str());
    put_known(interned_text(region_of(node)).c_str());
    put(is_offloaded(node));
    put_known(node.loc.file);
    put(node.loc.line);
    const AttributeType& attributes = node.attributes().type();
    put(attributes.size);
    for (const Field& field : attributes.fields) {
      put_known(field.name);
      put(field.kind, field.place(node.attributes().data()));
    }
    put(node.operand_count);
    for (const Tensor& operand : node.inputs()) put_value(graph, operand);
    put(node.definition != nullptr);
    put(node.bodies().size());
    for (const auto& body : node.bodies()) put_body(body);
    if (node.more) put_body(node.more->extends);
    if (node.op == Op::data) put_data(node);
  }
  void put_data(const Node& node) {
    const Dim count = node.type.shape.element_count();
    whole_ =
        whole_ && node.storage && !node.layout && node.storage->device.type == Device::Type::cpu && count.is_constant();
    if (whole_)
      put(std::string_view(static_cast<const char*>(node.storage->data),
                           storage_bytes(node.type.dtype, static_cast<std::size_t>(count.constant()))));
  }

  std::string bytes_;
  bool whole_ = true;
  std::unordered_map<const char*, std::size_t> texts_;
  std::unordered_map<std::uint32_t, std::size_t> recomputations_;
  BodyDigests& bodies_;
};

}  // namespace

std::optional<Digest> full_digest(const Graph& graph) {
  BodyDigests bodies;
  GraphBytes bytes(bodies);
  bytes.add(graph);
  if (!bytes.whole()) return std::nullopt;
  return digest(bytes.bytes());
}

}  // namespace weft
