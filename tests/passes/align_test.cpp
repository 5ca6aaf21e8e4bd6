// Sizes of products as fast kernels want them: what becomes of a product, and the plan of a GPT-2 whose vocabulary is
// odd, which multiplies even sizes alone, and whose padding no kernel copies.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "examples/models/gpt2.hpp"
#include "passes/align.hpp"
#include "pipeline.hpp"
#include "providers/product.hpp"
#include "providers/provider.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/grad.hpp"

using namespace weft;
using test::Traced;

namespace {

Graph aligned(const Graph& graph) {
  PassContext context;
  context.size_multiple = [](const Node&) { return std::int64_t{8}; };
  Graph result = align_products(graph, context);
  verify(result);
  return result;
}
std::vector<const Node*> products_of(const Graph& graph) {
  std::vector<const Node*> all;
  for (const Tensor& value : graph.nodes)
    if (value.node()->op == Op::matmul) all.push_back(value.node());
  return all;
}
bool is_even(const Node& product, std::int64_t multiple) {
  const Shape &a = type_of(product.input(0)).shape, &result = product.type.shape;
  const Dim n = result[result.rank() - 1], k = a[a.rank() - 1];
  return n.constant() % multiple == 0 && k.constant() % multiple == 0;
}

}  // namespace

TEST_CASE("a large product of odd sizes is part of a product of even ones, whose operands end in zeros") {
  Traced t;
  const Tensor a = t.f32(1000, 1001), b = t.f32(1001, 1003), c = t.f32(1003, 1001), d = t.f32(1001, 1004);
  const auto text = [&](const Tensor& product) {
    const Graph before = t.graph({product}), after = aligned(before);
    CHECK(after.outputs[0].node()->type.shape.same(type_of(product).shape));
    std::string kept;
    for (const Tensor& value : after.nodes)
      if (value.node()->op != Op::input)
        kept += std::string(info(value.node()->op).name) + to_string(type_of(value).shape) + " ";
    return kept;
  };
  // Along k both operands are read; along n the right one is, or the result is written.
  CHECK(text(matmul(a, b)) ==
        "constant[1000,7] concat[1000,1008] constant[7,1003] concat[1008,1003] constant[1008,5] concat[1008,1008] "
        "matmul[1000,1008] slice[1000,1003] ");
  // A transposed operand is padded below its transposition.
  CHECK(text(matmul(a, transpose(c))) ==
        "constant[1000,7] concat[1000,1008] constant[1003,7] concat[1003,1008] constant[5,1008] concat[1008,1008] "
        "permute[1008,1008] matmul[1000,1008] slice[1000,1003] ");
  // Of one that is read along m, k is a number of rows.
  CHECK(text(matmul(transpose(d), b)) ==
        "constant[1001,4] concat[1001,1008] permute[1008,1001] constant[1001,5] concat[1001,1008] matmul[1008,1008] "
        "slice[1004,1008] slice[1004,1003] ");
}

TEST_CASE("a small product stays as it is") {
  Traced t;
  const Graph graph = t.graph({matmul(t.f32(65, 33), t.f32(33, 31))});
  CHECK(structure_text(aligned(graph)) == structure_text(graph));
}

namespace {

template <class T>
void bind(Traced& t, T& object) {
  detail::LeafList list;
  detail::flatten(object, list);
  for (const detail::Leaf& leaf : list.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined())
      leaf.tensor() = t.input(Device::cuda(), type_of(leaf.tensor()).shape, type_of(leaf.tensor()).dtype);
}

}  // namespace

TEST_CASE("the head of a GPT-2 of 50257 tokens multiplies 50264, and its padding is written in place") {
  models::Gpt2 model({.layers = 1, .dropout = 0});
  Traced t;
  bind(t, model);
  const Tensor x = t.input(Device::cuda(), Shape::of(8, 1024), DType::i64);
  const Tensor y = t.input(Device::cuda(), Shape::of(8, 1024), DType::i64);
  const Autocast low(DType::bf16);
  auto [loss, gradients] = value_and_grad(
      [&](models::Gpt2& m) {
        const Tensor logits = m(x);
        return nn::cross_entropy(reshape(logits, {-1, logits.size(-1)}), flatten(y));
      },
      model);
  std::vector<Tensor> outputs{loss};
  for (const auto& one : nn::parameters(gradients)) outputs.push_back(one.value);
  const Graph graph = optimize(t.graph(outputs), {});
  int padded = 0;
  for (const Node* product : products_of(graph)) {
    CHECK(is_even(*product, 8));
    const Shape& a = type_of(product->input(0)).shape;
    for (const Shape& shape : {product->type.shape, a})
      for (const Dim size : shape) padded += size.same(Dim(50264));
  }
  CHECK(padded == 3);  // columns of the logits; depth of the gradient of what is multiplied; rows of the table's
  const Schedule schedule = make_schedule(graph, Device::cuda(), providers::all());
  // Of as many elements as the logits: they are written by a product, and read and overwritten by the loss alone.
  constexpr std::int64_t logits = 8192 * std::int64_t{50257};
  int written = 0;
  for (const Step& step : schedule.steps) {
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t i = 0; i < writes.size(); ++i)
      written += writes[i] && step.payload->kernel() &&
                 schedule.buffers[static_cast<std::size_t>(step.buffers[i])].elements.constant() >= logits;
  }
  CHECK(written == 2);  // the gradient, and zeros beside it
}
