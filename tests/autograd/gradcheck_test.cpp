// Every rule of the table against central differences, and the rules' own derivatives too: pointwise rows are swept
// from weft/ops.def, so a new row needs no edit here; a structural row that no case covers fails the test by name.
#include <doctest/doctest.h>

#include <set>

#include "tests/autograd/cases.hpp"

namespace weft::test {
namespace {

constexpr double bound =
    1e-6;  // step^2 of truncation and 1e-11 of rounding, with room for the sizes of third derivatives

void check_pointwise(Op op, std::span<const Shape> shapes) {
  Case c = pointwise_case(op, shapes);
  CAPTURE(c.name);
  CHECK(gradient_error(weighted(c.f), c.inputs) < bound);
  CHECK(gradient_error(gradient_number(weighted(c.f)), c.inputs) < bound);
}

TEST_CASE("first and second derivatives of every pointwise primitive") {
  int swept = 0;
  for (int i = 0; i < op_count; ++i) {
    if (!is_real_function(static_cast<Op>(i))) continue;
    Shape shapes[] = {Shape::of(2, 3), Shape::of(2, 3), Shape::of(2, 3)};
    check_pointwise(static_cast<Op>(i), shapes);
    ++swept;
  }
  CHECK(swept >= 28);
}

TEST_CASE("operands that are broadcast get the sum over their copies") {
  for (int i = 0; i < op_count; ++i) {
    auto op = static_cast<Op>(i);
    if (!is_real_function(op) || info(op).arity < 2) continue;
    Shape wide = Shape::of(2, 3), row = Shape::of(3), column = Shape::of(2, 1), number;
    for (auto [a, b] : {std::pair{wide, row}, {column, row}, {number, wide}, {wide, number}, {column, wide}}) {
      Shape shapes[] = {a, b, wide};
      check_pointwise(op, shapes);
    }
  }
}

TEST_CASE("first and second derivatives of composites") {
  for (const Case& c : composite_cases()) {
    CAPTURE(c.name);
    CHECK(gradient_error(weighted(c.f), c.inputs) < bound);
    CHECK(gradient_error(gradient_number(weighted(c.f)), c.inputs) < bound);
  }
}

TEST_CASE("first and second derivatives of every structural primitive") {
  // Without a gradient, and not functions of a real operand; or recorded by nobody but passes.
  std::set<Op> covered = {Op::data, Op::bitcast, Op::random_bits, Op::call, Op::while_loop};
  for (const Case& c : structural_cases()) {
    CAPTURE(c.name);
    Graph graph = trace(one(c.f), c.inputs);
    for (const Tensor& value : graph.nodes) covered.insert(value.node()->op);
    bool stops = c.name == "stop_gradient";  // is not what differences see
    if (!stops) CHECK(gradient_error(weighted(c.f), c.inputs) < bound);
    if (!stops) CHECK(gradient_error(gradient_number(weighted(c.f)), c.inputs) < bound);
  }
  for (int i = 0; i < op_count; ++i) {
    if (info(static_cast<Op>(i)).kind == OpKind::pointwise) continue;
    CAPTURE(info(static_cast<Op>(i)).name);
    CHECK_MESSAGE(covered.count(static_cast<Op>(i)) == 1, "add a case for this primitive");
  }
}

}  // namespace
}  // namespace weft::test
