// Attention and its gradients on a device against f32 on the host: by cuDNN where it is found, and by their bodies.
// Skipped without a GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "base/options.hpp"
#include "ir/node.hpp"
#include "runtime/cuda/attention.hpp"
#include "runtime/cuda/dnn_library.hpp"
#include "tests/cuda/attention.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct How {
  bool is_causal = false, grouped = false;
  double scale = 0;
  WEFT_MEMBERS(is_causal, grouped, scale)
};

Tensor attend(const How& how, const Operands& at, const Tensor& mask) {
  return nn::scaled_dot_product_attention(
      at.q, at.k, at.v, {.attn_mask = mask, .is_causal = how.is_causal, .scale = how.scale, .enable_gqa = how.grouped});
}
Results both(const How& how, const Operands& at, const Tensor& given) {
  return {attend(how, at, {}), grad([&](const Operands& p) { return sum(attend(how, p, {}) * given); }, at)};
}
Results both_masked(const How& how, const Operands& at, const Tensor& given, const Tensor& mask) {
  return {attend(how, at, mask), grad([&](const Operands& p) { return sum(attend(how, p, mask) * given); }, at)};
}
// [B, T, H, D] in memory.
Operands turned(const Operands& at) { return {transpose(at.q, 1, 2), transpose(at.k, 1, 2), transpose(at.v, 1, 2)}; }
Results both_turned(const How& how, const Operands& at, const Tensor& given) {
  return {transpose(attend(how, turned(at), {}), 1, 2),
          grad([&](const Operands& p) { return sum(transpose(attend(how, turned(p), {}), 1, 2) * given); }, at)};
}
// Of one product, as a decoder has them: [B, T, 3, H, D].
Tensor packed(const Tensor& all, const Tensor& given) {
  return grad(
      [&](const Tensor& p) {
        const Tensor parts = permute(p, {2, 0, 3, 1, 4});
        const Tensor mixed = nn::scaled_dot_product_attention(select(parts, 0, 0), select(parts, 0, 1),
                                                              select(parts, 0, 2), {.is_causal = true});
        return sum(permute(mixed, {0, 2, 1, 3}) * given);
      },
      all);
}

void close(const Results& device, const Results& reference, DType dtype) {
  check_close(device, reference, dtype == DType::bf16 ? 1.2e-2 : 2e-3);
}

bool has_library() {
  try {
    return options().cudnn && runtime::cuda::dnn().cudnnGetVersion() >= 91600;
  } catch (const Error&) {
    return false;
  }
}
std::string attention_of_library() {
  const std::string lack = a_device();
  return !lack.empty() || has_library() ? lack : "no cuDNN of 9.16 or later is used";
}
// Steps of a schedule that cuDNN does, and those that do attention whole, whoever does.
int library_steps(const std::string& schedule) { return count(schedule, "by cuDNN"); }
int whole_steps(const std::string& schedule) { return library_steps(schedule) + count(schedule, "by tensor cores"); }

