// Attention with a score_mod and a mask_mod, and its gradients, on a device by our own kernels against f32 on the host.
// Skipped without a GPU.
#include <doctest/doctest.h>

#include "base/options.hpp"
#include "tests/cuda/attention.hpp"
#include "tests/sanitized.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

// What mods capture.
struct Captured {
  Tensor document, slopes;
  WEFT_MEMBERS(document, slopes)
};

enum class Mod : std::uint8_t { soft_cap, documents, window, alibi, by_batch_and_head, rows_without_keys, curved };
constexpr Mod all_mods[] = {Mod::soft_cap,          Mod::documents,         Mod::window, Mod::alibi,
                            Mod::by_batch_and_head, Mod::rows_without_keys, Mod::curved};

nn::AttentionOptions options_of(Mod mod, const Captured& captured) {
  switch (mod) {
    case Mod::soft_cap: return {.is_causal = true, .score_mod = nn::soft_cap(5)};
    case Mod::documents: return {.mask_mod = nn::causal() & nn::document_mask(captured.document)};
    case Mod::window: return {.mask_mod = nn::causal() & nn::sliding_window(33)};
    case Mod::alibi: return {.is_causal = true, .score_mod = nn::alibi(captured.slopes)};
    case Mod::by_batch_and_head:
      return {.mask_mod = [](auto b, auto h, auto q, auto k) { return remainder(q + k + b, h + 2) != 0; }};
    case Mod::rows_without_keys: return {.mask_mod = [](auto, auto, auto q, auto k) { return (q > 40) & (k >= 90); }};
    case Mod::curved:
      return {.score_mod = [](auto score, auto, auto, auto q, auto k) {
        return where(q == k, score * 2, minimum(score, 3) + exp(-abs(score)) - score * score / 16);
      }};
  }
  return {};
}
Results both(Mod mod, const Operands& at, const Tensor& given, const Captured& captured) {
  const auto attend = [&](const Operands& p) {
    nn::AttentionOptions how = options_of(mod, captured);
    how.enable_gqa = true;
    return nn::scaled_dot_product_attention(p.q, p.k, p.v, how);
  };
  return {attend(at), grad([&](const Operands& p) { return sum(attend(p) * given); }, at)};
}

// What is learned: a bias by distance, scales and slopes of heads, which a mod captures.
struct Learned {
  Tensor q, k, v, bias, scale, slopes;
  WEFT_MEMBERS(q, k, v, bias, scale, slopes)
};
enum class Learning : std::uint8_t { bias, scale, all };
Tensor attend_learned(Learning what, const Learned& at) {
  const std::int64_t last = static_cast<std::int64_t>(at.k.size(-2)) - 1;
  nn::AttentionOptions how{.is_causal = what == Learning::all, .enable_gqa = true};
  how.score_mod = [&](auto score, auto, auto h, auto q, auto k) {
    if (what == Learning::bias) return score + at.bias[h][q - k + last];
    if (what == Learning::scale) return score * at.scale[h];
    return tanh(score * at.scale[h] + at.slopes[h] * (k - q)) * 4 + at.bias[h][q - k + last];
  };
  return nn::scaled_dot_product_attention(at.q, at.k, at.v, how);
}
Learned slopes_of(Learning what, const Learned& at, const Tensor& given) {
  return grad([&](const Learned& p) { return sum(attend_learned(what, p) * given); }, at);
}

