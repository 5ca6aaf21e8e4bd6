#include "ir/attention_mods.hpp"

#include <algorithm>

#include "ir/composites.hpp"
#include "ir/parse.hpp"

namespace weft {

AttentionMods attention_mods(InternedText text) {
  AttentionMods mods{parse_graph(interned_text(text.id)), {}, {}};
  for (const Tensor& output : mods.graph.outputs)
    (type_of(output).dtype == DType::boolean ? mods.sees : mods.score) = output;
  return mods;
}

InternedText attention_mods_text(const Graph& graph) { return {intern_text(structure_text(graph))}; }

bool attention_may_be_whole(const Type& query) {
  return query.device.type != Device::Type::cpu && (query.dtype == DType::f16 || query.dtype == DType::bf16);
}

bool attention_may_be_whole(const CallValues& call) {
  const auto& wanted = call.wanted;
  if (interned_text(called_name(call.called).id) != "scaled_dot_product_attention") return false;
  return &call.called.type() == &attribute_type<AttentionCall> && call.results.size() > 1 && wanted[0] && wanted[1] &&
         wanted[2] && std::none_of(wanted.begin() + 3, wanted.end(), [](unsigned char each) { return each; });
}

namespace {

constexpr std::size_t most_letters = 200;  // of a function's words

// A value that is used twice is written twice: `text` may end early.
void write_words(std::string& text, const Tensor& value) {
  if (text.size() > most_letters) return;
  const Node& node = *value.node();
  if (node.op == Op::input) {
    constexpr const char* names[] = {"score", "b", "h", "q", "k"};
    const auto slot = static_cast<std::size_t>(node.attributes<Parameter>().slot);
    text += slot < pair_inputs ? names[slot] : "captured" + std::to_string(slot - pair_inputs);
    return;
  }
  if (node.op == Op::cast || node.op == Op::stop_gradient) return write_words(text, node.input(0));
  if (node.op == Op::constant) {
    text += node.attributes().to_text(node.type.dtype);
    return;
  }
  text += std::string(info(node.op).name) + "(";
  for (std::size_t i = 0; i < node.operand_count; ++i) {
    if (i > 0) text += ", ";
    write_words(text, node.input(i));
  }
  text += ")";
}

}  // namespace

std::string to_words(const AttentionMods& mods) {
  std::string all;
  for (const auto& [name, value] : {std::pair("score_mod ", mods.score), std::pair("mask_mod ", mods.sees)}) {
    if (!value.defined()) continue;
    std::string text;
    write_words(text, value);
    if (text.size() > most_letters) text = text.substr(0, most_letters) + "...";
    all += (all.empty() ? "" : ", ") + std::string(name) + text;
  }
  return all;
}

}  // namespace weft
