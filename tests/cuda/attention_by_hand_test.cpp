// Attention that a program writes as products and a softmax, on a device: one kernel forward and those of its
// gradients, without being asked for, and the host's numbers. Skipped without a GPU.
#include <doctest/doctest.h>

#include <cmath>

#include "base/options.hpp"
#include "tests/cuda/attention.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

enum class Form : std::uint8_t {
  plain,
  after,
  additive,
  filled,
  dropped,
  f32_softmax,
  lying,
  mask,
  einsums,
  lying_einsums,
  powers,
  logarithm,
  learned,
  weights_too
};
constexpr Form all_forms[] = {Form::plain,       Form::after,     Form::additive, Form::filled,     Form::dropped,
                              Form::f32_softmax, Form::lying,     Form::mask,     Form::einsums,    Form::lying_einsums,
                              Form::powers,      Form::logarithm, Form::learned,  Form::weights_too};
constexpr bool hides_later(Form form) {
  return form == Form::after || form == Form::additive || form == Form::filled || form == Form::dropped;
}
// Whether it is found.
constexpr bool is_whole(Form form) { return form != Form::learned && form != Form::weights_too; }

Tensor attend(Form form, const Operands& at, const Tensor& mask) {
  const Tensor keys = transpose(at.k, -1, -2);
  const Dim length = at.q.size(2);
  const Device device = at.q.device();
  const auto mixed = [&](const Tensor& scores) { return matmul(softmax(scores, -1), at.v); };
  switch (form) {
    case Form::plain: return mixed(matmul(at.q, keys) / 8);
    case Form::after: {
      const Tensor place = to(arange(length), device);
      return mixed(where(unsqueeze(place, 0) > unsqueeze(place, 1), -INFINITY, matmul(at.q, keys) * 0.125));
    }
    case Form::additive: {
      const Tensor hidden = triu(ones({length, length}, {DType::f32, device}) * -1e9, 1);
      return mixed(matmul(at.q * 0.125, keys) + cast(hidden, at.q.dtype()));
    }
    case Form::filled: {
      const Tensor seen = tril(ones({length, length}, {DType::f32, device}));
      return mixed(masked_fill(matmul(at.q, keys) / 8, seen == 0, -30000.0));
    }
    case Form::dropped: {
      Generator generator(11);
      const Tensor place = to(arange(length), device);
      const Tensor scores = where(unsqueeze(place, 0) > unsqueeze(place, 1), -INFINITY, matmul(at.q, keys) * 0.09);
      return matmul(dropout(softmax(scores, -1), 0.2, generator), at.v);
    }
    case Form::f32_softmax:
      return matmul(cast(softmax(cast(matmul(at.q, keys) / 8, DType::f32), -1), at.v.dtype()), at.v);
    case Form::lying: {
      const Operands turned{transpose(at.q, 1, 2) + 0, transpose(at.k, 1, 2) + 0, transpose(at.v, 1, 2) + 0};
      const Tensor scores = matmul(transpose(turned.q, 1, 2), permute(turned.k, {0, 2, 3, 1})) / 8;
      return matmul(softmax(scores, -1), transpose(turned.v, 1, 2));
    }
    case Form::mask: return mixed(where(mask > 0, matmul(at.q, keys) / 8, -1e9));
    case Form::einsums:
      return einsum("bhqk,bhkd->bhqd", {softmax(einsum("bhqd,bhkd->bhqk", {at.q, at.k}) / 8, -1), at.v});
    case Form::lying_einsums: {
      const Operands turned{transpose(at.q, 1, 2) + 0, transpose(at.k, 1, 2) + 0, transpose(at.v, 1, 2) + 0};
      const Tensor weights = softmax(einsum("bqhd,bkhd->bhqk", {turned.q / 8, turned.k}), -1);
      return transpose(einsum("bhqk,bkhd->bqhd", {weights, turned.v}), 1, 2);
    }
    case Form::powers: {
      const Tensor scores = cast(matmul(at.q, keys) / 8, DType::f32), e = exp(scores - amax(scores, -1, true));
      return matmul(cast(e / sum(e, -1, true), at.v.dtype()), at.v);
    }
    case Form::logarithm: return matmul(exp(log_softmax(matmul(at.q, keys) / 8, -1)), at.v);
    case Form::learned: return mixed(matmul(at.q, keys) / 8 + sum(at.v, -1, true) * 0.01);
    case Form::weights_too: {
      const Tensor weights = softmax(matmul(at.q, keys) / 8, -1);
      return matmul(weights, at.v) + sum(square(weights), -1, true);
    }
  }
  return {};
}
Operands gradients(Form form, const Operands& at, const Tensor& given, const Tensor& mask) {
  return grad([&](const Operands& p) { return sum(attend(form, p, mask) * given); }, at);
}
Results both(Form form, const Operands& at, const Tensor& given, const Tensor& mask) {
  const auto [value, slopes] = value_and_grad(
      [&](const Operands& p) {
        const Tensor output = attend(form, p, mask);
        return std::pair(sum(output * given), output);
      },
      at);
  return {value.second, slopes};
}

