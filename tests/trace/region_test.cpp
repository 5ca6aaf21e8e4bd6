// Regions: repeated parts of a function are found, lowered once and compiled once, marked or not, and give the bits
// that every part gives by itself.
#include "weft/region.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/trace/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace trace_test;

namespace {

struct Block {
  nn::LayerNorm norm{16};
  nn::Linear qkv{16, 48}, out{16, 16}, up{16, 32}, down{32, 16};
  Tensor operator()(const Tensor& given) const {
    const Tensor parts = reshape(qkv(norm(given)), {given.size(0), given.size(1), 3, 2, 8});
    const auto part = [&](int i) { return transpose(select(parts, 2, i), 1, 2); };
    const Tensor mixed = matmul(softmax(matmul(part(0), transpose(part(1), -2, -1)) * 0.35, -1), part(2));
    const Tensor x = given + out(reshape(transpose(mixed, 1, 2), given.shape()));
    return x + down(gelu(up(norm(x))));
  }
  WEFT_MEMBERS(norm, qkv, out, up, down)
};
struct Residual {
  nn::Conv2d first{4, 4, 3, {.padding = 1}}, second{4, 4, 3, {.padding = 1}};
  Param scale = ones({4, 1, 1});
  Tensor operator()(const Tensor& x) const { return relu(x + second(relu(first(x) * scale))); }
  WEFT_MEMBERS(first, second, scale)
};

template <class Part>
struct Stack {
  std::vector<Part> parts;
  explicit Stack(int count = 0) : parts(static_cast<std::size_t>(count)) {}
  WEFT_MEMBERS(parts)
};

// The loss and all that a training step leaves, as text. `marks`: with region().
template <class Part>
std::string trained(Stack<Part> stack, const Tensor& x, bool marks, CompileOptions options,
                    Explanation* told = nullptr) {
  optim::SGD optimizer(stack, {.lr = 0.01, .momentum = 0.5});
  const auto step = compile(
      [](Stack<Part>& model, optim::SGD& o, const Tensor& x, bool marks) {
        auto [loss, gradients] = value_and_grad(
            [&](const Stack<Part>& given) {
              const auto one = region("one", [](const Part& part, const Tensor& y) { return part(y); });
              Tensor y = x;
              for (const Part& part : given.parts) y = marks ? one(part, y) : part(y);
              return mean(square(y));
            },
            model);
        o.update(model, gradients);
        return loss;
      },
      options);
  std::string text;
  for (int i = 0; i < 2; ++i) text += text_of(step(stack, optimizer, x, marks)) + "\n";
  for (const auto& parameter : nn::parameters(stack)) text += text_of(parameter.value) + "\n";
  if (told) *told = explain(step, stack, optimizer, x, marks);
  return text;
}

// How many functions the kernels of a compilation are.
std::size_t functions_of(const Explanation& told) {
  std::set<std::string> names;
  for (const Explanation::Kernel& kernel : told.kernels) names.insert(kernel.name);
  return names.size();
}

const CompileOptions never{.region = Region::never};

template <class Part>
void check_bits(int count, const Tensor& x) {
  default_generator() = Generator(7);
  const Stack<Part> stack(count);
  const std::string alone = trained(stack, x, false, never);
  CHECK(trained(stack, x, false, {}) == alone);
  CHECK(trained(stack, x, true, {}) == alone);
  CHECK(trained(stack, x, true, never) == alone);
}

bool any_has(const std::vector<std::string>& lines, const char* words) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return contains(line, words); });
}

Tensor nested(const Tensor& x) {
  static const auto inner = region("inner", [](const Tensor& y) { return sum(exp(y)) + y; });
  static const auto outer = region("outer", [](const Tensor& y) { return cumsum(inner(y), 0) * 2; });
  return outer(outer(x));
}

}  // namespace

TEST_CASE("regions: a transformer and residual blocks have the same bits with and without") {
  check_bits<Block>(5, normal({2, 6, 16}));
  check_bits<Residual>(5, normal({2, 4, 6, 6}));
}

