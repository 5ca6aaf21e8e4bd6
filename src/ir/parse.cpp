#include "ir/parse.hpp"

#include <bit>
#include <limits>
#include <map>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "base/text_reader.hpp"
#include "ir/builder.hpp"
#include "ir/composites.hpp"
#include "ir/offload_mark.hpp"
#include "ir/table.hpp"

namespace weft {
namespace {

class Parser final : TextReader {
 public:
  Parser(std::string_view text, const BesideText& beside) : TextReader(beside.operation, text), beside_(beside) {}

  Graph run() {
    Graph result = graph("");
    if (!at_end()) refuse("nothing more");
    return result;
  }

 private:
  bool names_atom(char letter) const override { return letter == 's'; }
  Dim atom(char, int index) override {
    const auto declared = symbols_.find(index);
    return declared == symbols_.end() ? dims::symbol(index) : declared->second;
  }

  std::string quoted() {
    expect("\"");
    std::string result;
    while (!accept("\"")) {
      if (at_ == text_.size()) refuse("the end of a quoted text");
      const bool escaped = accept("\\");
      if (at_ == text_.size()) refuse("the end of a quoted text");
      result += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
      ++at_;
    }
    return result;
  }

  // ---- types --------------------------------------------------------------------------------------------------------

  Type type() {
    Type type;
    type.dtype = dtype();
    expect("[");
    while (!accept("]")) {
      if (type.shape.rank() > 0) expect(",");
      if (type.shape.rank() == max_rank) refuse("a shape of at most 8 axes");
      type.shape.push_back(size());
    }
    type.weak = accept("'");
    if (accept("@cuda:")) type.device = Device::cuda(number<std::uint8_t>("the number of a device"));
    return type;
  }

  // ---- attributes ---------------------------------------------------------------------------------------------------

  template <class T, class Item>
  void list(void* place, Item item) {
    List<T> result;
    expect("[");
    while (!accept("]")) {
      if (result.count > 0) expect(",");
      if (result.count == max_rank) refuse("a list of at most 8 items");
      result.push_back(item());
    }
    *static_cast<List<T>*>(place) = result;
  }
  std::uint8_t axis() { return number<std::uint8_t>("an axis"); }
  void value(FieldKind kind, void* place, DType dtype_of_result) {
    switch (kind) {
      case FieldKind::integer: *static_cast<std::int64_t*>(place) = integer(); return;
      case FieldKind::number:
        static_cast<NumberBits*>(place)->word =
            is_floating(dtype_of_result) ? std::bit_cast<std::int64_t>(real()) : integer();
        return;
      case FieldKind::real: *static_cast<double*>(place) = real(); return;
      case FieldKind::boolean:
        if (!is("true")) expect("false");
        *static_cast<bool*>(place) = accept("true");
        return;
      case FieldKind::axis: *static_cast<std::uint8_t*>(place) = axis(); return;
      case FieldKind::dtype: *static_cast<DType*>(place) = dtype(); return;
      case FieldKind::size: *static_cast<Dim*>(place) = size(); return;
      case FieldKind::text: static_cast<InternedText*>(place)->id = intern_text(quoted()); return;
      case FieldKind::axes: return list<std::uint8_t>(place, [this] { return axis(); });
      case FieldKind::sizes: return list<Dim>(place, [this] { return size(); });
      case FieldKind::integers: return list<std::int64_t>(place, [this] { return integer(); });
      case FieldKind::axis_set: {
        AxisList axes;
        list<std::uint8_t>(&axes, [this] { return axis(); });
        for (const std::uint8_t i : axes) {
          if (i >= max_rank) refuse("a set of axes below 8");
          static_cast<AxisSet*>(place)->insert(i);
        }
        return;
      }
    }
  }
  // Of a call they begin with its name, which says what struct it is.
  const AttributeType& attribute_type_of(const OpInfo& row) {
    if (row.attributes != &attribute_type<Called>) return *row.attributes;
    const std::size_t start = at_;
    const std::string name = quoted();
    at_ = start;
    return composite_attributes(name);
  }
  Attributes attributes(const AttributeType& type, DType dtype) {
    Attributes result(type);
    while (!is(")")) {
      const Field* found = nullptr;
      for (const Field& field : type.fields) {
        const std::string name = field.name + std::string(*field.name ? " " : "");
        if (!is(name) || (found && name.empty())) continue;
        found = &field;
      }
      if (!found) refuse("an attribute");
      if (*found->name) at_ += std::string_view(found->name).size() + 1;
      value(found->kind, result.place(*found), dtype);
      if (!is(")")) expect(", ");
    }
    return result;
  }

  // ---- lines --------------------------------------------------------------------------------------------------------