struct AttentionCase {
  std::string name;
  DType dtype;
  Sizes q, k, v;
  How how;
};

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("attention on a device is that of the host, by cuDNN and without") {
  const AttentionCase cases[] = {
      {"causal", DType::bf16, {2, 3, 128, 64}, {2, 3, 128, 64}, {2, 3, 128, 64}, {true}},
      {"full", DType::f16, {2, 3, 128, 64}, {2, 3, 128, 64}, {2, 3, 128, 64}, {}},
      {"uneven", DType::bf16, {1, 2, 100, 32}, {1, 2, 77, 32}, {1, 2, 77, 32}, {}},
      {"causal, fewer keys", DType::f16, {2, 2, 100, 64}, {2, 2, 37, 64}, {2, 2, 37, 64}, {true}},
      {"causal, more keys", DType::bf16, {2, 2, 37, 64}, {2, 2, 100, 64}, {2, 2, 100, 64}, {true}},
      {"80 features", DType::bf16, {1, 4, 65, 80}, {1, 4, 65, 80}, {1, 4, 65, 80}, {true}},
      {"96 features", DType::f16, {1, 4, 130, 96}, {1, 4, 130, 96}, {1, 4, 130, 96}, {}},
      {"128 features", DType::bf16, {2, 2, 257, 128}, {2, 2, 257, 128}, {2, 2, 257, 128}, {true}},
      {"256 features", DType::bf16, {1, 2, 100, 256}, {1, 2, 100, 256}, {1, 2, 100, 256}, {true}},
      {"8 features", DType::f16, {2, 2, 50, 8}, {2, 2, 50, 8}, {2, 2, 50, 8}, {}},
      {"grouped heads", DType::bf16, {2, 8, 70, 64}, {2, 2, 70, 64}, {2, 2, 70, 64}, {true, true}},
      {"one key head", DType::f16, {2, 4, 70, 64}, {2, 1, 90, 64}, {2, 1, 90, 64}, {false, true}},
      {"other value features", DType::bf16, {2, 2, 60, 64}, {2, 2, 60, 64}, {2, 2, 60, 32}, {}},
      {"keys of 192 features, values of 128", DType::bf16, {1, 4, 130, 192}, {1, 4, 130, 192}, {1, 4, 130, 128}, {true}},
      {"a scale", DType::bf16, {2, 2, 60, 64}, {2, 2, 60, 64}, {2, 2, 60, 64}, {true, false, 0.3}},
      {"one query", DType::bf16, {3, 4, 1, 64}, {3, 4, 200, 64}, {3, 4, 200, 64}, {}},
      {"one of each", DType::bf16, {3, 4, 1, 64}, {3, 4, 1, 64}, {3, 4, 1, 64}, {}},
      {"three axes", DType::bf16, {4, 90, 64}, {4, 90, 64}, {4, 90, 64}, {true}},
      {"two axes", DType::f16, {90, 64}, {90, 64}, {90, 64}, {}},
      {"odd features", DType::f16, {2, 2, 30, 20}, {2, 2, 30, 20}, {2, 2, 30, 20}, {true}},
  };
  const ProcessOptions before = options();
  for (const AttentionCase& it : cases)
    for (const bool library : {true, false}) {
      CAPTURE(it.name);
      CAPTURE(library);
      options().cudnn = library && before.cudnn;
      const Operands at{there(it.q, 1, it.dtype), there(it.k, 2, it.dtype), there(it.v, 3, it.dtype)};
      const Tensor given = there(type_of(attend(it.how, at, {})).shape, 4, it.dtype);
      const Results reference = both(it.how, here(at), here(given));
      auto compiled =
          compile([](const How& how, const Operands& p, const Tensor& w) { return both(how, p, w); }, raising);
      const std::string schedule = explain(compiled, it.how, at, given).schedule;
      // Of few queries the forward pass is our own kernels': split_attention_test.cpp.
      const int whole = it.name == "odd features" ? 0 : it.name == "one query" || it.name == "one of each" ? 1 : 2;
      CHECK((whole ? whole_steps(schedule) >= whole : whole_steps(schedule) == 0));
      if (!library) CHECK(library_steps(schedule) == 0);
      for (int i = 0; i < 4; ++i) close(compiled(it.how, at, given), reference, it.dtype);  // replayed
      if (library) close(both(it.how, at, given), reference, it.dtype);  // without a function around it
    }
  options() = before;
}

TEST_CASE("attention on a device reads and writes [B, T, H, D] and one packed product where they lie") {
  const How how{true};
  const Sizes sizes{2, 100, 4, 64};
  const Operands at{there(sizes, 1, DType::bf16), there(sizes, 2, DType::bf16), there(sizes, 3, DType::bf16)};
  const Tensor given = there(sizes, 4, DType::bf16);
  auto compiled =
      compile([](const How& h, const Operands& p, const Tensor& w) { return both_turned(h, p, w); }, raising);
  for (int i = 0; i < 3; ++i) close(compiled(how, at, given), both_turned(how, here(at), here(given)), DType::bf16);
  const Tensor all = there({2, 100, 3, 4, 64}, 5, DType::bf16);
  auto together = compile([](const Tensor& p, const Tensor& w) { return packed(p, w); }, raising);
  CHECK(apart(together(all, given), packed(here(all), here(given))) <= 1.2e-2);
}

