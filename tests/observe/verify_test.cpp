// verify(): a compiled function against the plain one, in every way.
#include "weft/verify.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/optim.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {
struct Model {
  Param w = Param(full({3}, 0.5));
  Tensor seen = zeros({});
  int steps = 0;
};
bool is_off = false;

struct Line {
  Param w;
};
Tensor loss_of(const Line& m, const Tensor& x, const Tensor& y) {
  return mean(square(matmul(x, unsqueeze(m.w.tensor(), 1)) - unsqueeze(y, 1)));
}
}  // namespace

TEST_CASE("verify: results and state in every way, from the same numbers, and nothing is changed") {
  auto step = compile([](Model& model, Tensor x) {
    auto [loss, gradient] =
        value_and_grad([&](const Model& m) { return sum(square(m.w * x)) + sum(uniform({3})); }, model);
    model.w = model.w - gradient.w * 0.1;
    model.seen = model.seen + 1;
    return std::pair{loss, x + normal({3})};
  });
  seed(3);
  Model model;
  const Verification found = verify(step, model, vector_of({1, 2, 3}));
  CHECK(found.same());
  CHECK(found.compared == 3 * (2 + 2 + 1));
  CHECK(found.greatest_relative < 1e-5);
  CHECK(contains(to_string(found), "15 values compared, none differs"));
  CHECK(numbers_of(model.w) == Numbers{0.5f, 0.5f, 0.5f});
  CHECK(model.seen.item() == 0);
  CHECK(specialization_count(step) == 0);
  const std::string next = text_of(uniform({2}));
  seed(3);
  Model plain;
  (void)uniform({3});
  (void)normal({3});
  CHECK(text_of(uniform({2})) == next);
}

TEST_CASE("verify: what differs is named") {
  auto f = compile(
      [](const Tensor& x) {
        is_off = !is_off;  // what no guard sees: plainly another way than when it is traced
        return std::pair{x + 1, is_off ? x * 2 : x * 3};
      },
      {.check = Check::never});
  is_off = false;
  const Verification found = verify(f, vector_of({1, 2}));
  CHECK(!found.same());
  REQUIRE(found.differences.size() == 2);
  CHECK(found.differences[0].way == "compiled");
  CHECK(found.differences[0].leaf == "the result (1)");
  CHECK(found.differences[0].element == 1);
  CHECK(found.differences[0].found == 6);
  CHECK(found.differences[0].expected == 4);
  CHECK(contains(to_string(found), "compiled: the result (1) is 6 at element 1, the plain function's is 4"));
}

TEST_CASE("verify: what rounding leaves of larger values that cancel is no difference") {
  // A fit that is as good as f32 lets it be: the loss and its gradient are roundings of the predictions alone.
  const Tensor x = reshape(cos(arange(64 * 8) * 1.7), {64, 8}), right = sin(arange(8) * 0.9) * 3;
  const Tensor y = sum(x * right, 1);
  Line line{Param(right * (1 + 1e-7))};
  auto step = compile([](Line& m, const Tensor& x, const Tensor& y) {
    auto [value, gradient] = value_and_grad([&](const Line& own) { return loss_of(own, x, y); }, m);
    return std::pair{value, gradient.w.tensor()};
  });
  const Verification found = verify(step, line, x, y);
  CHECK(found.greatest_relative > 1e-3);  // far beyond 1e-4 of what is left
  CHECK_MESSAGE(found.same(), to_string(found));
  // One part in a thousand of the residual's scale is rounding, one of the weights is not.
  auto wrong = compile(
      [](Line& m, const Tensor& x, const Tensor& y) {
        is_off = !is_off;
        return loss_of(is_off ? m : Line{Param(m.w.tensor() * 1.001)}, x, y);
      },
      {.check = Check::never});
  is_off = false;
  CHECK(!verify(wrong, line, x, y).same());
}

TEST_CASE("verify: a rounding that decides between two places is no difference") {
  auto f = compile([](const Tensor& x) { return std::pair{argmax(sum(x, 1)), amax(sum(x, 1))}; });
  // Rows of the same numbers in another order.
  const Tensor row = exp(sin(arange(4096) * 2.3) * 8);
  const Verification found = verify(f, stack({row, flip(row, 0), roll(row, 1000, 0)}));
  CHECK_MESSAGE(found.same(), to_string(found));
}

TEST_CASE("verify: bound objects, generic functions, decisions") {
  Model model;
  auto bound = compile(
      [](Model& m, const Tensor& x) {
        m.seen = m.seen + 1;
        return sum(m.w * x) > 0 ? m.w * x : -x;
      },
      bind(model));
  CHECK(verify(bound, vector_of({1, 2, 3})).same());
  CHECK(verify(bound, vector_of({-1, -2, -3})).same());
  CHECK(model.seen.item() == 0);
  auto generic = compile([](auto& total, const auto& x) {
    total = total + x;
    return total * 2;
  });
  Tensor total = ones({2});
  const Verification found = verify(generic, total, vector_of({1, 2}));
  CHECK(found.same());
  CHECK(found.compared == 6);
  CHECK(numbers_of(total) == Numbers{1, 1});
}
