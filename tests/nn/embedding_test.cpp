// Embedding and EmbeddingBag against PyTorch's; what is refused.
#include "weft/nn/embedding.hpp"
#include "tests/nn/golden.hpp"

using namespace weft;
using namespace nn_test;
using weft::test::refused;

namespace {

constexpr Options f64{DType::f64};
Tensor rows_of_three() { return reshape(constant(std::vector<std::int64_t>{0, 3, 1, 4, 0, 3}, {6}), {2, 3}); }
Tensor seven() { return constant(std::vector<std::int64_t>{0, 3, 1, 4, 0, 3, 2}, {7}); }
Tensor offsets() { return constant(std::vector<std::int64_t>{0, 2, 2, 5}, {4}); }

constexpr auto of_rows = [](auto& m, const Values&) { return Values{m(rows_of_three())}; };
constexpr auto of_seven = [](auto& m, const Values&) { return Values{m(seven())}; };
Tensor bags_of(const nn::EmbeddingBag& bag, const Tensor& index, const Tensor& offsets) { return bag(index, offsets); }
constexpr auto of_offsets = [](auto& m, const Values&) { return Values{m(seven(), offsets())}; };

}  // namespace

TEST_CASE("Embedding gives PyTorch's results and gradients") {
  check_golden("embedding 1", {}, of_rows, nn::Embedding(5, 3, {.options = f64}));
  check_golden("embedding 2", {}, of_rows, nn::Embedding(5, 3, {.padding_idx = 3, .options = f64}));
  check_golden("embedding 3", {}, of_seven, nn::Embedding(5, 2, {.padding_idx = -1, .options = f64}));
}

TEST_CASE("EmbeddingBag gives PyTorch's results and gradients") {
  for (const auto& [mode, name] :
       {std::pair{nn::BagMode::mean, "mean"}, {nn::BagMode::sum, "sum"}, {nn::BagMode::max, "max"}}) {
    const std::string text = std::string("embedding_bag ") + name;
    const nn::EmbeddingBag bag(5, 3, {.mode = mode, .options = f64});
    check_golden(text + " 1", {}, of_rows, bag);
    check_golden(text + " 2", {}, of_offsets, bag);
    check_golden(text + " 3", {}, of_offsets, nn::EmbeddingBag(5, 3, {.mode = mode, .padding_idx = 0, .options = f64}));
  }
  check_golden(
      "embedding_bag weighted 1", {{2, 3}},
      [](auto& m, const Values& x) { return Values{m(rows_of_three(), {}, x[0])}; },
      nn::EmbeddingBag(5, 3, {.mode = nn::BagMode::sum, .options = f64}), -1);
  check_golden(
      "embedding_bag weighted 2", {{7}},
      [](auto& m, const Values& x) {
        return Values{m(seven(), concat({offsets(), constant(std::vector<std::int64_t>{7}, {1})}), x[0])};
      },
      nn::EmbeddingBag(5, 3, {.mode = nn::BagMode::sum, .include_last_offset = true, .options = f64}), -1);
}

TEST_CASE("one compilation of bags for any number of indices and bags") {
  const nn::EmbeddingBag bag(5, 3, {.options = f64});
  auto run = compile(bags_of, {.dynamic = true});
  for (const int count : {7, 9, 12}) {
    const Tensor index = arange(count) % 5, offsets = arange(0, count, 3);
    const Tensor rows = gather(bag.weight, index);
    std::vector<Tensor> means;
    for (int at = 0; at < count; at += 3) means.push_back(mean(slice(rows, 0, at, std::min(at + 3, count)), 0));
    CHECK(max(abs(run(bag, index, offsets) - stack(means))).item() < 1e-12);
  }
  CHECK(specialization_count(run) <= 2);
}

TEST_CASE("bags that offsets cut are those of rows") {
  const int count = 40000;
  const Tensor index = arange(count) * 7 % 5, rows = reshape(index, {count / 4, 4}), offsets = arange(0, count, 4);
  const auto largest = [](const Tensor& x) { return max(abs(x)).item(); };
  for (const nn::BagMode mode : {nn::BagMode::mean, nn::BagMode::sum, nn::BagMode::max}) {
    const nn::EmbeddingBag bag(5, 16, {.mode = mode, .options = f64});
    CHECK(largest(bag(index, offsets) - bag(rows)) < 1e-12);
    auto run = compile(bags_of);
    CHECK(largest(run(bag, index, offsets) - bag(rows)) < 1e-12);
  }
}

TEST_CASE("bags of 16 bits are computed in f32 and rounded once") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const nn::BagMode mode : {nn::BagMode::mean, nn::BagMode::sum, nn::BagMode::max}) {
      const Tensor table = cast(wave({5, 3}, 1), dtype), index = arange(603) % 5, cut = arange(0, 603, 301);
      const nn::BagOptions options{.offsets = cut, .mode = mode};
      const Tensor exact = nn::embedding_bag(index, cast(table, DType::f32), options);
      CHECK(all(nn::embedding_bag(index, table, options) == cast(exact, dtype)).item<bool>());
    }
  }
}

TEST_CASE("embeddings: initial values and what is refused") {
  nn::Embedding table(4, 3, {.padding_idx = -2});
  CHECK(max(abs(table.weight.tensor()[2])).item() == 0);
  Generator generator(1);
  nn::initialize(table, generator);
  CHECK(max(abs(table.weight.tensor()[2])).item() == 0);
  CHECK(max(abs(table.weight.tensor()[1])).item() > 0);
  CHECK(table(zeros({0}, {DType::i64})).shape() == Shape::of(0, 3));
  nn::EmbeddingBag bag(4, 3);
  CHECK(max(abs(bag(zeros({2, 0}, {DType::i64})))).item() == 0);
  refused([&] { table(full({2}, 4, {DType::i64})); }, "an index is out of range [0, 4)");
  refused([&] { table(ones({2})); }, "the indices must be integers: f32[2]");
  refused([&] { nn::Embedding(4, 3, {.padding_idx = 4}); }, "padding_idx 4 is none of 4 rows");
  refused([&] { nn::Embedding(0, 3); }, "sizes must be positive");
  refused([&] { bag(arange(4)); }, "takes indices [bags, n], or a vector of indices and offsets: i64[4]");
  const auto cut = [&](std::vector<std::int64_t> at) {
    const Tensor offsets = constant(at, {static_cast<std::int64_t>(at.size())});
    refused([&] { bag(arange(4), offsets).eval(); }, "offsets must ascend from 0 and not leave the indices: i64[");
    auto run = compile(bags_of);
    const std::string text = weft::test::message_of([&] { run(bag, arange(4), offsets).eval(); });
    CHECK(text.find("offsets must ascend from 0 and not leave the indices: i64[") != std::string::npos);
  };
  cut({1, 1});
  cut({0, 3, 1});
  cut({0, 5});
  cut({0, -1});
  const nn::EmbeddingBag closed(4, 3, {.include_last_offset = true});
  const Tensor early = constant(std::vector<std::int64_t>{0, 3}, {2});
  refused([&] { closed(arange(4), early); }, "the last must be the number of indices: i64[2] into 4");
  CHECK(bag(arange(4), constant(std::vector<std::int64_t>{0, 4}, {2})).shape() == Shape::of(2, 3));
  refused([&] { bag(zeros({2, 2}, {DType::i64}), {}, ones({2, 2})); }, "with mode sum: f32[2,2] beside");
}
