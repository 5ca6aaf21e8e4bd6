// Which sizes become symbols by themselves, and which by marks: how often a function is compiled over calls of many
// shapes, against itself run eagerly.
#include "base/log.hpp"
#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

Tensor normal_of(std::initializer_list<std::int64_t> sizes) {
  static constinit std::uint64_t next = 1;
  Generator rng(next++);
  return normal(std::vector<Dim>(sizes.begin(), sizes.end()), 0, 1, rng);
}
void check_close(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.shape().same(expected.shape()));
  if (expected.element_count().constant() == 0) return;
  CHECK(amax(abs(found - expected)).item() <= 1e-5 * (1 + amax(abs(expected)).item()));
}

}  // namespace

TEST_CASE(
    "a size that differs is symbolic from the second call on, and from the first 0 or 1 on without an assumption") {
  const auto body = [](const Tensor& x, const Tensor& w) { return softmax(matmul(x, w)) + sum(x, 1, true); };
  for (Backend backend : {Backend::compiled, Backend::eager}) {
    auto f = compile(body, {.backend = backend, .on_compile_error = OnFailure::raise});
    const Tensor w = normal_of({6, 4});
    const struct {
      std::int64_t rows;
      std::size_t compiled;
    } calls[] = {{32, 1}, {16, 2}, {32, 2}, {7, 2}, {100, 2}, {2, 2}, {1, 3}, {1, 3}, {0, 3}, {33, 3}};
    for (const auto& [rows, compiled] : calls) {
      CAPTURE(rows);
      const Tensor x = normal_of({rows, 6});
      check_close(f(x, w), body(x, w));
      CHECK(specialization_count(f) == compiled);
    }
  }
}

TEST_CASE("sizes that differ one after the other, or at once, take three compilations at most") {
  const auto block = [](const Tensor& x) { return softmax(matmul(x, transpose(x))) * mean(x); };
  auto one_by_one = compile(block);
  for (const auto& [batch, length] : {std::pair{8, 16}, {8, 12}, {4, 12}, {5, 9}, {16, 16}, {3, 3}}) {
    const Tensor x = normal_of({batch, length, 4});
    check_close(one_by_one(x), block(x));
  }
  CHECK(specialization_count(one_by_one) <= 3);
  const auto image = [](const Tensor& x, const Tensor& w) { return relu(conv2d(x, w, {.padding = 1})); };
  auto images = compile(image);
  const Tensor w = normal_of({4, 3, 3, 3});
  for (const auto& [height, width] : {std::pair{8, 8}, {6, 6}, {6, 8}, {5, 7}, {12, 4}}) {
    const Tensor x = normal_of({2, 3, height, width});
    check_close(images(x, w), image(x, w));
  }
  CHECK(specialization_count(images) <= 3);
}

TEST_CASE("sizes share a symbol only where they were equal in the calls before") {
  auto f = compile([](const Tensor& x, const Tensor& y) { return sum(x) * sum(y); });
  f(ones({4}), ones({5}));
  f(ones({3}), ones({3}));
  f(ones({7}), ones({2}));
  CHECK(specialization_count(f) == 2);
}

TEST_CASE("sizes of parameters stay numbers, and so do those under dynamic = false") {
  auto f = compile([](const nn::Linear& layer, const Tensor& x) { return layer(x); });
  for (std::int64_t out : {3, 4, 5}) {
    const nn::Linear layer(6, out);
    const Tensor x = ones({2, 6});
    check_close(f(layer, x), layer(x));
  }
  CHECK(specialization_count(f) == 3);
  auto each = compile([](const Tensor& x) { return x * 2; }, {.dynamic = false});
  for (std::int64_t size : {3, 4, 5}) each(ones({size}));
  CHECK(specialization_count(each) == 3);
}

TEST_CASE("a training step over batches with an odd last one: two compilations") {
  const auto body = [](nn::Linear& layer, const Tensor& x, const Tensor& y) {
    auto [loss, slopes] = value_and_grad([&](const nn::Linear& l) { return nn::cross_entropy(l(x), y); }, layer);
    layer.weight = layer.weight - slopes.weight * 0.5;
    return loss;
  };
  auto step = compile(body, {.on_compile_error = OnFailure::raise});
  nn::Linear compiled(6, 4), eager = compiled;
  Generator rng(3);
  for (int epoch = 0; epoch < 3; ++epoch)
    for (std::int64_t rows : {32, 32, 13}) {
      const Tensor x = normal({rows, 6}, 0, 1, rng), y = randint({rows}, 0, 4, rng);
      check_close(step(compiled, x, y), body(eager, x, y));
      check_close(compiled.weight, eager.weight);
    }
  CHECK(specialization_count(step) == 2);
}

