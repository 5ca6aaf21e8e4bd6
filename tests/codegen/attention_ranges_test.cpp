// Masks over ranges of numbers: what is said of a tile holds for each pair in it, and which masks have such a form.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "codegen/cuda.hpp"
#include "codegen/cuda_attention.hpp"
#include "codegen/cuda_attention_functions.hpp"
#include "ir/composites.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cuda_support.hpp"
#include "weft/backends.hpp"
#include "weft/weft.hpp"

// As the host compiles it.
#define WEFT_DEVICE inline
#define WEFT_FRIEND friend
namespace device {
#include "weft/detail/cuda_attention_ranges.inc"
}
#undef WEFT_DEVICE
#undef WEFT_FRIEND

using namespace weft;
using namespace weft::test;
using device::weft::Truths;
template <class T>
using Interval = device::weft::Range<T>;

namespace {

// A number that wraps as T does, to hold the ranges against.
template <class T>
T wrapped(__int128 x) {
  return static_cast<T>(static_cast<std::uint64_t>(x));
}

// An expression of two numbers, at numbers and over ranges at once.
template <class T>
struct Both {
  std::vector<T> values;  // at each pair of the tile
  Interval<T> range;
};
struct BothTruths {
  std::vector<bool> values;
  Truths truths;
};

template <class T>
void check_sound(const Both<T>& it) {
  bool good = true;
  for (const T value : it.values) good = good && it.range.low <= long(value) && long(value) <= it.range.high;
  CHECK(good);
}
void check_sound(const BothTruths& it) {
  bool good = true;
  for (const bool value : it.values) good = good && (value ? it.truths.yes : it.truths.no);
  CHECK(good);
}

template <class T>
void random_expressions(std::uint32_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t count) { return static_cast<long>(random() % count); };
  constexpr long near = 40;
  for (int round = 0; round < 400; ++round) {
    // 8 queries by 8 keys from some place on; what is read there has numbers of any size.
    const long first_q = below(round % 3 ? near : 100), first_k = below(near);
    const bool extreme = round % 4 == 0;
    std::vector<Both<T>> numbers(4);
    std::vector<T> read_q, read_k;
    for (int i = 0; i < 8; ++i) {
      const auto draw = [&] { return static_cast<T>(extreme ? random() : static_cast<std::uint64_t>(below(3))); };
      read_q.push_back(draw());
      read_k.push_back(draw());
    }
    for (long q = 0; q < 8; ++q)
      for (long k = 0; k < 8; ++k) {
        numbers[0].values.push_back(static_cast<T>(first_q + q));
        numbers[1].values.push_back(static_cast<T>(first_k + k));
        numbers[2].values.push_back(read_q[static_cast<std::size_t>(q)]);
        numbers[3].values.push_back(read_k[static_cast<std::size_t>(k)]);
      }
    numbers[0].range = {first_q, first_q + 7};
    numbers[1].range = {first_k, first_k + 7};
    const auto ends = [](const std::vector<T>& list) {
      return Interval<T>(long(*std::ranges::min_element(list)), long(*std::ranges::max_element(list)));
    };
    numbers[2].range = ends(read_q), numbers[3].range = ends(read_k);
    std::vector<BothTruths> truths;
    for (int step = 0; step < 12; ++step) {
      const Both<T> a = numbers[static_cast<std::size_t>(below(numbers.size()))],
                    b = below(3) ? numbers[static_cast<std::size_t>(below(numbers.size()))]
                                 : Both<T>{std::vector<T>(64, static_cast<T>(step + 1)), Interval<T>(long(step + 1))};
      Both<T> made;
      BothTruths is;
      const auto each = [&](auto f) {
        for (std::size_t i = 0; i < 64; ++i) made.values.push_back(f(a.values[i], b.values[i]));
      };
      const auto each_is = [&](auto f) {
        for (std::size_t i = 0; i < 64; ++i) is.values.push_back(f(a.values[i], b.values[i]));
      };
      const bool by_positive = std::ranges::all_of(b.values, [](T x) { return x > 0; });
      switch (below(13)) {
        case 0: each([](T x, T y) { return wrapped<T>(__int128(x) + y); }), made.range = a.range + b.range; break;
        case 1: each([](T x, T y) { return wrapped<T>(__int128(x) - y); }), made.range = a.range - b.range; break;
        case 2: each([](T x, T y) { return wrapped<T>(__int128(x) * y); }), made.range = a.range * b.range; break;
        case 3: each([](T x, T) { return wrapped<T>(-__int128(x)); }), made.range = -a.range; break;
        case 4: each([](T x, T y) { return std::min(x, y); }), made.range = minimum(a.range, b.range); break;
        case 5: each([](T x, T y) { return std::max(x, y); }), made.range = maximum(a.range, b.range); break;
        case 6:
          if (!by_positive) continue;
          each([](T x, T y) { return static_cast<T>(x / y - (x % y < 0)); });
          made.range = floor_divide(a.range, b.range);
          break;
        case 7: each_is([](T x, T y) { return x == y; }), is.truths = a.range == b.range; break;
        case 8: each_is([](T x, T y) { return x != y; }), is.truths = a.range != b.range; break;
        case 9: each_is([](T x, T y) { return x < y; }), is.truths = a.range < b.range; break;
        case 10: each_is([](T x, T y) { return x <= y; }), is.truths = a.range <= b.range; break;
        case 12: each([](T x, T) { return x < 0 ? wrapped<T>(-__int128(x)) : x; }), made.range = abs(a.range); break;
        case 11: {
          if (truths.empty()) continue;
          const BothTruths which = truths[static_cast<std::size_t>(below(truths.size()))];
          for (std::size_t i = 0; i < 64; ++i) made.values.push_back(which.values[i] ? a.values[i] : b.values[i]);
          made.range = select(which.truths, a.range, b.range);
          break;
        }
      }
      if (!made.values.empty()) check_sound(made), numbers.push_back(made);
      if (!is.values.empty()) check_sound(is), truths.push_back(is);
      if (truths.size() < 2) continue;
      const BothTruths p = truths[static_cast<std::size_t>(below(truths.size()))], q = truths.back();
      const auto both = [&](auto f, Truths found) {
        BothTruths joined{{}, found};
        for (std::size_t i = 0; i < 64; ++i) joined.values.push_back(f(bool(p.values[i]), bool(q.values[i])));
        check_sound(joined);
        truths.push_back(joined);
      };
      both([](bool x, bool y) { return x && y; }, p.truths & q.truths);
      both([](bool x, bool y) { return x || y; }, p.truths | q.truths);
      both([](bool x, bool y) { return x != y; }, p.truths ^ q.truths);
      both([](bool x, bool y) { return x == y; }, p.truths == q.truths);
      both([](bool x, bool y) { return x < y; }, p.truths < q.truths);
      both([](bool x, bool y) { return x <= y; }, p.truths <= q.truths);
      both([](bool x, bool) { return !x; }, ~p.truths);
      const auto other = convert_range<signed char>(numbers.back().range);
      bool good = true;
      for (const T value : numbers.back().values)
        good = good && other.low <= long(static_cast<signed char>(value)) &&
               long(static_cast<signed char>(value)) <= other.high;
      CHECK(good);
    }
  }
}

