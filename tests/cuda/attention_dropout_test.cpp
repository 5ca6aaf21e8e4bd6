// Attention with dropout on a device, in its kernels, against f32 on the host, which draws the same numbers. Skipped
// without a GPU.
#include <doctest/doctest.h>

#include "ir/node.hpp"
#include "tests/cuda/attention.hpp"
#include "weft/checkpoint.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

enum class Mod { none, soft_cap, window };
struct How {
  bool is_causal = false;
  double dropout = 0.1;
  std::int64_t seed = 5;
  Mod mod = Mod::none;
  WEFT_MEMBERS(is_causal, dropout, seed, mod)
};

Tensor attend(const How& how, const Operands& at) {
  Generator generator(static_cast<std::uint64_t>(how.seed));
  nn::AttentionOptions options{.dropout_p = how.dropout,
                               .is_causal = how.is_causal,
                               .enable_gqa = type_of(at.q).shape.rank() > 2,
                               .generator = &generator};
  if (how.mod == Mod::soft_cap) options.score_mod = nn::soft_cap(3);
  if (how.mod == Mod::window) options.mask_mod = nn::sliding_window(40);
  return nn::scaled_dot_product_attention(at.q, at.k, at.v, options);
}
Results both(const How& how, const Operands& at, const Tensor& given) {
  return {attend(how, at), grad([&](const Operands& p) { return sum(attend(how, p) * given); }, at)};
}
int whole_steps(const std::string& schedule) {
  int found = 0;
  for (std::size_t at = schedule.find("by tensor cores"); at != schedule.npos;
       at = schedule.find("by tensor cores", at + 1))
    ++found;
  return found;
}
constexpr CompileOptions options_of_tests{.on_compile_error = OnFailure::raise};

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("attention with dropout on a device drops what the host drops, forward and backward, in its kernels") {
  struct Case {
    const char* name;
    DType dtype;
    Sizes q, k, v, output;
    How how;
  };
  const Case cases[] = {
      {"causal", DType::bf16, {2, 3, 256, 64}, {2, 3, 256, 64}, {2, 3, 256, 64}, {2, 3, 256, 64}, {true}},
      {"full", DType::f16, {2, 3, 200, 64}, {2, 3, 200, 64}, {2, 3, 200, 64}, {2, 3, 200, 64}, {false, 0.3}},
      {"128 features", DType::bf16, {2, 2, 260, 128}, {2, 2, 260, 128}, {2, 2, 260, 128}, {2, 2, 260, 128}, {true}},
      {"ragged", DType::bf16, {2, 3, 131, 64}, {2, 3, 131, 64}, {2, 3, 131, 64}, {2, 3, 131, 64}, {true, 0.5}},
      {"ragged, portable", DType::f16, {2, 3, 77, 40}, {2, 3, 77, 40}, {2, 3, 77, 40}, {2, 3, 77, 40}, {true, 0.5}},
      {"more keys", DType::bf16, {2, 2, 100, 64}, {2, 2, 260, 64}, {2, 2, 260, 64}, {2, 2, 100, 64}, {}},
      {"grouped", DType::bf16, {2, 4, 150, 128}, {2, 2, 152, 128}, {2, 2, 152, 128}, {2, 4, 150, 128}, {false}},
      {"portable", DType::bf16, {2, 2, 130, 72}, {2, 2, 132, 72}, {2, 2, 132, 40}, {2, 2, 130, 40}, {false, 0.2}},
      {"wide", DType::bf16, {1, 2, 130, 256}, {1, 2, 132, 256}, {1, 2, 132, 256}, {1, 2, 130, 256}, {true, 0.2}},
      {"two axes", DType::f16, {96, 64}, {96, 64}, {96, 64}, {96, 64}, {true}},
      {"soft cap",
       DType::bf16,
       {2, 2, 200, 64},
       {2, 2, 200, 64},
       {2, 2, 200, 64},
       {2, 2, 200, 64},
       {true, 0.1, 6, Mod::soft_cap}},
      {"window",
       DType::f16,
       {2, 2, 200, 128},
       {2, 2, 200, 128},
       {2, 2, 200, 128},
       {2, 2, 200, 128},
       {true, 0.1, 7, Mod::window}},
  };
  for (const Case& it : cases) {
    CAPTURE(it.name);
    const Operands at{there(it.q, 1, it.dtype), there(it.k, 2, it.dtype), there(it.v, 3, it.dtype)};
    const Tensor given = there(it.output, 4, it.dtype);
    const Results reference = both(it.how, here(at), here(given));
    auto compiled =
        compile([](const How& how, const Operands& p, const Tensor& w) { return both(how, p, w); }, options_of_tests);
    CHECK(whole_steps(explain(compiled, it.how, at, given).schedule) >= 2);
    const double within = it.dtype == DType::bf16 ? 1.5e-2 : 3e-3;
    for (int i = 0; i < 4; ++i) {  // replayed
      const Results found = compiled(it.how, at, given);
      CHECK(apart(found.output, reference.output) <= within);
      CHECK(apart(found.gradients.q, reference.gradients.q) <= within);
      CHECK(apart(found.gradients.k, reference.gradients.k) <= within);
      CHECK(apart(found.gradients.v, reference.gradients.v) <= within);
    }
  }
}

