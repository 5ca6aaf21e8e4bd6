// Attention of few queries on a device, by our own kernels whose blocks share the keys, against f32 on the host.
// Skipped without a GPU.
#include <doctest/doctest.h>

#include <cmath>

#include "base/options.hpp"
#include "ir/node.hpp"
#include "tests/cuda/attention.hpp"
#include "tests/runtime/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct How {
  bool is_causal = false;
  double scale = 0;
  WEFT_MEMBERS(is_causal, scale)
};

Tensor attend(const How& how, const Operands& at, const Tensor& mask) {
  return nn::scaled_dot_product_attention(at.q, at.k, at.v,
                                          {.attn_mask = mask,
                                           .is_causal = how.is_causal,
                                           .scale = how.scale,
                                           .enable_gqa = type_of(at.q).shape.rank() > 2});
}

void close(const Tensor& device, const Tensor& reference, DType dtype) {
  CHECK(apart(device, reference) <= (dtype == DType::bf16 ? 1.2e-2 : 2e-3));
}
bool is_split(const std::string& schedule) { return schedule.find("keys in parts") != std::string::npos; }

struct Case {
  std::string name;
  DType dtype;
  Sizes q, k, v;
  How how = {};
};

// Tokens of a small decoder's attention, as examples/models/llama.hpp has them.
struct Decoder {
  nn::KeyValueCache cache;
  WEFT_MEMBERS(cache)
};
Tensor decode(Decoder& decoder, const Operands& token, const Index& position) {
  decoder.cache.update(token.k, token.v, position);
  return nn::scaled_dot_product_attention(
      token.q, decoder.cache.keys, decoder.cache.values,
      {.attn_mask = decoder.cache.mask(token.q.size(2), position), .enable_gqa = true});
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: attention of few queries is that of the host, and its keys are shared by blocks") {
  const Case cases[] = {
      {"a token of 1B", DType::bf16, {1, 32, 1, 64}, {1, 8, 1024, 64}, {1, 8, 1024, 64}},
      {"a batch of them", DType::bf16, {16, 32, 1, 64}, {16, 8, 1024, 64}, {16, 8, 1024, 64}},
      {"256 of them", DType::bf16, {32, 32, 1, 64}, {32, 8, 300, 64}, {32, 8, 300, 64}},
      {"300 of them", DType::f16, {75, 12, 1, 64}, {75, 4, 200, 64}, {75, 4, 200, 64}},
      {"a cluster of two", DType::bf16, {8, 32, 1, 64}, {8, 8, 1023, 64}, {8, 8, 1023, 64}},
      {"a cluster of four", DType::f16, {1, 32, 1, 128}, {1, 8, 255, 128}, {1, 8, 255, 128}},
      {"an empty block in one of four", DType::f16, {1, 32, 1, 64}, {1, 8, 257, 64}, {1, 8, 257, 64}},
      {"one key", DType::bf16, {3, 4, 1, 64}, {3, 4, 1, 64}, {3, 4, 1, 64}},
      {"15 keys", DType::f16, {3, 4, 1, 64}, {3, 4, 15, 64}, {3, 4, 15, 64}},
      {"a part and a key", DType::f16, {1, 4, 1, 64}, {1, 4, 65, 64}, {1, 4, 65, 64}},
      {"1000 keys", DType::bf16, {2, 6, 1, 64}, {2, 2, 1000, 64}, {2, 2, 1000, 64}},
      {"one head, many keys", DType::bf16, {1, 1, 1, 128}, {1, 1, 30001, 128}, {1, 1, 30001, 128}},
      {"one key head", DType::f16, {2, 8, 2, 64}, {2, 1, 333, 64}, {2, 1, 333, 64}},
      {"5 queries", DType::bf16, {2, 8, 5, 64}, {2, 4, 333, 64}, {2, 4, 333, 64}},
      {"16 queries, causal", DType::bf16, {2, 4, 16, 64}, {2, 2, 100, 64}, {2, 2, 100, 64}, {true}},
      {"3 queries, causal, fewer keys", DType::f16, {2, 4, 3, 64}, {2, 2, 2, 64}, {2, 2, 2, 64}, {true}},
      {"32 features", DType::f16, {2, 4, 4, 32}, {2, 2, 200, 32}, {2, 2, 200, 32}},
      {"8 features", DType::bf16, {2, 4, 4, 8}, {2, 2, 200, 8}, {2, 2, 200, 8}},
      {"72 and 40 features", DType::bf16, {2, 4, 4, 72}, {2, 2, 200, 72}, {2, 2, 200, 40}},
      {"96 features", DType::f16, {2, 4, 4, 96}, {2, 2, 200, 96}, {2, 2, 200, 96}},
      {"128 features", DType::f16, {2, 4, 4, 128}, {2, 2, 777, 128}, {2, 2, 777, 128}},
      {"256 features", DType::bf16, {2, 4, 4, 256}, {2, 2, 777, 256}, {2, 2, 777, 256}},
      {"a scale", DType::bf16, {2, 4, 4, 64}, {2, 2, 200, 64}, {2, 2, 200, 64}, {false, 0.3}},
      {"a scale below 0", DType::bf16, {2, 4, 4, 64}, {2, 2, 200, 64}, {2, 2, 200, 64}, {false, -0.2}},
      {"three axes", DType::bf16, {4, 3, 64}, {2, 90, 64}, {2, 90, 64}},
      {"two axes", DType::f16, {3, 64}, {90, 64}, {90, 64}},
  };
  const test::KeepOptions keep;
  for (const Case& it : cases)
    for (const bool library : {true, false}) {
      CAPTURE(it.name);
      CAPTURE(library);
      options().cudnn = library;
      const Operands at{there(it.q, 1, it.dtype), there(it.k, 2, it.dtype), there(it.v, 3, it.dtype)};
      const auto run = [](const How& how, const Operands& p) { return attend(how, p, {}); };
      auto compiled = compile(run, raising);
      // Of many of them cuDNN's blocks fill the device.
      const bool fills = library && std::string(it.name) == "300 of them";
      CHECK(is_split(explain(compiled, it.how, at).schedule) == !fills);
      const Tensor expected = run(it.how, here(at));
      for (int i = 0; i < 4; ++i) close(compiled(it.how, at), expected, it.dtype);  // replayed
    }
}

