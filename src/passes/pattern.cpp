#include "passes/pattern.hpp"

#include <climits>

#include "base/fail.hpp"
#include "passes/regions.hpp"

namespace weft {

using pattern::Term;

// One graph under one table.
class Rewriting {
 public:
  Rewriting(const Graph& graph, const RewriteTable& table, const PassContext& context)
      : context(context), graph_(graph), table_(table) {}

  Tensor replace(const Node& node, std::span<const Tensor> operands) {
    if (node.output_count != 1) return {};
    Tensor result = apply_first(node, operands);
    while (result.defined() && result.output() == 0) {
      Tensor next = apply_first(*result.node(), result.node()->inputs());
      if (!next.defined()) break;
      result = std::move(next);
    }
    return result;
  }

  int readers(const Tensor& value) {
    const std::uint32_t number = graph_.number(value);
    if (number == NodeNumbers::none) return INT_MAX;
    if (readers_.empty()) {
      readers_.resize(graph_.nodes.size());
      for (const Tensor& each : graph_.nodes)
        for (const Tensor& operand : each.node()->inputs()) ++readers_[graph_.number(operand)];
      for (const Tensor& output : graph_.outputs) ++readers_[graph_.number(output)];
    }
    return readers_[number];
  }

  const PassContext& context;

 private:
  Tensor apply_first(const Node& node, std::span<const Tensor> operands) {
    const Rewrite* row = table_.first(node.op);
    if (!row) return {};
    Match match(node, operands, *this);
    for (; row; row = table_.next(row))
      if (Tensor result = apply(*row, match); result.defined()) {
        if (context.rewritten) context.rewritten(*row);
        return result;
      }
    return {};
  }

  // In each order of the operations that commute.
  Tensor apply(const Rewrite& row, Match& match) {
    for (unsigned order = 0; order < order_count(row.from); ++order) {
      if (!fits(row.from, match.node, match.operands, order, match.bound_) || (row.when && !row.when(match))) continue;
      const Term* at = row.to.expression.terms;
      Tensor result = row.to.make ? row.to.make(match) : make(at, match, match.node.type);
      if (result.defined() && type_of(result).same(match.node.type)) return result;
    }
    return {};
  }

  // The outermost operation has the type of what is replaced, the others that which is inferred.
  static Tensor make(const Term*& at, const Match& match, const Type& wanted) {
    const Term& term = *at++;
    if (term.kind == Term::Kind::letter) return *match.bound_.values[term.letter];
    std::vector<Tensor> operands;
    for (int i = 0; i < term.operands; ++i) operands.push_back(make(at, match, {}));
    return match.build().make(term.op, operands, {}, wanted);
  }

  const Graph& graph_;
  const RewriteTable& table_;
  std::vector<int> readers_;  // counted when first asked
};

Match::Match(const Node& node, std::span<const Tensor> operands, Rewriting& rewriting)
    : node(node), operands(operands), context(rewriting.context), rewriting_(rewriting) {}

int Match::readers(const Tensor& value) const { return rewriting_.readers(value); }

Graph rewrite(const Graph& graph, const RewriteTable& table, const PassContext& context) {
  const Graph inner = in_bodies(graph, [&](const Graph& body) { return rewrite(body, table, context); });
  Rewriting rewriting(inner, table, context);
  return rewrite(inner,
                 [&](const Node& node, std::span<const Tensor> operands) { return rewriting.replace(node, operands); });
}

namespace {
std::string text_of(const Term*& at) {
  const Term& term = *at++;
  if (term.kind == Term::Kind::letter) return {pattern::letters[term.letter]};
  if (term.kind == Term::Kind::number) return concat_text(term.number);
  std::string text = info(term.op).name;
  for (int i = 0; i < term.operands; ++i) text += (i ? ", " : "(") + text_of(at);
  return text + ")";
}
}  // namespace

std::string to_text(const Rewrite& row) {
  const Term *from = row.from.terms, *to = row.to.expression.terms;
  return text_of(from) + " -> " + (row.to.text ? row.to.text : text_of(to));
}

}  // namespace weft
