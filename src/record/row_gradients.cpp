#include "record/row_gradients.hpp"

#include "base/lazy.hpp"
#include "record/composite.hpp"

namespace weft {
namespace {

constexpr const char* lookup_name = "sparse_lookup";
constexpr const char* gradient_name = "sparse_lookup_backward";

struct GradientName {
  std::uint32_t id = intern_text(gradient_name);
};

}  // namespace

Tensor row_gradient(const Tensor& index, const Tensor& rows, const Type& table, Loc loc) {
  if (in_body()) return record(Op::scatter_add, {index, rows}, {}, table, loc);
  static constexpr char kind = 0;
  Signature signature(reinterpret_cast<std::uintptr_t>(&kind));
  for (const Type& type : {type_of(index), type_of(rows), table}) signature.add(type);
  const Called called_so = called(gradient_name);
  const auto make = [&] {
    CallBody scope(called_so);
    const Tensor places = scope.input(type_of(index)), values = scope.input(type_of(rows));
    return Callee{called_so, scope.take({record(Op::scatter_add, {places, values}, {}, table, loc)})};
  };
  const Tensor operands[] = {index, rows};
  return record_call(shared_callee(signature, make), operands, loc);
}

Tensor sparse_lookup(const Tensor& table, const Tensor& index, Loc loc) {
  const auto body = [](const Tensor& table, const Tensor& index) {
    return record(Op::gather, {table, index}, {}, {}, {});
  };
  return composite(called(lookup_name), loc, body, table, index);
}

bool is_row_gradient(const Node& node) {
  const Callee* const callee = node.callee();
  static constinit Lazy<GradientName> name;
  return callee && called_name(callee->called).id == name.get().id;
}

std::optional<GradientRows> rows_of_gradient(const Tensor& gradient, Loc loc) {
  const Node& node = *gradient.node();
  if (!is_row_gradient(node)) return {};
  const Tensor &index = node.input(0), &rows = node.input(1);
  const Dim count = type_of(index).shape.element_count();
  Shape shape = Shape::of(count);
  for (int i = 1; i < node.type.shape.rank(); ++i) shape.push_back(node.type.shape[i]);
  return GradientRows{reshape_to(index, Shape::of(count), loc), reshape_to(rows, shape, loc)};
}

Tensor add_gradients(const Tensor& a, const Tensor& b, Loc loc) {
  const auto first = rows_of_gradient(a, loc), second = first ? rows_of_gradient(b, loc) : std::nullopt;
  if (!second) return add(a, b);
  return row_gradient(concat({first->index, second->index}, 0), concat({first->rows, second->rows}, 0), type_of(a),
                      loc);
}

}  // namespace weft