TEST_CASE("regions: more blocks take no more functions, forward and backward") {
  const Tensor x = normal({2, 6, 16});
  Explanation four, nine;
  trained(Stack<Block>(4), x, false, {}, &four);
  trained(Stack<Block>(9), x, false, {}, &nine);
  CHECK(nine.kernels.size() > four.kernels.size() + 50);
  CHECK(functions_of(nine) == functions_of(four));
  CHECK(any_has(nine.regions, "found at region_test.cpp:"));
  Explanation marked;
  trained(Stack<Block>(9), x, true, {}, &marked);
  CHECK(any_has(marked.regions, "region one: 9 uses of at most "));
  const std::size_t at = marked.regions[0].find("at most ");
  CHECK(std::stoi(marked.regions[0].substr(at + 8)) > 15);  // those of the gradient too
  CHECK(functions_of(marked) <= functions_of(nine));
  CHECK(contains(to_string(marked), "---- regions ----"));
}

TEST_CASE("regions: kernels end at borders where uses would differ, and where that is cheap") {
  const auto mixed = [](const Tensor& x, const Tensor& w) {
    const auto part = region("part", [&](const Tensor& y) {
      Tensor z = y - amax(y, -1, true);
      for (int i = 0; i < 6; ++i) z = tanh(z) * y + exp(-abs(z));
      return matmul(z, w);
    });
    const Tensor second = part(softmax(part(x), -1)), third = part(second - mean(second, -1, true));
    return part(log_softmax(third, -1));
  };
  const Tensor x = normal({4, 1024});
  for (const std::int64_t columns : {1024, 8}) {  // a large product beside which a border is nothing, and a small one
    const Tensor y = slice(x, 1, 0, columns).eval(), w = normal({columns, columns}, 0, 0.03);
    const auto f = compile(mixed), alone = compile(mixed, never);
    const Explanation told = explain(f, y, w);
    CHECK(any_has(told.regions, "region part: 4 uses"));
    CHECK(any_has(told.regions, columns == 8 ? "kernels do not end at the borders" : "kernels end at the borders"));
    CHECK((told.kernels.size() > explain(alone, y, w).kernels.size()) == (columns != 8));
    CHECK(text_of(f(y, w)) == text_of(alone(y, w)));
    CHECK(!any_has(explain(alone, y, w).regions, "at the borders"));
  }
}

TEST_CASE("regions: an unrolled LSTM has the same bits with and without") {
  const Tensor x = normal({3, 7, 8}), a = normal({8, 32}), b = normal({8, 32});
  const auto unrolled = [](const Tensor& x, const Tensor& a, const Tensor& b) {
    Tensor h = zeros({3, 8}), c = h;
    const auto cell = region([&](const Tensor& y) {
      const auto gates = chunk(matmul(y, a) + matmul(h, b), 4, 1);  // h and c change between two uses
      c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
      h = sigmoid(gates[3]) * tanh(c);
      return h;
    });
    for (int t = 0; t < 7; ++t) cell(select(x, 1, t));
    return grad([&](const Tensor& b) { return sum(matmul(h, b)); }, b) + matmul(transpose(h, 0, 1), matmul(c, b));
  };
  const std::string alone = text_of(compile(unrolled, never)(x, a, b));
  CHECK(text_of(compile(unrolled)(x, a, b)) == alone);
  CHECK(any_has(explain(compile(unrolled), x, a, b).regions, "region region_test.cpp:"));
}

TEST_CASE("regions: what is captured and changes between two uses is an argument of each") {  // pytorch#191821
  const Tensor x = vector_of({1, 2, 3});
  const auto f = [](const Tensor& x) {
    Tensor scale = x;
    double number = 2;
    const auto scaled = region("scaled", [&](const Tensor& y) { return y * scale + number; });
    const Tensor first = scaled(x);
    scale = x * 10, number = 100;
    return first + 1000 * scaled(x);
  };
  CHECK(numbers_of(compile(f)(x)) == Numbers{110003, 140006, 190011});
  CHECK(numbers_of(f(x)) == Numbers{110003, 140006, 190011});
}