TEST_CASE("cuda: attention of few queries with masks, and rows that see nothing") {
  const Operands at{there({2, 8, 3, 64}, 1, DType::bf16), there({2, 2, 500, 64}, 2, DType::bf16),
                    there({2, 2, 500, 64}, 3, DType::bf16)};
  const auto run = [](const How& h, const Operands& p, const Tensor& m) { return attend(h, p, m); };
  for (const Sizes& each :
       {Sizes{2, 8, 3, 500}, Sizes{2, 1, 3, 500}, Sizes{3, 500}, Sizes{8, 1, 500}, Sizes{2, 1, 1, 500}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor mask = there(each, 5, dtype), sees = (to(sample(each, 6), Device::cuda()) > -0.5).eval();
      for (const Tensor& m : {mask, sees}) {
        auto compiled = compile(run, raising);
        CHECK(is_split(explain(compiled, How{}, at, m).schedule));
        const Tensor expected = attend({}, here(at), m.same(sees) ? to(sees, Device::cpu()) : here(mask));
        close(compiled(How{}, at, m), expected, DType::bf16);
      }
    }
  // The first query sees nothing, the second the last key alone, the third all of a later part.
  const Tensor key = unsqueeze(arange(500), 0), query = unsqueeze(arange(3), 1);
  const Tensor sees = ((query == 1) & (key == 499)) | ((query == 2) & (key >= 300));
  auto compiled = compile(run, raising);
  const Tensor made = compiled(How{}, at, to(sees, Device::cuda()).eval());
  close(made, attend({}, here(at), sees), DType::bf16);
  CHECK(amax(abs(here(slice(made, 2, 0, 1)))).item() == 0);
}

TEST_CASE("cuda: attention of few queries reads what a mask shows, wherever that is") {
  const test::KeepOptions keep;
  options().cudnn = false;
  // Keys in all and shown: at either end, in the middle, a few, none; beyond what shared memory holds of a mask at
  // once.
  struct Shown {
    std::int64_t batch, keys, first, last;
  };
  const Shown all[] = {{1, 1000, 0, 0},        {1, 1000, 999, 999},   {1, 1000, 400, 650}, {16, 1000, 0, 129},
                       {16, 1000, 900, 999},   {16, 3000, 0, 2999},   {16, 3000, 0, 1023}, {16, 3000, 1024, 1024},
                       {16, 3000, 1500, 2100}, {2, 9000, 8000, 8999}, {2, 9000, 10, 7000}, {3, 700, 1, 0}};
  for (const Shown& it : all)
    for (const DType dtype : {DType::bf16, DType::f32}) {
      CAPTURE(it.keys);
      CAPTURE(it.first);
      CAPTURE(it.last);
      const Operands at{there({it.batch, 8, 1, 64}, 1, DType::bf16), there({it.batch, 4, it.keys, 64}, 2, DType::bf16),
                        there({it.batch, 4, it.keys, 64}, 3, DType::bf16)};
      const Tensor key = unsqueeze(arange(it.keys), 0);
      const Tensor mask = cast(where((key >= it.first) & (key <= it.last), sample({1, it.keys}, 5), -INFINITY), dtype);
      auto compiled =
          compile([](const How& h, const Operands& p, const Tensor& m) { return attend(h, p, m); }, raising);
      const Tensor given = to(mask, Device::cuda()).eval();
      CHECK(is_split(explain(compiled, How{}, at, given).schedule));
      for (int i = 0; i < 2; ++i) close(compiled(How{}, at, given), attend({}, here(at), here(given)), DType::bf16);
    }
}

TEST_CASE("cuda: a cache is attended to from its first position to its last, one token at a time and several") {
  for (const std::int64_t length : {1, 4})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(length);
      constexpr std::int64_t capacity = 300;
      Decoder device{nn::KeyValueCache(2, 2, capacity, 64, {dtype, Device::cuda()})};
      Decoder host{nn::KeyValueCache(2, 2, capacity, 64)};
      auto step = compile(decode, raising);
      for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, std::int64_t{63}, std::int64_t{64},
                                          std::int64_t{150}, capacity - length}) {
        CAPTURE(position);
        const auto seed = static_cast<std::uint64_t>(position) * 3;
        const Operands token{there({2, 8, length, 64}, seed, dtype), there({2, 2, length, 64}, seed + 1, dtype),
                             there({2, 2, length, 64}, seed + 2, dtype)};
        close(step(device, token, position), decode(host, here(token), position), dtype);
      }
    }
}

