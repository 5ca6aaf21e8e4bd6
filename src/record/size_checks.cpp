#include "record/size_checks.hpp"

#include "base/dim_conditions.hpp"
#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "record/record.hpp"

namespace weft {
namespace {

class SizeChecks {
 public:
  SizeChecks(std::span<const std::int64_t> symbols, const char* operation, Loc loc)
      : symbols_(symbols), operation_(operation), loc_(loc) {}

  void graph(const Graph& graph) const {
    for (const Tensor& value : graph.nodes) {
      const Node& checked = *value.node();
      type(checked, checked.type);
      for (const Type& more : checked.more_types()) type(checked, more);
      node(checked);
      for (const auto& body : checked.bodies())
        if (body->symbols.empty()) this->graph(*body);
    }
  }

 private:
  template <class... Words>
  [[noreturn]] void refuse(const Node& node, const Words&... words) const {
    fail(operation_, loc_, name_of(node), " ", words...);
  }
  std::int64_t at(Dim size) const { return size.is_constant() ? size.constant() : dims::evaluate(size, symbols_); }
  std::int64_t size_of(const Tensor& value, int axis) const { return at(type_of(value).shape[axis]); }

  void type(const Node& node, const Type& type) const {
    std::int64_t count = 1;
    for (int axis = 0; axis < type.shape.rank(); ++axis) {
      const std::int64_t size = at(type.shape[axis]);
      if (size < 0) refuse(node, "has a size of ", size, ": ", to_string(type));
      if (__builtin_mul_overflow(count, std::max(size, std::int64_t{1}), &count) || count >= count_limit)
        refuse(node, "has more elements than there can be: ", to_string(type));
    }
  }
  void node(const Node& node) const {
    switch (node.op) {
      case Op::slice: {
        const auto& slice = node.attributes<Slice>();
        const std::int64_t whole = size_of(node.input(0), slice.axis), size = at(node.type.shape[slice.axis]);
        const std::int64_t start = at(slice.start);
        std::int64_t last = 0;
        if (size > 0 && (start < 0 || start >= whole || __builtin_mul_overflow(size - 1, slice.step, &last) ||
                         __builtin_add_overflow(last, start, &last) || last < 0 || last >= whole))
          refuse(node, "reads outside of axis ", int{slice.axis}, " of ", to_string(type_of(node.input(0))), ": ", size,
                 " from ", start, " by ", slice.step);
        return;
      }
      case Op::windows: {
        const auto& windows = node.attributes<Windows>();
        std::int64_t last = 0;
        if (__builtin_mul_overflow(windows.size - 1, windows.dilation, &last) ||
            last >= size_of(node.input(0), windows.axis))
          refuse(node, "has a window that is longer than axis ", int{windows.axis}, " of ",
                 to_string(type_of(node.input(0))));
        return;
      }
      case Op::update_slice: {
        const int axis = node.attributes<Along>().axis;
        if (size_of(node.input(1), axis) > size_of(node.input(0), axis))
          refuse(node, "has an update that is longer than axis ", axis, " of ", to_string(type_of(node.input(0))));
        return;
      }
      case Op::pad: {
        const auto& pad = node.attributes<Pad>();
        if (at(pad.before) < 0 || at(pad.after) < 0 || pad.interior < 0) refuse(node, "has negative padding");
        return;
      }
      case Op::argsort: {
        const auto& order = node.attributes<Order>();
        const std::int64_t whole = size_of(node.input(0), type_of(node.input(0)).shape.rank() - 1);
        const std::int64_t first = at(order.first), count = at(order.count);
        if (first < 0 || count < 0 || first > whole || count > whole - first)
          refuse(node, "has ", count, " places from ", first, ", and its rows ", whole);
        return;
      }
      case Op::scan:
        if (at(node.attributes<Scan>().length) < 0) refuse(node, "has a negative length");
        return;
      default: return;
    }
  }

  std::span<const std::int64_t> symbols_;
  const char* operation_;
  Loc loc_;
};

}  // namespace

void check_guards(const Graph& graph, std::span<const std::int64_t> symbols, const char* operation, Loc loc) {
  const auto value_of = [&](std::size_t symbol) {
    WEFT_CHECK(symbol < symbols.size(), "a condition on a symbol that the graph does not have");
    return symbols[symbol];
  };
  if (const std::optional<std::size_t> broken = broken_range(graph.symbols, value_of)) {
    const DimSymbol& symbol = graph.symbols[*broken];
    fail(operation, loc, "s", *broken, " is ", symbols[*broken], ", and the graph is of sizes from ", symbol.lower,
         symbol.upper == INT64_MAX ? std::string() : concat_text(" to ", symbol.upper));
  }
  const std::optional<std::size_t> broken = broken_condition(graph.conditions, value_of);
  if (!broken) return;
  const DimCondition& condition = graph.conditions[*broken];
  std::string sizes;
  for (std::size_t i = 0; i < graph.symbols.size(); ++i)
    sizes += concat_text(i == 0 ? "" : ", ", "s", i, " is ", symbols[i]);
  const std::string line = to_string(condition.loc);
  fail(operation, loc, sizes, ", and the graph is of sizes with ", condition_text(condition),
       line.empty() ? "" : ", decided " + ((condition.after ? "after " : "at ") + line));
}

void check_sizes_at(const Graph& graph, std::span<const std::int64_t> symbols, const char* operation, Loc loc) {
  SizeChecks(symbols, operation, loc).graph(graph);
}

void EqualSizes::add(const std::string& name, const std::string& input, int axis, Dim size) {
  std::string place = concat_text("axis ", axis, " of ", input);
  const auto [first, is_new] = sizes_.try_emplace(name, First{place, size});
  if (is_new || first->second.size == size) return;
  fail(operation_, loc_, first->second.place, " is ", dims::to_string(first->second.size), " and ", place, " is ",
       dims::to_string(size), ", and both are ", name, " in ", of_, ": they must be equal");
}

}  // namespace weft
