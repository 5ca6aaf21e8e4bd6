// Texts of several lengths, and a cache in pages, on a device: what the host gives, by the kernels that attention has.
// Skipped without a GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/options.hpp"
#include "tests/cuda/attention.hpp"
#include "tests/runtime/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

using Tensors = std::vector<Tensor>;

Tensors varlen(const Tensors& x, const Tensor& offsets, const Tensor& given) {
  const auto attend = [&](const Tensors& at) {
    return nn::varlen_attention(at[0], at[1], at[2], offsets, offsets, {.is_causal = true, .enable_gqa = true});
  };
  Tensors all = grad([&](const Tensors& at) { return sum(attend(at) * given); }, x);
  all.push_back(attend(x));
  return all;
}
Tensor paged(nn::PagedKeyValueCache& cache, const Tensor& q, const Tensor& kv, const Tensor& table, const Tensor& at) {
  cache.update(kv, kv, table, at);
  return cache.attention(q, table, at);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("texts of several lengths on a device are those of the host, by tensor cores") {
  const Tensor offsets = from_list<std::int32_t>({0, 130, 130, 135, 300});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Tensors x, reference;
    for (int i = 0; i < 3; ++i) {
      x.push_back(to(cast(sample({300, i == 0 ? 4 : 2, 64}, static_cast<std::uint64_t>(i)), dtype), Device::cuda()));
      reference.push_back(here(x.back().eval()));
    }
    const Tensor given = to(cast(sample({300, 4, 64}, 9), dtype), Device::cuda()).eval();
    const Tensors expected = varlen(reference, offsets, here(given));
    auto compiled = compile(varlen, raising);
    const Tensor there = to(offsets, Device::cuda()).eval();
    const std::string schedule = explain(compiled, x, there, given).schedule;
    CHECK(schedule.find("by tensor cores") != schedule.rfind("by tensor cores"));  // forward and backward
    for (int turn = 0; turn < 3; ++turn) {
      const Tensors found = compiled(x, there, given);
      for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(apart(found[i], expected[i]) <= (dtype == DType::bf16 ? 1.5e-2 : 3e-3));
    }
  }
}

TEST_CASE("a cache in pages on a device gives what it gives on the host") {
  const auto cache = [](Device device) { return nn::PagedKeyValueCache(9, 2, 16, 64, {DType::bf16, device}); };
  nn::PagedKeyValueCache on_host = cache(Device::cpu()), on_device = cache(Device::cuda());
  auto step = compile(paged, raising);
  const Tensor table = reshape(from_list<std::int32_t>({7, 2, -1, 4, 8, 0}), {2, 3});
  for (std::int32_t i = 0; i < 20; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const Tensor q = cast(sample({2, 4, 1, 64}, seed), DType::bf16),
                 kv = cast(sample({2, 2, 1, 64}, seed + 50), DType::bf16);
    const Tensor at = from_list<std::int32_t>({i, i + 7});
    const auto there = [](const Tensor& x) { return to(x, Device::cuda()).eval(); };
    const Tensor expected = here(paged(on_host, q, kv, table, at));
    CHECK(apart(step(on_device, there(q), there(kv), there(table), there(at)), expected) <= 1.5e-2);
  }
  CHECK(specialization_count(step) == 1);
}

