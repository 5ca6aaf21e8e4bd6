// Gradients of attention by our own kernels, of several tiles: against f32 on the host, and bit by bit against
// themselves, since blocks add to the same sums in an order of their own. Skipped without a GPU.
#include <doctest/doctest.h>

#include "base/options.hpp"
#include "tests/cuda/attention.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

enum class Kind : std::uint8_t { full, causal, documents, window, some_rows, by_head, soft_cap, dropped };
constexpr Kind all_kinds[] = {Kind::full,      Kind::causal,  Kind::documents, Kind::window,
                              Kind::some_rows, Kind::by_head, Kind::soft_cap,  Kind::dropped};

Tensor attend(Kind kind, const Operands& at, const Tensor& document) {
  nn::AttentionOptions how{.enable_gqa = true};
  Generator generator(17);
  switch (kind) {
    case Kind::full: break;
    case Kind::causal: how.is_causal = true; break;
    case Kind::documents: how.mask_mod = nn::causal() & nn::document_mask(document); break;
    case Kind::window: how.mask_mod = nn::causal() & nn::sliding_window(150); break;
    // Queries that see nothing: a few of a tile, and whole tiles; and keys that nobody sees.
    case Kind::some_rows:
      how.mask_mod = [](auto, auto, auto q, auto k) { return (q > 5) & ((q < 128) | (q >= 256)) & (k >= 40); };
      break;
    case Kind::by_head: how.mask_mod = [](auto b, auto h, auto q, auto k) { return q + (b + h) * 128 >= k; }; break;
    case Kind::soft_cap: how.is_causal = true, how.score_mod = nn::soft_cap(5); break;
    case Kind::dropped: how.is_causal = true, how.dropout_p = 0.2, how.generator = &generator; break;
  }
  return nn::scaled_dot_product_attention(at.q, at.k, at.v, how);
}
Results both(Kind kind, const Operands& at, const Tensor& given, const Tensor& document) {
  return {attend(kind, at, document),
          grad([&](const Operands& p) { return sum(attend(kind, p, document) * given); }, at)};
}
auto compiled() {
  return compile([](Kind kind, const Operands& p, const Tensor& w, const Tensor& d) { return both(kind, p, w, d); },
                 raising);
}
Tensor documents(std::int64_t length, std::int64_t of_each) {
  return to(floor_divide(arange(length), of_each), Device::cuda()).eval();
}

struct OwnKernels {
  ProcessOptions before = options();
  OwnKernels() { options().cudnn = false; }
  ~OwnKernels() { options() = before; }
};

// Of partial tiles, of fewer keys than queries and more, and of heads that share keys.
void check_tiles(DType dtype, std::int64_t features) {
  const OwnKernels own;
  struct Lengths {
    std::int64_t batch, heads, key_heads, queries, keys;
  };
  const Lengths all[] = {{2, 2, 2, 449, 449}, {1, 6, 2, 333, 515}, {1, 2, 2, 700, 260},
                         {2, 4, 4, 3, 300},   {1, 2, 2, 300, 3},   {1, 2, 1, 1024, 1024}};
  const Tensor document = documents(1024, 190), of_host = to(document, Device::cpu()).eval();
  for (const auto [batch, heads, key_heads, queries, keys] : all)
    for (const Kind kind : all_kinds) {
      CAPTURE(queries);
      CAPTURE(keys);
      CAPTURE(int(kind));
      const Sizes q{batch, heads, queries, features}, k{batch, key_heads, keys, features};
      const Operands at{there(q, 1, dtype), there(k, 2, dtype), there(k, 3, dtype)};
      const Tensor given = there(q, 4, dtype);
      const Results reference = both(kind, here(at), here(given), of_host);
      auto f = compiled();
      for (int i = 0; i < 3; ++i)  // replayed
        check_close(f(kind, at, given, document), reference, dtype == DType::bf16 ? 1.5e-2 : 3e-3);
      CHECK(explain(f, kind, at, given, document).schedule.find("by tensor cores") != std::string::npos);
    }
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("gradients of attention of several tiles of 64 features on a device are those of the host") {
  check_tiles(DType::bf16, 64);
}
TEST_CASE("gradients of attention of several tiles of 128 features on a device are those of the host") {
  check_tiles(DType::f16, 128);
}

TEST_CASE("gradients of attention by many blocks have the same bits in every run") {
  const OwnKernels own;
  for (const std::int64_t features : {64, 128})
    for (const Kind kind : all_kinds) {
      CAPTURE(features);
      CAPTURE(int(kind));
      // More tiles of keys than a device has multiprocessors, and heads that share keys.
      const Sizes of_queries{2, 16, 1500, features}, of_keys{2, 8, 1500, features};
      const Operands at{there(of_queries, 1, DType::bf16), there(of_keys, 2, DType::bf16),
                        there(of_keys, 3, DType::bf16)};
      const Tensor given = there(of_queries, 4, DType::bf16), document = documents(1500, 400);
      auto f = compiled();
      const Operands first = f(kind, at, given, document).gradients;
      for (int i = 0; i < 10; ++i) {
        const Operands again = f(kind, at, given, document).gradients;
        CHECK(amax(abs(cast(again.q, DType::f32) - cast(first.q, DType::f32))).item() == 0);
        CHECK(amax(abs(cast(again.k, DType::f32) - cast(first.k, DType::f32))).item() == 0);
        CHECK(amax(abs(cast(again.v, DType::f32) - cast(first.v, DType::f32))).item() == 0);
      }
    }
}

TEST_SUITE_END();
