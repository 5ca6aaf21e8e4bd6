// Calls that are run as one pass over memory: the bits of their bodies run node by node, wherever operands lie.
#include "eager/program.hpp"

#include <cstring>
#include <random>

#include "passes/regions.hpp"
#include "record/run_graph.hpp"
#include "tests/eager/check.hpp"
#include "tests/ir/support.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

using namespace weft;
using namespace weft::test;

namespace {

std::vector<std::byte> bytes_of(const Tensor& value) {
  const Tensor wide = value.dtype() == DType::f64 ? value : cast(value, DType::f32);  // exact
  std::vector<std::byte> bytes;
  auto put = [&]<class T>(T) {
    const auto data = wide.data<T>();
    bytes.resize(data.size() * sizeof(T));
    if (data.size()) std::memcpy(bytes.data(), data.begin(), bytes.size());
  };
  if (wide.dtype() == DType::f64)
    put(double());
  else
    put(float());
  return bytes;
}

// The function's primitives, one after the other.
Tensor node_by_node(const Function& f, const std::vector<Tensor>& inputs) {
  graph_test::Recording r;
  std::vector<Tensor> list;
  for (const Tensor& input : inputs) list.push_back(r.input(input.dtype(), input.shape()));
  const Tensor result = f(list);
  const Graph graph = inline_calls(r.graph({result}));
  for (const Tensor& value : graph.nodes) REQUIRE(value.node()->op != Op::call);
  return run_eagerly(graph, inputs, {}, {})[0];
}

struct Given {
  const char* name;
  Function f;
};
// Of [..., n] numbers, and weights of them.
std::vector<Given> functions(int rank) {
  std::vector<Given> list = {
      {"silu", [](auto x) { return silu(x[0]); }},
      {"gelu", [](auto x) { return gelu(x[0], Gelu::tanh); }},
      {"mse_loss", [](auto x) { return nn::mse_loss(x[0], x[1]); }},
      {"norm of all", [](auto x) { return norm(x[0]); }},
      {"mean of all", [](auto x) { return mean(x[0] * x[1]); }},
      {"var of all", [](auto x) { return var(x[0]); }},
  };
  for (int axis = 0; axis < rank; ++axis) {
    list.push_back({"softmax", [axis](auto x) { return softmax(x[0], axis); }});
    list.push_back({"log_softmax", [axis](auto x) { return log_softmax(x[0], axis); }});
    list.push_back({"logsumexp", [axis](auto x) { return logsumexp(x[0], axis); }});
    list.push_back({"var", [axis](auto x) { return var(x[0], axis, 0, true); }});
    list.push_back({"mean", [axis](auto x) { return mean(x[0], axis); }});
  }
  if (rank > 0)
    list.push_back({"layer_norm", [](auto x) {
                      const Tensor row = reshape(slice(reshape(x[1], {-1}), 0, 0, x[1].size(-1)), {x[1].size(-1)});
                      return nn::layer_norm(x[0], row, row + 1);
                    }});
  list.push_back({"searchsorted", [](auto x) {
                    const Tensor edges = cast(arange(7) - 3, x[0].dtype());
                    return x[0] + cast(searchsorted(edges, x[0]), x[0].dtype());
                  }});
  if (rank == 3 || rank == 4)
    for (const bool cubic : {false, true})
      list.push_back({"interpolate", [rank, cubic](auto x) {
                        const auto mode = rank == 3 ? nn::Interpolation::linear
                                          : cubic   ? nn::Interpolation::bicubic
                                                    : nn::Interpolation::bilinear;
                        return nn::interpolate(x[0], {.scale_factor = {2.5}, .mode = mode});
                      }});
  if (rank > 1) list.push_back({"cross_entropy", [](auto x) { return nn::cross_entropy(x[0], argmax(x[1], -1)); }});
  return list;
}

Tensor numbers_of(DType dtype, const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  return cast(normal(shape, 0, 2, generator), dtype).eval();
}

// The same numbers in other places of memory.
std::vector<Tensor> layouts(const Tensor& x) {
  std::vector<Tensor> list{x};
  const int rank = x.rank();
  if (rank > 1) {
    const Tensor turned = transpose(transpose(x, 0, rank - 1) + 0, 0, rank - 1);
    list.push_back(turned.eval());
    list.push_back(flip(turned, rank - 1).eval());  // backwards along the axis that memory walks slowest
  }
  if (rank > 0 && !(x.element_count() == Dim(0))) {
    list.push_back(slice(concat({x, x}, rank - 1), rank - 1, 0, x.size(rank - 1)).eval());
    list.push_back(expand(slice(x, 0, 0, 1), x.shape()).eval());
    list.push_back(flip(x, 0).eval());
  }
  return list;
}

}  // namespace