TEST_CASE("attention on a device of batches that vary is whole, and of lengths that vary by our own kernels") {
  for (const bool lengths : {false, true}) {
    auto compiled = compile([](const How& h, const Operands& p, const Tensor& w) { return both(h, p, w); },
                            {.on_compile_error = OnFailure::raise});
    Operands at;
    Tensor given;
    for (const std::int64_t size : {64, 3, 1, 100, 64}) {
      CAPTURE(lengths);
      CAPTURE(size);
      const Sizes sizes = lengths ? Sizes{2, 2, size, 64} : Sizes{size, 2, 70, 64};
      at = {there(sizes, 1, DType::bf16), there(sizes, 2, DType::bf16), there(sizes, 3, DType::bf16)};
      given = there(sizes, 4, DType::bf16);
      close(compiled({true}, at, given), both({true}, here(at), here(given)), DType::bf16);
    }
    const std::string schedule = explain(compiled, How{true}, at, given).schedule;
    CHECK(whole_steps(schedule) > 1);
    if (lengths) CHECK(library_steps(schedule) == 0);
  }
}

TEST_CASE("attention on a device with a mask that is added or of bools, and with rows that see nothing") {
  const Sizes sizes{2, 4, 60, 64};
  const Operands at{there(sizes, 1, DType::bf16), there(sizes, 2, DType::bf16), there(sizes, 3, DType::bf16)};
  const Tensor given = there(sizes, 4, DType::bf16);
  const Sizes masks[] = {{2, 4, 60, 60}, {2, 1, 60, 60}, {60, 60}, {4, 60, 60}, {2, 1, 1, 60}};
  for (const Sizes& each : masks)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor mask = there(each, 5, dtype);
      auto compiled = compile(
          [](const How& h, const Operands& p, const Tensor& w, const Tensor& m) { return both_masked(h, p, w, m); },
          raising);
      close(compiled({}, at, given, mask), both_masked({}, here(at), here(given), here(mask)), DType::bf16);
      if (has_library()) CHECK(library_steps(explain(compiled, How{}, at, given, mask).schedule) > 1);
    }
  // Who sees whom, as bools.
  for (const Sizes& each : {Sizes{2, 1, 60, 60}, Sizes{60, 60}, Sizes{2, 1, 1, 60}}) {
    const Tensor sees = (to(sample(each, 6), Device::cuda()) > -0.5).eval();
    auto compiled = compile(
        [](const How& h, const Operands& p, const Tensor& w, const Tensor& m) { return both_masked(h, p, w, m); },
        raising);
    const Results expected = both_masked({}, here(at), here(given), to(sees, Device::cpu()));
    for (int i = 0; i < 3; ++i) close(compiled({}, at, given, sees), expected, DType::bf16);
    close(both_masked({}, at, given, sees), expected, DType::bf16);
    if (has_library()) CHECK(library_steps(explain(compiled, How{}, at, given, sees).schedule) > 1);
  }
  // Every third row sees nothing.
  const Tensor row = arange(60), nothing = where(unsqueeze(row % 3, 1) == 0, -INFINITY, zeros({60, 60}));
  auto compiled =
      compile([](const How& h, const Operands& p, const Tensor& w, const Tensor& m) { return both_masked(h, p, w, m); },
              raising);
  const Tensor mask = to(nothing, Device::cuda()).eval();
  const Results made = compiled({}, at, given, mask);
  if (has_library()) CHECK(library_steps(explain(compiled, How{}, at, given, mask).schedule) > 1);
  close(made, both_masked({}, here(at), here(given), nothing), DType::bf16);
  CHECK(amax(abs(here(slice(made.output, 2, 0, 1)))).item() == 0);
  CHECK(amax(abs(here(slice(made.gradients.q, 2, 0, 1)))).item() == 0);
}