TEST_CASE("what fails with symbols says the sizes of the call, and what needs numbers has them") {
  auto f = compile([](const Tensor& x, const Tensor& y) { return x + y; });
  f(ones({3}), ones({3}));
  CHECK(contains(message_of([&] { f(ones({4}), ones({5})); }), "shapes do not broadcast: f32[4] x f32[5]"));
  CHECK(numbers_of(f(ones({4}), ones({4}))) == Numbers(4, 2));
}

TEST_CASE("mark_dynamic: symbolic from the first call, within its bounds") {
  auto f = compile([](const Tensor& x) { return x * x.size(0); });
  const auto marked = [](std::int64_t rows, std::int64_t least = 2, std::int64_t greatest = 100) {
    Tensor x = ones({rows, 3});
    mark_dynamic(x, 0, least, greatest);
    return x;
  };
  f(marked(8));
  CHECK(specialization_count(f) == 1);
  CHECK(numbers_of(f(ones({2, 3}))) == Numbers(6, 2));
  CHECK(numbers_of(f(marked(100))) == Numbers(300, 100));
  CHECK(specialization_count(f) == 1);
  f(ones({101, 3}));
  CHECK(specialization_count(f) == 2);
  CHECK(last_recompile_reason(f) == "argument 0: size of dimension 0 is 101, must be at most 100");
  CHECK(contains(message_of([&] { mark_dynamic(ones({4}), 0, 5, 9); }), "the size is 4, which is not in 5 to 9"));
  CHECK(contains(message_of([&] { mark_dynamic(ones({4}), 1); }), "axis 1 is out of range for 1 axis"));
  CHECK(contains(message_of([&] { mark_static(Tensor(), 0); }), "[mark_static] the tensor is undefined"));
}

TEST_CASE("marked sizes vary independently, though they are equal in the call that is compiled") {
  const auto body = [](const Tensor& x) { return sum(x) / (x.size(0) * x.size(1)); };
  auto f = compile(body);
  const Tensor square = normal_of({16, 16});
  mark_dynamic(square, 0, 2, 64), mark_dynamic(square, 1, 2, 64);
  check_close(f(square), body(square));
  for (const auto& [rows, columns] : {std::pair{16, 8}, {5, 64}, {33, 2}}) {
    const Tensor x = normal_of({rows, columns});
    check_close(f(x), body(x));
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE(
    "marked sizes that the function needs to be equal are one symbol, and a call in which they differ is another") {
  const auto body = [](const Tensor& x, const Tensor& y, const Tensor& z) {
    return std::vector{x + y, matmul(transpose(x), z)};
  };
  auto f = compile(body);
  const auto marked = [](std::int64_t rows) {
    Tensor x = normal_of({rows, 6});
    mark_dynamic(x, 0, 2, 64);
    return x;
  };
  f(marked(8), marked(8), marked(8));
  for (const std::int64_t rows : {2, 9, 64}) {
    const Tensor x = normal_of({rows, 6}), y = normal_of({rows, 6}), z = normal_of({rows, 6});
    const std::vector<Tensor> found = f(x, y, z), expected = body(x, y, z);
    for (std::size_t i = 0; i < found.size(); ++i) check_close(found[i], expected[i]);
  }
  CHECK(specialization_count(f) == 1);
  CHECK(explain(f, normal_of({7, 6}), normal_of({7, 6}), normal_of({7, 6})).graph.find("s1") == std::string::npos);
  CHECK_THROWS_AS(f(normal_of({7, 6}), normal_of({8, 6}), normal_of({7, 6})), Error);
}

TEST_CASE("a mark belongs to the result it was given to, not to the others of the same operation") {
  const auto [q, r] = linalg::qr(ones({6, 3}));
  mark_dynamic(q, 0, 2, 100);
  mark_static(r, 0);
  auto f = compile([](const Tensor& x) { return x * x.size(0); });
  f(q);
  CHECK(numbers_of(f(ones({2, 3}))) == Numbers(6, 2));
  CHECK(specialization_count(f) == 1);
  auto g = compile([](const Tensor& x) { return x * x.size(0); });
  g(r);
  g(ones({2, 3}));
  CHECK(specialization_count(g) == 2);
}

TEST_CASE("a marked size of which the function makes a number is an error with the line") {
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return exp(x) * double(std::int64_t(x.size(0))); });
  Tensor x = ones({4});
  mark_dynamic(x, -1);
  const std::string message = message_of([&] { f(x); });
  CHECK(contains(message,
                 "argument 0: size of dimension 0 is marked as dynamic, and the function makes the number 4 of it"));
  CHECK(contains(message, AT_LINE(line)));
  CHECK(numbers_of(f(ones({4})) * 0) == Numbers(4, 0));
}