// The functions of the mask in a call of attention over 4 texts of 32 tokens; `ids`: i32 [4, 32].
template <class F>
codegen::CudaAttentionFunctions functions_of(F attend, const Tensor& ids) {
  InternedText mods;
  register_pass(PassStage::traced, "look_at_mods", "1", [&](const GraphView& graph) {
    for (const Tensor& value : graph.nodes())
      if (NodeView(value).name() == "scaled_dot_product_attention")
        mods = value.node()->attributes().as<AttentionCall>().mods;
    return graph;
  });
  compile(attend)(ones({4, 2, 32, 8}), ids);
  unregister_pass("look_at_mods");
  REQUIRE(mods.id != 0);
  const auto made = codegen::cuda_attention_functions(attention_mods(mods), false, true);
  REQUIRE(made);
  return *made;
}
int reads_of(const codegen::CudaAttentionFunctions& functions) {
  const std::string name = "mask_reads = ";
  return std::stoi(functions.text.substr(functions.text.find(name) + name.size()));
}

}  // namespace

TEST_CASE_TEMPLATE("what ranges say holds for each pair", T, std::int32_t, std::int64_t, std::uint8_t, std::uint32_t) {
  random_expressions<T>(1);
}

TEST_CASE("masks of integers are asked about tiles, others about each pair" * needs(nvrtc)) {
  using Place = const Tensor&;
  const Tensor ids = cast(reshape(floor_divide(arange(4 * 32), 9), {4, 32}), DType::i32).eval();
  const auto check = [&](auto attend, int reads) {  // -1: about each pair
    const codegen::CudaAttentionFunctions functions = functions_of(attend, ids);
    CAPTURE(functions.text);
    CHECK(reads_of(functions) == reads);
    for (const bool on_hopper : {false, true}) {
      std::vector<std::string> texts;
      for (const auto& kernel : codegen::cuda_attention({.dtype = DType::bf16,
                                .features = 64,
                                .value_features = 64,
                                .is_backward = true,
                                .masks = true,
                                .on_hopper = on_hopper,
                                .functions = functions.text}))
        texts.push_back(kernel.text);
      for (const std::string& cubin : runtime::cuda::compile_units(
               codegen::cuda_units(texts), on_hopper ? "sm_90a" : "sm_80", runtime::cuda::Effort::check))
        CHECK(!cubin.empty());
    }
  };
  const auto attend = [](const Tensor& x, const nn::MaskMod& mask) {
    return nn::scaled_dot_product_attention(x, x, x, {.mask_mod = mask});
  };
  static constexpr auto call = attend;
  check([](const Tensor& x, const Tensor&) { return call(x, nn::causal()); }, 0);
  check([](const Tensor& x, const Tensor&) { return call(x, nn::sliding_window(5)); }, 0);
  check(
      [](const Tensor& x, const Tensor&) {
        return call(x, [](Place, Place, Place q, Place k) { return floor_divide(q, 8) == floor_divide(k, 8); });
      },
      0);
  check([](const Tensor& x, const Tensor& of) { return call(x, nn::causal() & nn::document_mask(of)); }, 2);
  check([](const Tensor& x, const Tensor& of) { return call(x, nn::document_mask(of) | nn::sliding_window(3)); }, 2);
  check(
      [](const Tensor& x, const Tensor&) {
        return call(x, [](Place, Place h, Place q, Place k) { return ((q - k) * (h + 1) < 9) | (k < 2); });
      },
      0);
  check(
      [](const Tensor& x, const Tensor&) {
        return call(x, [](Place, Place, Place q, Place k) { return cast(q, DType::f32) * 0.5 >= cast(k, DType::f32); });
      },
      -1);
  check([](const Tensor& x,
           const Tensor&) { return call(x, [](Place, Place, Place q, Place k) { return remainder(q + k, 3) == 0; }); },
        -1);
}
