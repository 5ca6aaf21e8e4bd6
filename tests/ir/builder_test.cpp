// The builder: what a node that it makes carries, what its short helpers leave out, and what it refuses.
#include "ir/builder.hpp"

#include <doctest/doctest.h>

#include "base/fail.hpp"

using namespace weft;

namespace {

struct Fixture {
  Builder build{{"model.cpp", 41}, intern_text("mlp"), 7};
  Tensor x = build.input(0, Type{DType::f32, false, {}, Shape::of(2, 3)});
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "builder: nodes have the location, scope and trace of their origin") {
  const Tensor y = Builder(*x.node()).mul(x, x);
  CHECK(to_string(y.node()->loc) == "model.cpp:41");
  CHECK(interned_text(y.node()->scope) == "mlp");
  CHECK(y.node()->trace == 7);
  CHECK(type_of(y).same(type_of(x)));
}

TEST_CASE_FIXTURE(Fixture, "builder: helpers make nothing where nothing would change, and infer where it would") {
  CHECK(build.cast(x, DType::f32).same(x));
  CHECK(build.reshape(x, Shape::of(2, 3)).same(x));
  CHECK(build.expand(x, Shape::of(2, 3)).same(x));
  CHECK(to_string(type_of(build.cast(x, DType::f64))) == "f64[2,3]");
  CHECK(to_string(type_of(build.expand(x, Shape::of(4, 2, 3)))) == "f32[4,2,3]");
  CHECK(to_string(type_of(build.permute(x, {{1, 0}, 2}))) == "f32[3,2]");
  CHECK(to_string(type_of(build.slice(x, {1, 0, 2}, 2))) == "f32[2,2]");
  AxisSet last;
  last.insert(1);
  CHECK(to_string(type_of(build.sum(x, last))) == "f32[2,1]");
  const Type number{DType::f32, false, {}, Shape::of(2, 3)};
  const Tensor total = build.add(x, build.constant(Constant::number(DType::f32, 1.5), number));
  CHECK(structure_text(make_graph({x}, {total}, {})) ==
        "%0 f32[2,3] = input(0)\n%1 f32[2,3] = constant(1.5)\n%2 f32[2,3] = add(%0, %1)\nreturn %2\n");
}

TEST_CASE_FIXTURE(Fixture, "builder: attributes of another primitive and results that do not exist are refused") {
  CHECK_THROWS_WITH_AS(build.make(Op::sum, {x}, Along{0}), doctest::Contains("sum has attributes of another primitive"),
                       InternalError);
  CHECK_THROWS_WITH_AS(build.make(Op::neg, {Tensor(x.node(), 1)}), doctest::Contains("an operand of neg"),
                       InternalError);
  CHECK_THROWS_WITH_AS(build.reshape(x, Shape::of(4)), doctest::Contains("model.cpp:41"), Error);
}

TEST_CASE_FIXTURE(Fixture, "a node has up to 65,535 results, and a handle names each") {
  std::vector<Type> more(65534, type_of(x));
  const Tensor call = build.make(Op::call, {x}, Called{}, type_of(x));
  set_more_results(*call.node(), more);
  const Tensor last(call.node(), 65534);
  CHECK(last.output() == 65534);
  CHECK(type_of(last).same(type_of(x)));
  more.push_back(type_of(x));
  CHECK_THROWS_WITH_AS(set_more_results(*call.node(), more), doctest::Contains("call has 65536 results"),
                       InternalError);
}