TEST_CASE("regions: parts that differ in a number alone, on one line, are other kernels") {
  const Tensor x = normal({4, 32});
  const auto f = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 6; ++i) y = tanh(y - sum(y, -1, true) * (0.001 + 0.01 * (i % 3))) * (1.0 + i % 2);
    for (int i = 0; i < 4; ++i) y = y + slice(y * y, 1, i, i + 1) + cumsum(exp(-abs(y)), i % 2);
    return y;
  };
  // Kernels of one structure that nothing joins: a product follows each.
  const auto apart = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 5; ++i) y = matmul(tanh(y * (1.5 + 0.25 * i)), y);
    return y;
  };
  const Tensor square = normal({32, 32}) * 0.1;
  CHECK(text_of(compile(apart)(square)) == text_of(compile(apart, never)(square)));
  CHECK(text_of(compile(f)(x)) == text_of(compile(f, never)(x)));
  CHECK(text_of(compile(f)(x)) == text_of(f(x)));
}

TEST_CASE("regions: random repeated blocks give the bits of each part by itself") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const auto f = [](const Tensor& x, const std::vector<Tensor>& weights, unsigned seed) {
      const auto block = region("block", [&](const Tensor& w, const Tensor& given) {
        std::mt19937 random(seed);  // the same operations in each use
        Tensor y = given;
        for (int i = 0; i < 6; ++i) switch (random() % 8) {
            case 0: y = y + w; break;
            case 1: y = tanh(y) * w; break;
            case 2: y = y - mean(y, -1, true); break;
            case 3: y = softmax(y, static_cast<int>(random() % 2)); break;
            case 4: y = matmul(y, transpose(w)) * 0.1; break;
            case 5: y = transpose(y) * 0.5; break;
            case 6: y = concat({slice(y, 1, 4, 8), slice(y, 1, 0, 4)}, 1); break;
            default: y = y * (1.0 + 0.5 * (random() % 3)); break;
          }
        return y;
      });
      return grad(
          [&](const Tensor& x) {
            Tensor y = x;
            for (const Tensor& w : weights) y = block(w, y);
            return sum(square(y));
          },
          x);
    };
    const Tensor x = normal({8, 8});
    std::vector<Tensor> weights;
    for (int i = 0; i < 4; ++i) weights.push_back(normal({8, 8}));
    INFO("seed ", seed);
    CHECK(text_of(compile(f)(x, weights, seed)) == text_of(compile(f, never)(x, weights, seed)));
  }
}

TEST_CASE("regions: across decisions and with symbolic sizes") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    const auto part = region("part", [&](const Tensor& y) {
      const Tensor z = tanh(matmul(y, w)) + y;
      if (sum(z) > 0) return z * 2;
      return z - 1;
    });
    Tensor y = x;
    for (int i = 0; i < 4; ++i) y = part(y);
    return y;
  };
  const Tensor w = normal({8, 8});
  const auto compiled = compile(f), alone = compile(f, never);
  for (const std::int64_t rows : {3, 5, 9, 4}) {
    const Tensor x = normal({rows, 8});
    CHECK(text_of(compiled(x, w)) == text_of(alone(x, w)));
  }
  CHECK(specialization_count(compiled) == specialization_count(alone));
}

TEST_CASE("regions: what is marked may be a member of a class, of an object or of what points to one") {
  struct Scaled {
    double factor = 3;
    Tensor times(const Tensor& x) const { return x * factor; }
  };
  const Scaled three;
  const Tensor x = ones({2});
  const auto part = region("part", &Scaled::times);
  CHECK(sum(part(three, x)).item() == 6);
  CHECK(sum(part(&three, x)).item() == 6);
  CHECK(region("factor", &Scaled::factor)(three) == 3);
  CHECK(sum(offload(&Scaled::times)(three, x)).item() == 6);
}

TEST_CASE("regions: a name is not empty, uses nest, and an exception leaves the thread as it was") {
  CHECK(contains(message_of([] { region("", [] {}); }), "[region] the name is empty"));
  const Tensor x = vector_of({1, 2});
  CHECK(text_of(compile(nested)(x)) == text_of(nested(x)));
  CHECK(any_has(explain(compile(nested), x).regions, "region inner: 2 uses"));
  const auto g = compile([](const Tensor& x) {
    const auto fails = region("fails", [](const Tensor&) -> Tensor { throw std::runtime_error("stop"); });
    try {
      fails(x);
    } catch (const std::runtime_error&) {
    }
    return exp(x) * 2;
  });
  CHECK(text_of(g(x)) == text_of(exp(x) * 2));
  CHECK(!any_has(explain(g, x).regions, "region fails"));
}