  // `# model.cpp:41 mlp`, both or one of them.
  void comment(Loc& loc, std::uint32_t* scope) {
    spaces();
    if (!accept("# ")) return;
    std::string_view rest = take_while([](char c) { return c != '\n'; });
    const std::size_t colon = rest.rfind(':');
    if (colon != std::string_view::npos) {
      std::uint32_t line = 0;
      const char* const end = rest.data() + rest.size();
      const char* const behind = std::from_chars(rest.data() + colon + 1, end, line).ptr;
      loc.file = interned_text(intern_text(rest.substr(0, colon))).c_str();
      loc.line = static_cast<decltype(loc.line)>(line);
      rest = {behind, static_cast<std::size_t>(end - behind)};
      if (rest.starts_with(' ')) rest.remove_prefix(1);
    }
    if (scope) *scope = intern_text(rest);
  }
  Tensor operand(const Graph& graph) {
    expect("%");
    const auto index = number<std::size_t>("the number of a node");
    if (index >= graph.nodes.size()) refuse("a node of a line above");
    Node* const node = graph.nodes[index].node();
    const unsigned output = accept(".") ? number<unsigned>("the number of a result") : 0;
    if (output >= node->output_count) refuse("a result that the node has");
    return Tensor(node, output);
  }
  void symbol(Graph& graph) {
    expect("s");
    if (number<std::size_t>("the number of a symbol") != graph.symbols.size()) refuse("the next symbol");
    expect(" = size ");
    DimSymbol symbol{integer()};
    expect(", at least ");
    symbol.lower = integer();
    if (accept(", at most ")) symbol.upper = integer();
    expect("\n");
    const int index = static_cast<int>(graph.symbols.size());
    symbols_[index] = dims::symbol(index, symbol.lower);
    graph.symbols.push_back(symbol);
  }
  void condition(Graph& graph) {
    expect("decided ");
    DimCondition condition{};
    condition.holds = !accept("not ");
    condition.left = size();
    condition.kind = is(" < ") ? DimCondition::Kind::less : DimCondition::Kind::equal;
    if (!accept(" < ")) expect(" == ");
    condition.right = size();
    condition.after = accept("  after");
    comment(condition.loc, nullptr);
    expect("\n");
    graph.conditions.push_back(condition);
  }
  void node(Graph& graph, const std::string& margin) {
    expect("%");
    if (number<std::size_t>("the number of a node") != graph.nodes.size()) refuse("the next node");
    expect(" ");
    std::vector<Type> types{type()};
    while (accept(", ")) types.push_back(type());
    expect(" = ");
    const std::size_t begin = at_;
    const std::string_view name = word();
    int op = 0;
    while (op < op_count && name != info(static_cast<Op>(op)).name) ++op;
    if (op == op_count) at_ = begin, refuse(concat_text("a primitive, which '", name, "' is not,"));
    const OpInfo& row = info(static_cast<Op>(op));
    expect("(");
    std::vector<Tensor> operands;
    while (is("%")) {
      operands.push_back(operand(graph));
      if (!accept(", ")) break;
    }
    if (row.arity >= 0 && operands.size() != static_cast<std::size_t>(row.arity))
      refuse(std::to_string(row.arity) + (row.arity == 1 ? " operand" : " operands"));
    if (!operands.empty()) accept("; ");
    const Attributes held = attributes(attribute_type_of(row), types[0].dtype);
    expect(")");
    const std::uint32_t recomputation = accept(" recomputation ") ? number<std::uint32_t>("a recomputation") : 0;
    const bool offloaded = accept(" offloaded");
    Loc loc;
    std::uint32_t scope = 0;
    comment(loc, &scope);
    expect("\n");
    const Tensor value = make_node(static_cast<Op>(op), operands, held, types[0], loc);
    Node& made = *value.node();
    made.scope = scope;
    made.recomputation = recomputation;
    if (offloaded) made.region = offload_mark;
    set_more_results(made, std::span(types).subspan(1));
    if (made.op == Op::data && data_ < beside_.data.size()) share_contents(made, beside_.data[data_++]);
    if (made.op == Op::call && definition_ < beside_.definitions.size())
      made.definition = beside_.definitions[definition_++];
    while (is(margin + "  ")) {
      if (margin.size() == 2 * most_bodies) refuse("a body that is in fewer others");
      made.make_more().bodies.push_back(std::make_shared<const Graph>(this->graph(margin + "  ")));
    }
    graph.add(value);
    if (made.op == Op::input) {
      const auto slot = static_cast<std::size_t>(held.as<Parameter>().slot);
      if (slot > 1u << 20) refuse("a slot of an input");
      if (graph.inputs.size() <= slot) graph.inputs.resize(slot + 1);
      graph.inputs[slot] = value;
    }
  }
  static void share_contents(Node& made, const Tensor& from) {
    if (!from.node()->storage) return;
    retain(made.storage = from.node()->storage);
    if (from.node()->layout) made.layout = new Layout(*from.node()->layout);
  }
  Graph graph(const std::string& margin) {
    Graph result;
    while (expect(margin), !accept("return")) {
      if (is("%"))
        node(result, margin);
      else if (is("s"))
        symbol(result);
      else
        condition(result);
    }
    while (is(" %")) accept(" "), result.outputs.push_back(operand(result));
    if (accept("  effects"))
      while (accept(" ")) result.effects.push_back(operand(result));
    expect("\n");
    for (const Tensor& input : result.inputs)
      if (!input.defined()) refuse("an input for every slot");
    return result;
  }

  static constexpr std::size_t most_bodies = 64;  // in each other

  const BesideText& beside_;
  std::size_t data_ = 0, definition_ = 0;
  std::map<int, Dim> symbols_;
};

}  // namespace

Graph parse_graph(std::string_view text, const BesideText& beside) { return Parser(text, beside).run(); }

}  // namespace weft