namespace {
std::int64_t constant_size = 2;  // of data that a function takes from its process
}

TEST_CASE("a marked size that an operation refuses is an error; one that merely differed becomes a number") {
  const int line = __LINE__ + 2;
  auto f = compile([](const Tensor& x, const Tensor& y) {
    const Tensor offsets = constant(std::vector<float>(static_cast<std::size_t>(constant_size), 1), {y.size(0)});
    return sum(x) + offsets;
  });
  const auto marked = [](const Sizes& sizes) {
    Tensor x = ones(sizes);
    mark_dynamic(x, 0);
    return x;
  };
  const std::string message = message_of([&] { f(ones({3}), marked({2})); });
  CHECK(contains(message, "the sizes must be known"));
  CHECK(contains(message, AT_LINE(line)));
  CHECK(specialization_count(f) == 0);

  // y's size differs at the second call and x's is marked: y's alone becomes a number.
  for (const std::int64_t size : {2, 3}) {
    constant_size = size;
    CHECK(numbers_of(f(marked({3}), ones({size}))) == Numbers(static_cast<std::size_t>(size), 4));
    CHECK(numbers_of(f(marked({5}), ones({size}))) == Numbers(static_cast<std::size_t>(size), 6));
    CHECK(specialization_count(f) == static_cast<std::size_t>(size - 1));
  }
  // A shape that does not fit is said in numbers.
  auto add = compile([](const Tensor& x, const Tensor& y) { return x + y; });
  CHECK(contains(message_of([&] { add(marked({4}), ones({5})); }), "shapes do not broadcast: f32[4] x f32[5]"));
}

TEST_CASE("mark_static: each size is compiled, also under dynamic = true") {
  for (bool dynamic : {false, true}) {
    CompileOptions options;
    if (dynamic) options.dynamic = true;
    auto f = compile([](const Tensor& x) { return x + 1; }, options);
    for (std::int64_t rows : {3, 4, 5}) {
      Tensor x = ones({rows});
      mark_static(x, 0);
      CHECK(numbers_of(f(x)) == Numbers(static_cast<std::size_t>(rows), 2));
    }
    CHECK(specialization_count(f) == 3);
  }
}

TEST_CASE("the log says which size is symbolic from now on, once") {
  weft::test::CaptureLog log;
  logging::set_channels("recompiles");
  auto f = compile([](const Tensor& x, const Tensor& y) { return sum(x) + sum(y); });
  f(ones({4, 3}), ones({2}));
  f(ones({5, 3}), ones({2}));
  f(ones({6, 4}), ones({2}));
  logging::set_channels("");
  REQUIRE(log.lines.size() == 2);
  CHECK(
      log.lines[0].ends_with("argument 0: size of dimension 0 was 4, is 5; argument 0: size of dimension 0 is "
                             "symbolic from here on"));
  CHECK(
      log.lines[1].ends_with("argument 0: size of dimension 1 was 3, is 4; argument 0: size of dimension 1 is "
                             "symbolic from here on"));
}

TEST_CASE("convolutions of images of many sizes, and their gradients, are compiled twice") {
  using Three = std::array<Tensor, 3>;  // an image and two weights
  const auto body = [](const Three& it) {
    const Tensor once = relu(conv2d(it[0], it[1], {.stride = 2, .padding = 1}));
    return sum(square(conv2d(once, it[2], {.padding = 1, .dilation = 2, .groups = 2})), {1, 2, 3});
  };
  const auto gradients = [](const Three& it) {
    return grad(
        [](const Three& it) {
          const Tensor once = relu(conv2d(it[0], it[1], {.stride = 2, .padding = 1}));
          return mean(square(conv2d(once, it[2], {.padding = 1, .dilation = 2, .groups = 2})));
        },
        it);
  };
  Three it{Tensor(), normal_of({8, 3, 3, 3}), normal_of({6, 4, 3, 3})};
  auto f = compile(body);
  auto g = compile(gradients);
  for (const auto& [batch, height, width] :
       {std::array<std::int64_t, 3>{4, 20, 20}, {5, 24, 31}, {2, 9, 40}, {7, 12, 12}, {3, 33, 8}}) {
    it[0] = normal_of({batch, 3, height, width});
    check_close(f(it), body(it));
    const Three found = g(it), expected = gradients(it);
    for (std::size_t i = 0; i < 3; ++i) check_close(found[i], expected[i]);
  }
  CHECK(specialization_count(f) == 2);
  CHECK(specialization_count(g) == 2);
}