void close(const Operands& device, const Operands& reference) { check_close(device, reference, 2e-2); }
// Steps that do attention whole, forward or its gradients: " bf16[2,3,96,64]@cuda:0 to [2,3,70,64]".
int whole_steps(const std::string& schedule) { return count(schedule, "@cuda:0 to ["); }

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("attention by hand on a device is one kernel, and its gradients are those of that kernel") {
  for (const Form form : all_forms)
    for (const std::int64_t keys : {96, 70}) {
      if (keys != 96 && form != Form::plain && form != Form::mask) continue;
      CAPTURE(static_cast<int>(form));
      CAPTURE(keys);
      const Operands at{there({2, 3, 96, 64}, 1, DType::bf16), there({2, 3, keys, 64}, 2, DType::bf16),
                        there({2, 3, keys, 64}, 3, DType::bf16)};
      const Tensor given = there({2, 3, 96, 64}, 4, DType::bf16);
      Tensor mask = (to(sample({2, 1, 96, keys}, 5), Device::cuda()) + 0.5).eval();
      const Results expected = both(form, here(at), here(given), here(mask));
      // Forward alone.
      auto forward = compile(
          [](const int& f, const Operands& p, const Tensor& m) { return attend(static_cast<Form>(f), p, m); }, raising);
      CHECK(apart(forward(static_cast<int>(form), at, mask), expected.output) <= 2e-2);
      const std::string schedule = explain(forward, static_cast<int>(form), at, mask).schedule;
      CAPTURE(schedule);
      const int forward_steps = form != Form::weights_too;
      CHECK(whole_steps(schedule) == forward_steps);
      CHECK(count(schedule, "causal") == (hides_later(form) ? 1 : 0));
      // A step of training, compiled whole.
      auto step = compile([](const int& f, const Operands& p, const Tensor& w,
                             const Tensor& m) { return both(static_cast<Form>(f), p, w, m); },
                          raising);
      const Results made = step(static_cast<int>(form), at, given, mask);
      CHECK(apart(made.output, expected.output) <= 2e-2);
      close(made.gradients, expected.gradients);
      const std::string of_step = explain(step, static_cast<int>(form), at, given, mask).schedule;
      CAPTURE(of_step);
      CHECK(whole_steps(of_step) == (is_whole(form) ? 2 : 0));
      // The derivative of a compiled function.
      const Operands slopes =
          grad([&](const Operands& p) { return sum(forward(static_cast<int>(form), p, mask) * given); }, at);
      close(slopes, expected.gradients);
    }
}

TEST_CASE("a query that no key is seen by gets what the program says, where the program hides by a number") {
  const Operands at{there({1, 2, 64, 64}, 1, DType::bf16), there({1, 2, 64, 64}, 2, DType::bf16),
                    there({1, 2, 64, 64}, 3, DType::bf16)};
  const Tensor mask = to(cast(unsqueeze(arange(64) % 3, 1) != 0, DType::f32) * ones({64, 64}), Device::cuda()).eval();
  auto f = compile([](const Operands& p, const Tensor& m) { return attend(Form::mask, p, m); }, raising);
  CHECK(whole_steps(explain(f, at, mask).schedule) == 1);
  CHECK(apart(f(at, mask), attend(Form::mask, here(at), here(mask))) <= 2e-2);  // the mean of the values
}

TEST_CASE("attention by hand of lengths that vary, and as WEFT_SKIP_PASSES leaves it") {
  auto f = compile([](const Operands& p) { return attend(Form::after, p, {}); }, raising);
  Operands at;
  for (const std::int64_t length : {40, 130, 200}) {
    at = {there({1, 2, length, 64}, 1, DType::bf16), there({1, 2, length, 64}, 2, DType::bf16),
          there({1, 2, length, 64}, 3, DType::bf16)};
    CHECK(apart(f(at), attend(Form::after, here(at), {})) <= 2e-2);
  }
  CHECK(whole_steps(explain(f, at).schedule) == 1);
  const ProcessOptions before = options();
  options().skip_passes = {"fuse_attention"};
  auto left = compile([](const Operands& p) { return gradients(Form::plain, p, p.q, {}); }, raising);
  CHECK(whole_steps(explain(left, at).schedule) == 0);
  options() = before;
}

TEST_SUITE_END();
