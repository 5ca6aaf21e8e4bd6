// The text of a graph, read back: to_text(parse_graph(text)) is the text again.
#include "ir/parse.hpp"

#include "ir/composites.hpp"
#include "tests/ir/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace graph_test;

namespace {

Graph read_back(const Graph& graph, const BesideText& beside = {}) {
  const std::string text = to_text(graph);
  Graph parsed = parse_graph(text, beside);
  CHECK(to_text(parsed) == text);
  CHECK(structure_text(parsed) == structure_text(graph));
  return parsed;
}

std::string refusal(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

Tensor loss(const Tensor& x, const Tensor& w) {
  Tensor h = x.size(0) < Dim(10) ? relu(matmul(x, w)) : matmul(x, w);
  h = concat(std::vector{h, slice(h, 0, 0, x.size(0), 2)}, 0);
  return mean(softmax(h, 1)) + sum(reshape(x, {-1}));
}
Tensor slope(const Tensor& x, const Tensor& w) {
  return grad([&](const Tensor& v) { return loss(x, v); }, w);
}

// Something other than the default, in each field.
void fill(Attributes& attributes) {
  for (const Field& field : attributes.type().fields) {
    void* const place = attributes.place(field);
    switch (field.kind) {
      case FieldKind::integer: *static_cast<std::int64_t*>(place) = -7; break;
      case FieldKind::number:
        static_cast<NumberBits*>(place)->word = Constant::number(DType::f32, 0.1f).bits.word;
        break;
      case FieldKind::real: *static_cast<double*>(place) = -1e-300; break;
      case FieldKind::boolean: *static_cast<bool*>(place) ^= true; break;
      case FieldKind::axis: *static_cast<std::uint8_t*>(place) = 1; break;
      case FieldKind::dtype: *static_cast<DType*>(place) = DType::bf16; break;
      case FieldKind::size: *static_cast<Dim*>(place) = dims::symbol(0) * Dim(3) - Dim(1); break;
      case FieldKind::axis_set: static_cast<AxisSet*>(place)->bits = 5; break;
      case FieldKind::text: static_cast<InternedText*>(place)->id = intern_text("a \"text\" of\ntwo \\ lines"); break;
      case FieldKind::axes: *static_cast<AxisList*>(place) = {{2, 0, 1}, 3}; break;
      case FieldKind::sizes: *static_cast<List<Dim>*>(place) = {{dims::symbol(0), 4}, 2}; break;
      case FieldKind::integers: *static_cast<List<std::int64_t>*>(place) = {{-1, 4}, 2}; break;
    }
  }
}

}  // namespace

TEST_CASE("text: every primitive of the table reads back, with its attributes") {
  const Type type{DType::f32, false, {}, Shape::of(2, dims::symbol(0))};
  const Builder build({"model.cpp", 41}, intern_text("mlp"), 0);
  for (int row = 0; row < op_count; ++row) {
    const Op op = static_cast<Op>(row);
    INFO(info(op).name);
    Graph graph;
    graph.symbols.push_back({5, 2, 100});
    const int arity = info(op).arity < 0 ? 4 : info(op).arity;
    for (int i = 0; i < arity; ++i) graph.inputs.push_back(build.input(static_cast<std::size_t>(i), type));
    graph.nodes = graph.inputs;
    Attributes attributes(*info(op).attributes);
    if (op == Op::input)
      attributes = Parameter{0};
    else
      fill(attributes);
    Type weak = type;
    weak.weak = true;
    weak.device = Device::cuda(1);
    graph.nodes.push_back(make_node(op, graph.inputs, attributes, weak, {"other.cpp", 7}));
    if (op == Op::input) graph.inputs = graph.nodes;
    graph.outputs.push_back(graph.nodes.back());
    graph.number_nodes();
    const Graph parsed = read_back(graph);
    CHECK(parsed.nodes.back().node()->attributes() == attributes);
    CHECK(parsed.nodes.back().node()->op == op);
  }
}

TEST_CASE("text: every composite of the table reads back, and its derivative, with its attributes") {
  const Type type{DType::f32, false, {}, Shape::of(2, 3)};
  const Builder build({"model.cpp", 41}, 0, 0);
  for (const CompositeRow& row : composite_rows)
    for (const char* derivative : {"", "_backward", "_backward_backward"}) {
      const std::string name = std::string(row.name) + derivative;
      CAPTURE(name);
      Attributes attributes(*row.attributes);
      fill(attributes);
      attributes = with_called_name(attributes, name);
      CHECK(interned_text(called_name(attributes).id) == name);
      Graph graph;
      graph.inputs.push_back(build.input(0, type));
      graph.nodes = {graph.inputs[0], make_node(Op::call, graph.inputs, attributes, type, {"other.cpp", 7})};
      graph.outputs.push_back(graph.nodes.back());
      graph.number_nodes();
      CHECK(read_back(graph).nodes.back().node()->attributes() == attributes);
    }
}

TEST_CASE("text: bodies, several results, effects, and what is given beside the text") {
  auto body = [](auto make) {
    Recording r;
    Tensor a = r.x(), b = r.x();
    return std::make_shared<const Graph>(r.graph(make(a, b)));
  };
  auto inside = body([](const Tensor& a, const Tensor& b) {
    record(Op::check, {full({}, 1, {.dtype = DType::boolean})}, Message{{intern_text("in a body")}}, {}, {});
    return std::vector{a - b, a * b};
  });
  auto outside = body([&](const Tensor& a, const Tensor& b) {
    const Tensor both = call(inside, b, a);
    return std::vector{both + Tensor(both.node(), 1)};
  });
  Recording r;
  Tensor x = r.x();
  const Tensor once = call(outside, x, x);
  once.node()->more->bodies.push_back(inside);  // two bodies
  const Tensor held =
      detail::copy_in(std::vector<float>{1, 2}.data(), DType::f32, Shape::of(2), 2, detail::HostData::constant, {});
  const Graph graph = r.graph({once, softmax(x, 1), held});
  CHECK(read_back(graph).outputs[2].node()->storage == nullptr);
  const Graph parsed = read_back(graph, {{held}, {}});
  CHECK(parsed.outputs[2].node()->storage == held.node()->storage);
  CHECK(parsed.outputs[0].node()->bodies().size() == 2);
  verify(*parsed.outputs[0].node()->bodies()[0]);
}

TEST_CASE("text: the graphs of traced functions, with symbolic sizes, decided conditions and gradients") {
  auto f = compile(slope, {.dynamic = true, .backend = Backend::eager});
  const std::string text = explain(f, ones({6, 4}), ones({4, 3})).graph;
  INFO(text);
  CHECK(text.starts_with("s0 = size 6, at least 2"));
  CHECK(text.find("decided s0 < 10") != std::string::npos);
  CHECK(to_text(parse_graph(text)) == text);
}

TEST_CASE("text: sizes read back as the expressions that they were") {
  const Dim a = dims::symbol(0), b = dims::symbol(1);
  for (const Dim size : {a, -a, a * b * Dim(2) - Dim(3), Dim(4) - a * a, a / Dim(3), (a - b) / Dim(3), (a - b) % b,
                         -(a / b) + (a % Dim(2)) * b, Dim(0) - Dim(5) * a, Dim(-3)}) {
    Graph graph;
    graph.symbols = {{5}, {6}};
    graph.nodes.push_back(make_node(Op::constant, {}, Constant{{}, size}, Type{DType::i64}, {}));
    graph.number_nodes();
    INFO(dims::to_string(size));
    CHECK(read_back(graph).nodes[0].node()->attributes<Constant>().size.same(size));
  }
}

TEST_CASE("text: what does not fit is named with its line and column") {
  CHECK(refusal("%0 f32[2] = input(0)\nreturn %0\n") == "read");
  CHECK(refusal("%0 f32[2] = input(0)\nreturn %1\n") ==
        "[parse_graph] line 2, column 10: a node of a line above is expected");
  CHECK(refusal("%0 f33[2] = input(0)\n") == "[parse_graph] line 1, column 4: a dtype is expected");
  CHECK(refusal("%0 f32[2] = inputs(0)\n") == "[parse_graph] line 1, column 13: a primitive, which 'inputs' is not, is expected");
  CHECK(refusal("%0 f32[2] = iota(axes 0)\n") == "[parse_graph] line 1, column 18: an attribute is expected");
  CHECK(refusal("%0 f32[2] = neg()\n") == "[parse_graph] line 1, column 17: 1 operand is expected");
  CHECK(refusal("%0 f32[2] = input(1)\nreturn\n") ==
        "[parse_graph] line 3, column 1: an input for every slot is expected");
  CHECK(refusal("return\nmore") == "[parse_graph] line 2, column 1: nothing more is expected");
}