TEST_CASE("cuda: attention of one query to keys of lengths that vary is one function") {
  auto compiled = compile([](const Operands& p) { return attend({}, p, {}); }, raising);
  Operands at;
  for (const std::int64_t keys : {64, 3, 1, 1000, 5000, 64}) {
    CAPTURE(keys);
    at = {there({2, 4, 1, 64}, 1, DType::bf16), there({2, 2, keys, 64}, 2, DType::bf16),
          there({2, 2, keys, 64}, 3, DType::bf16)};
    close(compiled(at), attend({}, here(at), {}), DType::bf16);
    CHECK(is_split(explain(compiled, at).schedule));
  }
}

TEST_CASE("cuda: the gradients of attention of few queries follow from what it gives") {
  const Operands at{there({2, 8, 4, 64}, 1, DType::bf16), there({2, 2, 200, 64}, 2, DType::bf16),
                    there({2, 2, 200, 64}, 3, DType::bf16)};
  const Tensor given = there({2, 8, 4, 64}, 4, DType::bf16);
  const auto run = [](const Operands& p, const Tensor& w) {
    return grad([&](const Operands& each) { return sum(attend({}, each, {}) * w); }, p);
  };
  auto compiled = compile(run, raising);
  const Operands made = compiled(at, given), expected = run(here(at), here(given));
  close(made.q, expected.q, DType::bf16);
  close(made.k, expected.k, DType::bf16);
  close(made.v, expected.v, DType::bf16);
}

TEST_SUITE_END();
