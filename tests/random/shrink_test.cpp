// What a failing random program is shortened to.
#include <doctest/doctest.h>

#include <algorithm>

#include "random/check.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

bool holds(const Program& program, Op op) {
  return std::any_of(program.instructions.begin(), program.instructions.end(),
                     [&](const Instruction& step) { return step.op == op; });
}

// An argmax of what a product went into: a failure of two steps, which need those between them.
bool reads_a_product(const Program& program) {
  std::vector<bool> from_product(program.inputs.size(), false);
  for (const Instruction& step : program.instructions) {
    bool from = step.op == Op::matmul;
    for (int operand : step.operands)
      from = from || (operand >= 0 && from_product[static_cast<std::size_t>(operand) % from_product.size()]);
    if (from && step.op == Op::argmax) return true;
    from_product.push_back(from);
  }
  return false;
}

}  // namespace

TEST_CASE("a failing program shrinks to the steps that make it fail") {
  int tried = 0;
  for (std::uint64_t seed = 1; tried < 10; ++seed) {
    REQUIRE(seed < 500);
    Program program = make_program(seed, 40);
    if (!reads_a_product(program)) continue;
    ++tried;
    REQUIRE(program.instructions.size() == 40);
    program.gradient = program.state = true;
    INFO(to_text(program));

    const Program one = shrink(program, [](const Program& p) { return holds(p, Op::argmax); });
    CHECK(one.instructions.size() == 1);
    CHECK(holds(one, Op::argmax));
    CHECK_FALSE(one.gradient);
    CHECK_FALSE(one.state);

    const Program two = shrink(program, [](const Program& p) { return p.gradient && reads_a_product(p); });
    for (std::size_t position = 0; position < two.instructions.size(); ++position)
      CHECK_FALSE(reads_a_product(without(two, position)));  // each step that is left is needed
    CHECK(reads_a_product(two));
    CHECK(two.gradient);
    CHECK_FALSE(two.state);
    CHECK(check({two}).front().empty());  // what is left is a program

    CHECK(shrink(program, [](const Program&) { return false; }).instructions.size() == 40);
  }
}