// A mask of each text's own, of more texts than a grid has blocks along its second and third axis.
Tensor attend_to_own_keys(const Tensor& q, const Tensor& k, const Tensor& v) {
  return nn::scaled_dot_product_attention(
      q, k, v, {.mask_mod = [](auto b, auto, auto, auto key) { return remainder(key + b, 3) != 0; }});
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("attention with mods on a device is that of the host") {
  struct Case {
    const char* name;
    DType dtype;
    Sizes q, k, v, output;
  };
  const Case cases[] = {
      {"64 features", DType::bf16, {2, 3, 200, 64}, {2, 3, 200, 64}, {2, 3, 200, 64}, {2, 3, 200, 64}},
      {"grouped, 128 features", DType::f16, {2, 4, 150, 128}, {2, 2, 150, 128}, {2, 2, 150, 128}, {2, 4, 150, 128}},
      {"portable", DType::bf16, {2, 2, 130, 72}, {2, 2, 130, 72}, {2, 2, 130, 40}, {2, 2, 130, 40}},
      {"three axes, more keys", DType::bf16, {3, 100, 64}, {3, 260, 64}, {3, 260, 64}, {3, 100, 64}},
  };
  const Captured host{floor_divide(arange(300), 37), arange(4) * 0.01 + 0.02};
  const Captured captured{to(host.document, Device::cuda()).eval(), to(host.slopes, Device::cuda()).eval()};
  // racecheck does not follow what Hopper's kernels are ordered by: all warps read a stage, a lane of each arrives at a
  // barrier in shared memory after __syncwarp(), one thread that has waited for these arrives at the next barrier, and
  // the thread that waits there has the stage written anew. It reports such a read and write as a race.
  // Where no query sees a tile of keys, it is the tensor cores' work of a whole group that orders them.
  // initcheck says that nobody has written what these kernels add to memory by copies (cp.reduce.async.bulk).
  const bool fewer = test::under_device_tool();
  const bool only_portable = test::under_device_tool("racecheck") || test::under_device_tool("initcheck");
  constexpr std::size_t portable = 2;
  for (std::size_t i = 0; i < std::size(cases); ++i)
    for (const Mod mod : all_mods) {
      if (fewer && (only_portable ? portable : static_cast<std::size_t>(mod) % std::size(cases)) != i)
        continue;  // each mod once
      const Case& it = cases[i];
      CAPTURE(it.name);
      CAPTURE(int(mod));
      const Operands at{there(it.q, 1, it.dtype), there(it.k, 2, it.dtype), there(it.v, 3, it.dtype)};
      const Tensor given = there(it.output, 4, it.dtype);
      const Results reference = both(mod, here(at), here(given), host);
      auto compiled = compile(
          [](Mod how, const Operands& p, const Tensor& w, const Captured& c) { return both(how, p, w, c); }, raising);
      const std::string schedule = explain(compiled, mod, at, given, captured).schedule;
      CHECK(schedule.find("by tensor cores") != schedule.rfind("by tensor cores"));  // forward and backward
      for (int call = 0; call < (fewer ? 1 : 4); ++call) {                           // replayed
        check_close(compiled(mod, at, given, captured), reference, it.dtype == DType::bf16 ? 1.5e-2 : 3e-3);
      }
    }
}

TEST_CASE("gradients of what a score_mod captures on a device are those of the host") {
  struct Case {
    const char* name;
    DType dtype;
    Sizes q, kv;
    double within;
  };
  const Case cases[] = {{"bf16", DType::bf16, {2, 4, 130, 64}, {2, 4, 130, 64}, 2e-2},
                        {"f16, grouped", DType::f16, {2, 4, 100, 64}, {2, 2, 100, 64}, 5e-3},
                        {"f32", DType::f32, {2, 4, 75, 32}, {2, 4, 75, 32}, 1e-4},
                        {"f64", DType::f64, {1, 4, 40, 16}, {1, 4, 40, 16}, 1e-6}};
  for (const Case& it : cases)
    for (const Learning what : {Learning::bias, Learning::scale, Learning::all}) {
      CAPTURE(it.name);
      CAPTURE(int(what));
      const std::int64_t distances = 2 * static_cast<std::int64_t>(it.kv.shape()[2]) - 1;
      const DType kind = it.dtype == DType::f64 ? DType::f64 : DType::f32;
      const Learned at{there(it.q, 1, it.dtype),       there(it.kv, 2, it.dtype),    there(it.kv, 3, it.dtype),
                       there({4, distances}, 4, kind), there({4}, 5, kind, 0.5) + 1, there({4}, 6, kind, 0.02)};
      const Tensor given = there(it.q, 7, it.dtype);
      const Learned host{here(at.q), here(at.k), here(at.v), here(at.bias), here(at.scale), here(at.slopes)};
      const Learned expected = slopes_of(what, host, here(given));
      const auto compiled =
          compile([](Learning what, const Learned& p, const Tensor& w) { return slopes_of(what, p, w); }, raising);
      const auto check = [&](const Learned& found) {
        CHECK(apart(found.q, expected.q) <= it.within);
        CHECK(apart(found.k, expected.k) <= it.within);
        CHECK(apart(found.v, expected.v) <= it.within);
        if (what != Learning::scale) CHECK(apart(found.bias, expected.bias) <= it.within);
        if (what != Learning::bias) CHECK(apart(found.scale, expected.scale) <= it.within);
        if (what == Learning::all) CHECK(apart(found.slopes, expected.slopes) <= it.within);
      };
      for (int call = 0; call < (test::under_device_tool() ? 1 : 3); ++call)  // replayed
        check(compiled(what, at, given));
      check(slopes_of(what, at, given));
    }
}

TEST_CASE("a mask of each text's own, of more texts than a grid has blocks along its second axis") {
  const Tensor q = normal({65'600, 1, 17, 64}), k = normal({65'600, 1, 17, 64}), v = normal({65'600, 1, 17, 64});
  const auto low = [](const Tensor& x) { return cast(to(x, Device::cuda()), DType::bf16).eval(); };
  const Tensor found = compile(attend_to_own_keys)(low(q), low(k), low(v));
  for (const std::int64_t text : {0, 1, 32'768, 65'535, 65'536, 65'599}) {
    CAPTURE(text);
    const auto of = [&](const Tensor& x) { return cast(cast(slice(x, 0, text, text + 1), DType::bf16), DType::f32); };
    const Tensor seen = remainder(arange(17) + text, 3) != 0;
    const Tensor expected =
        nn::scaled_dot_product_attention(of(q), of(k), of(v), {.attn_mask = expand(seen, {17, 17})});
    const Tensor own = cast(to(slice(found, 0, text, text + 1), Device::cpu()), DType::f32);
    CHECK(amax(abs(own - expected)).item<float>() < 0.03f);
  }
}

TEST_SUITE_END();