TEST_CASE("the gradients of attention on a device have the same bits in every run") {
  const Sizes sizes{4, 8, 512, 64};
  const Operands at{there(sizes, 1, DType::bf16), there(sizes, 2, DType::bf16), there(sizes, 3, DType::bf16)};
  const Tensor given = there(sizes, 4, DType::bf16);
  auto compiled = compile([](const How& h, const Operands& p, const Tensor& w) { return both(h, p, w); }, raising);
  const Results first = compiled({true}, at, given);
  const Tensor dq = here(first.gradients.q);
  for (int i = 0; i < 20; ++i) CHECK(amax(abs(here(compiled({true}, at, given).gradients.q) - dq)).item() == 0);
}

TEST_CASE("a plan of attention that a thread made with a handle of its own runs with another one, to the same bits" *
          test::needs(attention_of_library)) {
  using namespace runtime::cuda;
  const Device device = Device::cuda();
  AttentionSizes forward;
  forward.is_causal = true, forward.batch = 2, forward.heads = forward.key_heads = 3;
  forward.queries = forward.keys = 128, forward.features = forward.value_features = 64;
  forward.scale = 0.125F;
  for (std::size_t i = 0; i < attended_values; ++i) {
    const auto sizes = forward.sizes_of(static_cast<Attended>(i));
    forward.strides[i] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  }
  AttentionSizes backward = forward;
  backward.is_backward = true;

  DnnLibrary& library = DnnLibrary::of(use(device));
  std::unique_ptr<const LibraryAttention> plans[2][2];  // by who made it, a thread or this one; forward and backward
  {
    const DnnLibrary::Borrowed running(library, true);  // so the threads have others
    {
      std::vector<std::jthread> threads;
      for (const auto* const sizes : {&forward, &backward})
        threads.emplace_back([&, sizes] {
          const DnnLibrary::Borrowed own(DnnLibrary::of(use(device)));
          plans[0][sizes == &backward] = LibraryAttention::make(*sizes, {own.get(), nullptr});
        });
    }
    plans[1][0] = LibraryAttention::make(forward, {running.get(), nullptr});
    plans[1][1] = LibraryAttention::make(backward, {running.get(), nullptr});
  }

  const Sizes shape{2, 3, 128, 64};
  std::vector<Tensor> given;
  for (const std::uint64_t seed : {1, 2, 3, 4}) given.push_back(there(shape, seed, DType::bf16));
  std::vector<Tensor> results[2];  // by who made the plans: the output, its stats, three gradients
  for (std::size_t i = 0; i < 2; ++i) {
    for (const bool is_stats : {false, true, false, false, false})
      results[i].push_back(
          zeros(is_stats ? Sizes{2, 3, 128} : shape, {is_stats ? DType::f32 : DType::bf16, device}).eval());
    std::vector<void*> values;
    const auto add = [&](const Tensor& value) { values.push_back(value.node()->storage->data); };
    for (std::size_t j = 0; j < 3; ++j) add(given[j]);
    add(results[i][0]), add(results[i][1]);
    for (const bool is_backward : {false, true}) {
      if (is_backward) add(given[3]), add(results[i][2]), add(results[i][3]), add(results[i][4]);
      const auto& plan = plans[i][is_backward];
      REQUIRE(plan != nullptr);
      const std::unique_ptr<Storage, decltype(&release)> space(allocate(device, plan->workspace() + 1), release);
      plan->run(device, values, {static_cast<std::byte*>(space->data), space->bytes}, &use(device).queue);
      synchronize(device);
    }
  }
  const Tensor output = here(results[0][0]);
  CHECK(amax(abs(output)).item() > 0.1);
  for (std::size_t j = 0; j < results[0].size(); ++j)
    CHECK(amax(abs(here(results[0][j]) - here(results[1][j]))).item() == 0);
}

TEST_SUITE_END();
