// vmap of every primitive of weft/ops.def and of the composites over them, against a loop over the examples: of the
// function, of its gradient, and the gradient of the whole; in the reference interpreter and by eager kernels.
#include <doctest/doctest.h>

#include <algorithm>

#include "ir/table.hpp"
#include "record/record.hpp"
#include "tests/autograd/cases.hpp"
#include "weft/vmap.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr std::int64_t count = 3;
using Tensors = std::vector<Tensor>;

// `count` examples along a new axis 0: the literal, and others like it.
Literal examples_of(const Literal& one) {
  Literal all{one.type, {}, {}};
  all.type.shape = Shape::of(count);
  for (const Dim size : one.type.shape) all.type.shape.push_back(size);
  std::int64_t greatest = 0;
  for (const std::int64_t each : one.integers) greatest = std::max(greatest, each);
  for (std::int64_t e = 0; e < count; ++e) {
    for (const double each : one.reals) all.reals.push_back(each * (1 - 0.04 * static_cast<double>(e)));
    for (const std::int64_t each : one.integers) all.integers.push_back(e % 2 ? greatest - each : each);
  }
  return all;
}

// Which inputs hold examples, a bit for each.
struct Chosen {
  unsigned bits;
  bool operator[](std::size_t i) const { return bits >> i & 1; }
};

ManyFunction at_once(const ManyFunction& f, Chosen chosen) {
  return [=](const Tensors& x) {
    Tensors held;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (chosen[i]) held.push_back(x[i]);
    return vmap([&](const Tensors& own) {
      Tensors all;
      for (std::size_t i = 0, next = 0; i < x.size(); ++i) all.push_back(chosen[i] ? own[next++] : x[i]);
      return f(all);
    })(held);
  };
}
ManyFunction one_by_one(const ManyFunction& f, Chosen chosen) {
  return [=](const Tensors& x) {
    std::vector<Tensors> results;
    for (std::int64_t e = 0; e < count; ++e) {
      Tensors own;
      for (std::size_t i = 0; i < x.size(); ++i) own.push_back(chosen[i] ? select(x[i], 0, e) : x[i]);
      const Tensors found = f(own);
      results.resize(found.size());
      for (std::size_t k = 0; k < found.size(); ++k) results[k].push_back(found[k]);
    }
    Tensors stacked;
    for (const Tensors& each : results) stacked.push_back(stack(each));
    return stacked;
  };
}

Function summed(const Function& f) {
  return [=](const Tensors& x) { return sum(f(x) * 0.75); };
}
Function total_of(const ManyFunction& f) {
  return [=](const Tensors& x) { return sum(f(x)[0] * 0.75); };
}

Tensors tensors(std::span<const Literal> inputs) {
  Tensors list;
  for (const Literal& each : inputs)
    list.push_back(is_floating(each.type.dtype)
                       ? from_span(std::span<const double>(each.reals), each.type.shape)
                       : from_span(std::span<const std::int64_t>(each.integers), each.type.shape));
  return list;
}

void check_near(std::span<const double> a, std::span<const double> b, double tolerance) {
  REQUIRE(a.size() == b.size());
  double scale = 1;
  for (const double each : b)
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::abs(a[i] - b[i]) <= tolerance * scale;
    if (same) continue;
    CAPTURE(i);
    CHECK(a[i] == b[i]);
    return;
  }
}

void check_equal(const ManyFunction& value, const ManyFunction& expected, std::span<const Literal> inputs,
                 double tolerance) {
  {
    INFO("interpreted");
    const std::vector<Literal> a = run(value, inputs), b = run(expected, inputs);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      REQUIRE(a[i].type.shape.same(b[i].type.shape));
      REQUIRE(a[i].type.dtype == b[i].type.dtype);
      CHECK(a[i].integers == b[i].integers);
      check_near(a[i].reals, b[i].reals, tolerance);
    }
  }
  INFO("eager");
  const Tensors x = tensors(inputs), a = value(x), b = expected(x);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype() != DType::f64) continue;
    const View<const double> first = a[i].data<double>(), second = b[i].data<double>();
    check_near({first.data(), first.size()}, {second.data(), second.size()}, tolerance);
  }
}

void check_case(const Case& each, double tolerance, bool differentiates = true) {
  std::vector<unsigned> subsets{(1u << each.inputs.size()) - 1};
  for (unsigned i = 0; each.inputs.size() > 1 && i < each.inputs.size(); ++i) subsets.push_back(1u << i);
  for (const unsigned bits : subsets) {
    const Chosen chosen{bits};
    CAPTURE(each.name);
    CAPTURE(bits);
    std::vector<Literal> inputs;
    for (std::size_t i = 0; i < each.inputs.size(); ++i)
      inputs.push_back(chosen[i] ? examples_of(each.inputs[i]) : each.inputs[i]);
    const ManyFunction f = one(each.f);
    {
      INFO("the function");
      check_equal(at_once(f, chosen), one_by_one(f, chosen), inputs, tolerance);
    }
    if (!differentiates) continue;
    {
      INFO("the gradient of each example");
      const ManyFunction slopes = gradients_of(summed(each.f));
      check_equal(at_once(slopes, chosen), one_by_one(slopes, chosen), inputs, 1e-9);
    }
    INFO("the gradient of all examples");
    check_equal(gradients_of(total_of(at_once(f, chosen))), gradients_of(total_of(one_by_one(f, chosen))), inputs,
                1e-9);
  }
}

}  // namespace

TEST_CASE("pointwise primitives have the bits of each example") {
  for (int i = 0; i < op_count; ++i) {
    const Op op = static_cast<Op>(i);
    if (!is_real_function(op)) continue;
    const Shape shapes[] = {Shape::of(3, 4), Shape::of(3, 4), Shape::of(3, 4)};
    check_case(pointwise_case(op, shapes), 0);
    const Shape mixed[] = {Shape::of(4), Shape::of(3, 1), Shape()};
    check_case(pointwise_case(op, mixed), 0);
  }
}

TEST_CASE("primitives of integers and bools") {
  const Literal m = numbers(Shape::of(3, 4), -9, 9, 1), n = numbers(Shape::of(3, 4), -9, 9, 2);
  for (int i = 0; i < op_count; ++i) {
    const Op op = static_cast<Op>(i);
    const OpInfo& row = info(op);
    if (row.kind != OpKind::pointwise || row.dtypes == DTypeClass::floating || row.dtypes == DTypeClass::select)
      continue;
    const DType dtype = row.dtypes == DTypeClass::predicate ? DType::f64 : DType::i32;
    const auto f = [=](const Tensors& x) {
      std::vector<Tensor> own;
      for (const Tensor& each : x) own.push_back(cast(each, dtype));
      const std::vector<At> operands(own.begin(), own.end());
      return cast(pointwise(op, operands), DType::f64);
    };
    std::vector<Literal> inputs{m};
    if (row.arity == 2) inputs.push_back(n);
    check_case({row.name, inputs, f}, 0, false);
  }
}

TEST_CASE("structural primitives and composites") {
  std::vector<Case> cases = structural_cases();
  const std::vector<Case> more = composite_cases();
  cases.insert(cases.end(), more.begin(), more.end());
  for (const Case& each : cases)
    if (each.name != "host_call") check_case(each, 1e-11);
}