TEST_CASE("attention's dropout on a device has the bits of dropout(), and as many as its probability says") {
  // Of equal scores and the unit matrix as values, the output is the weights.
  constexpr std::int64_t size = 128;
  for (const double probability : {0.1, 0.5, 0.9}) {
    const Tensor zero = to(zeros({4, 8, size, size}, {DType::bf16}), Device::cuda()).eval();
    const Tensor values = expand(cast(arange(size) == unsqueeze(arange(size), 1), DType::bf16), {4, 8, size, size});
    auto compiled = compile([](const How& how, const Operands& p) { return attend(how, p); }, options_of_tests);
    const How how{false, probability};
    const Operands at{zero, zero, to(values, Device::cuda()).eval()};
    const Tensor kept = here(compiled(how, at)) > 0;
    Generator generator(static_cast<std::uint64_t>(how.seed));
    CHECK(all(kept == (dropout(ones({4, 8, size, size}), probability, generator) > 0)).item<bool>());
    const double count = 4 * 8 * size * size, share = sum(cast(kept, DType::f64)).item() / count;
    CHECK(std::abs(share - (1 - probability)) <= 4 * std::sqrt(probability * (1 - probability) / count));
  }
}

TEST_CASE("attention's dropout on a device is another one each call, and the same one after the same seed") {
  const Operands at{there({2, 2, 64, 64}, 1, DType::bf16), there({2, 2, 64, 64}, 2, DType::bf16),
                    there({2, 2, 64, 64}, 3, DType::bf16)};
  auto compiled = compile(
      [](const Operands& p) {
        const auto attend = [](const Operands& each) {
          return nn::scaled_dot_product_attention(each.q, each.k, each.v, {.dropout_p = 0.3, .is_causal = true});
        };
        const Tensor output = attend(p);
        return Results{output, grad([&](const Operands& each) { return sum(attend(each)); }, p)};
      },
      options_of_tests);
  std::vector<Results> found[2];
  for (std::vector<Results>& each : found) {
    seed(11);
    for (int i = 0; i < 5; ++i) each.push_back(compiled(at));
  }
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(all(here(found[0][i].output) == here(found[1][i].output)).item<bool>());
    CHECK(all(here(found[0][i].gradients.k) == here(found[1][i].gradients.k)).item<bool>());
    if (i > 0) CHECK(apart(found[0][i].output, here(found[0][i - 1].output)) > 0.05);
  }
}

TEST_CASE("attention with dropout on a device is computed again by the same draw where a checkpoint asks for it") {
  const Operands at{there({2, 2, 128, 64}, 1, DType::bf16), there({2, 2, 128, 64}, 2, DType::bf16),
                    there({2, 2, 128, 64}, 3, DType::bf16)};
  const auto step = [](bool again, const Operands& p) {
    const auto attend = [](const Operands& each) {
      return nn::scaled_dot_product_attention(each.q, each.k, each.v, {.dropout_p = 0.3, .is_causal = true});
    };
    return grad(
        [&](const Operands& each) {
          return sum(square(cast(again ? checkpoint(attend)(each) : attend(each), DType::f32)));
        },
        p);
  };
  auto compiled = compile(step, options_of_tests);
  seed(12);
  const Operands plain = compiled(false, at);
  seed(12);
  const Operands again = compiled(true, at);
  CHECK(all(here(plain.q) == here(again.q)).item<bool>());
  CHECK(all(here(plain.k) == here(again.k)).item<bool>());
  CHECK(all(here(plain.v) == here(again.v)).item<bool>());
}

TEST_CASE("multi-head attention that trains with dropout on a device is that of the host, in the kernels") {
  nn::MultiheadAttention host(256, 4, {.dropout = 0.2, .batch_first = true});
  nn::MultiheadAttention device = tree::clone(host);
  nn::to(device, DType::bf16);
  nn::to(device, Device::cuda());
  const Tensor x = there({2, 64, 256}, 1, DType::bf16);
  const auto run = [](const nn::MultiheadAttention& layer, const Tensor& input) {
    return layer(input, input, input, {.is_causal = true}).output;
  };
  seed(13);
  const Tensor reference = run(host, here(x));
  auto compiled = compile(run, options_of_tests);
  CHECK(whole_steps(explain(compiled, device, x).schedule) == 1);
  seed(13);
  CHECK(apart(compiled(device, x), reference) <= 3e-2);
}

TEST_SUITE_END();
