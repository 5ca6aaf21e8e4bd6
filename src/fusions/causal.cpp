#include "fusions/causal.hpp"

#include "ir/attributes.hpp"
#include "ir/match.hpp"
#include "ir/table.hpp"

namespace weft {
namespace {

constexpr int deepest = 24;

// The place on the last axis but one, or on the last, of an element, and a number.
struct Place {
  enum class Of : std::uint8_t { neither, query, key } of = Of::neither;
  double plus = 0;
};

Shape shape_of(const Tensor& value) { return type_of(value).shape; }

bool is_passed_on(const Node& node) {
  return node.op == Op::transfer || node.op == Op::variable || node.op == Op::stop_gradient;
}
// A dtype that holds the places of a text.
bool holds_places(DType dtype) {
  return dtype == DType::i32 || dtype == DType::i64 || dtype == DType::f32 || dtype == DType::f64;
}

// The number along `axis`, counted from the end, that an element of a view has of its operand; -1 where it is none.
int axis_of_operand(const Node& view, int axis) {
  const Shape &to = view.type.shape, from = shape_of(view.input(0));
  const int at = to.rank() - axis;
  if (at < 0) return -1;
  switch (view.op) {
    case Op::expand: {
      const int there = at - (to.rank() - from.rank());
      return there >= 0 && from[there].same(to[at]) ? axis : -1;
    }
    case Op::permute: return from.rank() - view.attributes<Permute>().axes[static_cast<std::size_t>(at)];
    case Op::reshape: {  // axes of one element come and go
      if (to[at].same(Dim(1))) return -1;
      int found = -1, next = 0;
      for (int i = 0; i < to.rank(); ++i) {
        if (to[i].same(Dim(1))) continue;
        while (next < from.rank() && from[next].same(Dim(1))) ++next;
        if (next == from.rank() || !from[next].same(to[i])) return -1;
        if (i == at) found = next;
        ++next;
      }
      return from.rank() - found;
    }
    default: return -1;
  }
}

std::optional<double> uniform(const Tensor& value) {
  if (!is_uniform(value)) return {};
  return value.node()->attributes<Constant>().as_number(type_of(value).dtype);
}

// What lies along the axis that is `query` from the end for queries, and `key` from the end for keys; 0: along none.
std::optional<Place> place(const Tensor& value, int query, int key, int left) {
  const Node& node = *value.node();
  if (left == 0 || !holds_places(node.type.dtype)) return {};
  if (const auto number = uniform(value)) return Place{Place::Of::neither, *number};
  if (is_passed_on(node) || node.op == Op::cast) return place(node.input(0), query, key, left - 1);
  switch (node.op) {
    case Op::iota: {
      const int axis = node.type.shape.rank() - node.attributes<Along>().axis;
      if (axis == query) return Place{Place::Of::query};
      if (axis == key) return Place{Place::Of::key};
      return {};
    }
    case Op::expand:
    case Op::permute:
    case Op::reshape: {
      const int of_query = query > 0 ? axis_of_operand(node, query) : -1,
                of_key = key > 0 ? axis_of_operand(node, key) : -1;
      return place(node.input(0), of_query, of_key, left - 1);
    }
    case Op::add:
    case Op::sub: {
      const auto a = place(node.input(0), query, key, left - 1), b = place(node.input(1), query, key, left - 1);
      if (!a || !b || b->of != Place::Of::neither) {
        if (a && b && node.op == Op::add && a->of == Place::Of::neither) return Place{b->of, a->plus + b->plus};
        return {};
      }
      return Place{a->of, node.op == Op::add ? a->plus + b->plus : a->plus - b->plus};
    }
    default: return {};
  }
}

// A difference of places: key - query, or the other way, and a number.
struct Difference {
  bool key_first;
  double plus;
};
std::optional<Difference> difference(const Tensor& value, int left) {
  const Node& node = *value.node();
  if (left == 0 || !holds_places(node.type.dtype)) return {};
  if (is_passed_on(node) || node.op == Op::cast) return difference(node.input(0), left - 1);
  if (node.op != Op::sub && node.op != Op::add) return {};
  const Tensor &first = node.input(0), &second = node.input(1);
  const double sign = node.op == Op::sub ? -1 : 1;
  if (const auto number = uniform(second))
    if (const auto of = difference(first, left - 1)) return Difference{of->key_first, of->plus + sign * *number};
  if (node.op == Op::add) return {};
  const auto a = place(first, 2, 1, left - 1), b = place(second, 2, 1, left - 1);
  if (!a || !b || a->of == Place::Of::neither || b->of == Place::Of::neither || a->of == b->of) return {};
  return Difference{a->of == Place::Of::key, a->plus - b->plus};
}

// Whether `key - query` is compared with what parts seen from hidden: less or equal 0. Then what the comparison gives.
std::optional<CausalNumbers> compared(const Node& node, int left) {
  // less: a < b, less_equal: a <= b, as key - query < bound or key - query > bound, in whole numbers.
  const bool with_equal = node.op == Op::less_equal;
  std::optional<Difference> of;
  const auto a = place(node.input(0), 2, 1, left - 1), b = place(node.input(1), 2, 1, left - 1);
  if (a && b && a->of != Place::Of::neither && b->of != Place::Of::neither && a->of != b->of)
    of = Difference{a->of == Place::Of::key, a->plus - b->plus};
  bool is_left = true;  // the difference is on the left of the sign
  if (!of)
    if (const auto number = uniform(node.input(1)))
      if ((of = difference(node.input(0), left - 1))) of->plus -= *number;
  if (!of)
    if (const auto number = uniform(node.input(0)))
      if ((of = difference(node.input(1), left - 1))) of->plus -= *number, is_left = false;
  if (!of || of->plus != static_cast<double>(static_cast<std::int64_t>(of->plus))) return {};
  // Now: d + plus < 0 (or <=), where d = key - query or its negative; on the right: 0 < d + plus.
  const bool lower = of->key_first == is_left;  // key - query is bounded from above
  const double bound = of->key_first ? -of->plus : of->plus;
  // lower: key - query < bound (<= bound); else key - query > bound (>= bound).
  if (lower) return bound == (with_equal ? 0 : 1) ? std::optional(CausalNumbers{1, 0}) : std::nullopt;
  return bound == (with_equal ? 1 : 0) ? std::optional(CausalNumbers{0, 1}) : std::nullopt;
}

std::optional<CausalNumbers> numbers(const Tensor& value, int left) {
  const Node& node = *value.node();
  if (left == 0) return {};
  if (const auto number = uniform(value)) return CausalNumbers{*number, *number};
  if (is_passed_on(node)) return numbers(node.input(0), left - 1);
  const auto all = [&](const auto& compute) -> std::optional<CausalNumbers> {
    CausalNumbers of[3];
    for (std::size_t i = 0; i < node.operand_count; ++i) {
      const auto one = numbers(node.input(i), left - 1);
      if (!one) return {};
      of[i] = *one;
    }
    return CausalNumbers{compute(of[0].seen, of[1].seen, of[2].seen),
                         compute(of[0].hidden, of[1].hidden, of[2].hidden)};
  };
  const bool is_bool = node.operand_count > 0 && type_of(node.input(0)).dtype == DType::boolean;
  switch (node.op) {
    case Op::expand:
    case Op::reshape:
    case Op::permute:
      if (axis_of_operand(node, 1) == 1 && axis_of_operand(node, 2) == 2) return numbers(node.input(0), left - 1);
      if (shape_of(node.input(0)).element_count().same(Dim(1)) || node.op == Op::expand) {
        const auto of = numbers(node.input(0), left - 1);
        if (of && of->seen == of->hidden) return of;
      }
      return {};
    case Op::cast:
      if (node.type.dtype == DType::boolean) return all([](double a, double, double) { return double(a != 0); });
      return all([](double a, double, double) { return a; });
    case Op::less:
    case Op::less_equal:
      if (const auto made = compared(node, left)) return made;
      if (node.op == Op::less) return all([](double a, double b, double) { return double(a < b); });
      return all([](double a, double b, double) { return double(a <= b); });
    case Op::equal: return all([](double a, double b, double) { return double(a == b); });
    case Op::not_equal: return all([](double a, double b, double) { return double(a != b); });
    case Op::bitwise_not: return is_bool ? all([](double a, double, double) { return double(a == 0); }) : std::nullopt;
    case Op::bitwise_and:
      return is_bool ? all([](double a, double b, double) { return double(a != 0 && b != 0); }) : std::nullopt;
    case Op::bitwise_or:
      return is_bool ? all([](double a, double b, double) { return double(a != 0 || b != 0); }) : std::nullopt;
    case Op::where: return all([](double a, double b, double c) { return a != 0 ? b : c; });
    case Op::add: return all([](double a, double b, double) { return a + b; });
    case Op::sub: return all([](double a, double b, double) { return a - b; });
    case Op::mul: return all([](double a, double b, double) { return a * b; });
    case Op::neg: return all([](double a, double, double) { return -a; });
    default: return {};
  }
}

}  // namespace

std::optional<CausalNumbers> causal_numbers(const Tensor& value) { return numbers(value, deepest); }

}  // namespace weft
