// Texts of several lengths, and a cache in pages, on a device: what the host gives, by the kernels that attention has.
// Skipped without a GPU.
#include <doctest/doctest.h>

#include "tests/cuda/attention.hpp"
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

TEST_SUITE_END();