TEST_CASE("a call has the bits of its primitives, for each layout of its operands") {
  const Shape shapes[] = {Shape{},
                          Shape::of(1),
                          Shape::of(5),
                          Shape::of(3, 1),
                          Shape::of(1, 7),
                          Shape::of(4, 33),
                          Shape::of(16, 16),
                          Shape::of(130, 17),
                          Shape::of(2, 3, 4),
                          Shape::of(3, 1, 20),
                          Shape::of(2, 3, 5, 4)};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const Shape& shape : shapes) {
      const Tensor y = numbers_of(dtype, shape, 2);
      for (const Tensor& x : layouts(numbers_of(dtype, shape, 1)))
        for (const Given& given : functions(shape.rank())) {
          INFO(std::string(given.name), " ", to_string(type_of(x)));
          const std::vector<Tensor> inputs{x, y};
          CHECK(bytes_of(given.f(inputs)) == bytes_of(node_by_node(given.f, inputs)));
        }
    }
}

TEST_CASE("so has a gradient, and rows and columns that are longer than a chunk") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Shape& shape :
         {Shape::of(4, 33), Shape::of(70, 5000), Shape::of(300, 9), Shape::of(2, 3, 4), Shape::of(2, 2, 40, 5)})
      for (const Given& given : functions(shape.rank())) {
        INFO(std::string(given.name), " ", to_string(Type{dtype, false, {}, shape}));
        const Function slope = [&](std::span<const Tensor> x) {
          return grad(
              [&](const Tensor& v) {
                const Tensor list[] = {v, x[1]};
                return cast(sum(square(given.f(list))), DType::f32);
              },
              x[0]);
        };
        const std::vector<Tensor> inputs{numbers_of(dtype, shape, 1), numbers_of(dtype, shape, 2)};
        CHECK(bytes_of(given.f(inputs)) == bytes_of(node_by_node(given.f, inputs)));
        CHECK(bytes_of(slope(inputs)) == bytes_of(node_by_node(slope, inputs)));
      }
}

TEST_CASE("the usual composites go by rows; what reduces the rows does not, or in chunks") {
  using eager::Program;
  const auto lowered = [](const Tensor& value) {
    REQUIRE(value.node()->op == Op::call);
    return Program::lower(*value.node()->bodies()[0]) != nullptr;
  };
  const Tensor x = ones({64, 1000}), row = ones({1000}), labels = full({64}, 1, {.dtype = DType::i64});
  CHECK(lowered(softmax(x, -1)));
  CHECK(lowered(log_softmax(x, 1)));
  CHECK(lowered(nn::layer_norm(x, row, row)));
  CHECK(lowered(nn::cross_entropy(x, labels)));
  CHECK(lowered(nn::mse_loss(x, x)));
  CHECK(lowered(norm(x)));
  CHECK(lowered(silu(x)));
  CHECK(lowered(gelu(cast(x, DType::bf16))));
  CHECK(lowered(searchsorted(row, x)));
  const Tensor image = ones({1, 8, 64, 64}),
               across = nn::interpolate(image, {.size = {64, 128}, .mode = nn::Interpolation::bilinear}),
               down = nn::interpolate(image, {.size = {128, 64}, .mode = nn::Interpolation::bilinear});
  CHECK(lowered(across.node()->input(0)));
  CHECK(lowered(down.node()->input(0)));
  CHECK_FALSE(lowered(softmax(x, 0)));
  CHECK(lowered(softmax(ones({2, 50304}), 1)));
  CHECK_FALSE(lowered(softmax(ones({2, 1 << 20}), 1)));  // the row would not stay in the cache
  CHECK_FALSE(lowered(var(x)));
}