TEST_CASE("attention of few queries reads the pages of a cache where they lie") {
  struct Case {
    const char* name;
    DType dtype;
    std::int64_t texts, heads, key_heads, page_size, depth, tokens, pages_of_text;
  };
  const Case cases[] = {
      {"a token", DType::bf16, 3, 8, 2, 16, 64, 1, 9},      {"long texts", DType::f16, 2, 4, 4, 32, 128, 1, 40},
      {"more tokens", DType::bf16, 2, 6, 2, 48, 64, 5, 6},  {"rows of two tiles", DType::f16, 2, 8, 2, 16, 32, 8, 5},
      {"wide heads", DType::bf16, 1, 2, 1, 16, 256, 16, 4}, {"one long text", DType::bf16, 1, 8, 1, 64, 64, 1, 70},
      {"many texts", DType::f16, 40, 16, 8, 16, 64, 1, 5},
  };
  const auto attend = [](const nn::PagedKeyValueCache& cache, const Tensor& q, const Tensor& table, const Tensor& at) {
    return cache.attention(q, table, at);
  };
  for (const Case& it : cases) {
    CAPTURE(it.name);
    const std::int64_t pages = it.texts * it.pages_of_text + 3, room = it.page_size * it.pages_of_text;
    nn::PagedKeyValueCache cache(pages, it.key_heads, it.page_size, it.depth, {it.dtype, Device::cuda()});
    const Sizes of_pages = {pages, it.key_heads, it.page_size, it.depth};
    // What no text sees is NaN in one page, which has to stay there.
    const Tensor unseen = reshape(arange(pages) == pages - 1, {pages, 1, 1, 1});
    const auto fill = [&](std::uint64_t seed) {
      return to(cast(where(unseen, NAN, sample(of_pages, seed)), it.dtype), Device::cuda()).eval();
    };
    cache.keys = fill(1), cache.values = fill(2);
    nn::PagedKeyValueCache on_host = cache;
    on_host.keys = here(cache.keys), on_host.values = here(cache.values);
    // Pages in any order, none twice; texts that end within a page, at its end, at the first token.
    std::vector<std::int32_t> table, positions;
    for (std::int64_t i = 0; i < it.texts * it.pages_of_text; ++i)
      table.push_back(static_cast<std::int32_t>(i * 11 % (it.texts * it.pages_of_text)));  // 11 divides none of them
    for (std::int64_t i = 0; i < it.texts; ++i) {
      const std::int64_t last = i % 4 == 0   ? room - 1
                                : i % 4 == 1 ? it.page_size * 2 - 1
                                : i % 4 == 2 ? room / 3
                                             : it.tokens;
      positions.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(last - it.tokens + 1, 0)));
      // A page that is not seen may be none, or the one of NaN.
      for (std::int64_t j = positions.back() + it.tokens; j < room; ++j)
        if (j % it.page_size == 0)
          table[static_cast<std::size_t>(i * it.pages_of_text + j / it.page_size)] =
              j / it.page_size % 2 ? -1 : static_cast<std::int32_t>(pages - 1);
    }
    const Tensor q = cast(sample({it.texts, it.heads, it.tokens, it.depth}, 3), it.dtype);
    const auto ints = [](const std::vector<std::int32_t>& all, const Sizes& sizes) {
      return from_span(std::span<const std::int32_t>(all), sizes);
    };
    const Tensor pages_of = ints(table, {it.texts, it.pages_of_text}), at = ints(positions, {it.texts});
    const auto there = [](const Tensor& x) { return to(x, Device::cuda()).eval(); };
    auto compiled = compile(attend, raising);
    const Tensor expected = attend(on_host, cast(q, DType::f32), pages_of, at);
    const Tensor on_device[] = {there(q), there(pages_of), there(at)};
    for (int turn = 0; turn < 3; ++turn)
      CHECK(apart(compiled(cache, on_device[0], on_device[1], on_device[2]), expected) <=
            (it.dtype == DType::bf16 ? 1.5e-2 : 3e-3));
    CHECK(explain(compiled, cache, on_device[0], on_device[1], on_device[2])
              .schedule.find(concat_text("in pages of ", it.page_size)) != std::string::npos);
    const test::KeepOptions keep;
    options().own_kernels = 0;  // by its body
    CHECK(apart(compile(attend, raising)(cache, on_device[0], on_device[1], on_device[2]), expected) <=
          (it.dtype == DType::bf16 ? 1.5e-2 : 3e-3));
  }
}

TEST_SUITE_END();
