// Loops and choices as Scan, Loop and If.
#include "ir/callee.hpp"
#include "onnx/writer.hpp"

namespace weft::onnx {

Graph Writer::body_of(const Node& node, std::size_t i) {
  return with_calls_inlined(*node.bodies()[i], [](const Node& each) { return !has_node(each); });
}
void Writer::give(const Node& node, const std::vector<std::string>& results) {
  for (std::size_t i = 0; i < results.size(); ++i)
    set(Tensor(const_cast<Node*>(&node), static_cast<unsigned>(i)), results[i]);
}
std::vector<std::string> Writer::fresh_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(fresh());
  return names;
}
void Writer::write_scan(const Node& node) {
  const auto& how = node.attributes<Scan>();
  const auto carries = static_cast<std::size_t>(how.carries), scanned = static_cast<std::size_t>(how.scanned);
  const Graph body = body_of(node, 0);
  Writer inside(*this);
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    if (i >= carries + scanned) {
      inside.set(body.inputs[i], name(node.input(i)));
      continue;
    }
    const std::string own = fresh();
    inside.set(body.inputs[i], own);
    inside.made.inputs.push_back(port(own, type_of(body.inputs[i])));
    operands.push_back(name(node.input(i)));
  }
  if (scanned == 0) {  // a row of nothing for each iteration
    const std::string own = fresh();
    inside.made.inputs.push_back({own, element_type(DType::i64), true});
    operands.push_back(
        emit("Range", {integer(DType::i64, 0), emit("Squeeze", {size(how.length)}), integer(DType::i64, 1)}));
  }
  inside.nodes_of(body);
  inside.outputs_of(body.outputs, fresh_names(body.outputs.size()));
  inside.made.name = fresh();
  const std::size_t stacked = body.outputs.size() - carries, rows = std::max<std::size_t>(scanned, 1);
  AttributeList attributes{attribute("num_scan_inputs", static_cast<std::int64_t>(rows)),
                           attribute("body", std::move(inside.made))};
  if (how.reverse) {
    attributes.push_back(attribute("scan_input_directions", Integers(rows, 1)));
    if (stacked) attributes.push_back(attribute("scan_output_directions", Integers(stacked, 1)));
  }
  const std::vector<std::string> results = fresh_names(node.output_count);
  made.nodes.push_back({"", "Scan", "", operands, results, std::move(attributes)});
  give(node, results);
}
void Writer::write_while(const Node& node) {
  const auto carries = static_cast<std::size_t>(node.attributes<While>().carries);
  const Graph condition = body_of(node, 0), body = body_of(node, 1);
  const auto asked = [&](Writer& at, const std::vector<std::string>& values) {
    for (std::size_t i = 0; i < condition.inputs.size(); ++i)
      at.set(condition.inputs[i], i < carries ? values[i] : name(node.input(i)));
    at.nodes_of(condition);
    return at.emit("Reshape", {at.name(condition.outputs[0]), at.integers({})});
  };
  std::vector<std::string> first;
  for (std::size_t i = 0; i < carries; ++i) first.push_back(name(node.input(i)));
  const std::string begins = asked(*this, first);
  Writer inside(*this);
  const std::string iteration = fresh(), goes_on = fresh();
  inside.made.inputs = {{iteration, element_type(DType::i64), true}, {goes_on, element_type(DType::boolean), true}};
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    const std::string own = i < carries ? fresh() : name(node.input(i));
    inside.set(body.inputs[i], own);
    if (i < carries) inside.made.inputs.push_back(port(own, type_of(body.inputs[i])));
  }
  inside.nodes_of(body);
  std::vector<std::string> next;
  for (const Tensor& each : body.outputs) next.push_back(inside.name(each));
  const std::string again = asked(inside, next), out = fresh();
  inside.made.nodes.push_back({"", "Identity", "", {again}, {out}});
  inside.made.outputs.push_back({out, element_type(DType::boolean), true});
  inside.outputs_of(body.outputs, fresh_names(carries));
  inside.made.name = fresh();
  const std::int64_t limit = node.attributes<While>().limit;
  std::vector<std::string> operands{limit > 0 ? emit("Squeeze", {integers({limit})}) : "", begins};
  operands.insert(operands.end(), first.begin(), first.end());
  const std::vector<std::string> results = fresh_names(node.output_count);
  made.nodes.push_back({"", "Loop", "", operands, results, {attribute("body", std::move(inside.made))}});
  give(node, results);
}
void Writer::write_cond(const Node& node) {
  AttributeList attributes;
  for (std::size_t branch = 0; branch < 2; ++branch) {
    const Graph body = body_of(node, branch);
    Writer inside(*this);
    for (std::size_t i = 0; i < body.inputs.size(); ++i) inside.set(body.inputs[i], name(node.input(i + 1)));
    inside.nodes_of(body);
    inside.outputs_of(body.outputs, fresh_names(body.outputs.size()));
    inside.made.name = fresh();
    attributes.push_back(attribute(branch == 0 ? "then_branch" : "else_branch", std::move(inside.made)));
  }
  const std::string predicate = emit("Reshape", {name(node.input(0)), integers({})});
  const std::vector<std::string> results = fresh_names(node.output_count);
  made.nodes.push_back({"", "If", "", {predicate}, results, std::move(attributes)});
  give(node, results);
}

}  // namespace weft::onnx
