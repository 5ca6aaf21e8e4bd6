// Attention as a provider sees it: two calls that may be taken whole, which lie in memory as their readers want it; and
// where nobody takes them, the decomposition that the host has.
#include <doctest/doctest.h>

#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/regions.hpp"
#include "providers/attention.hpp"
#include "providers/provider.hpp"
#include "schedule/schedule.hpp"
#include "tests/ir/support.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/vmap.hpp"

using namespace weft;
using namespace graph_test;

namespace {

struct Operands {
  Tensor q, k, v;
  WEFT_MEMBERS(q, k, v)
};

struct Traced : Recording {
  explicit Traced(Device device, DType dtype = DType::bf16) : device(device), dtype(dtype) {}
  Tensor input(Shape shape) {
    const Parameter slot{static_cast<std::int64_t>(trace.inputs.size())};
    return trace.inputs.emplace_back(record(Op::input, {}, slot, Type{dtype, false, device, shape}, {}));
  }
  // The gradients of attention, of [2, 4, 100, 64].
  Graph attention(bool masked = false, bool of_mask = false) {
    const Shape shape = Shape::of(2, 4, 100, 64);
    const Operands at{input(shape), input(shape), input(shape)};
    const Tensor given = input(shape), mask = masked ? input(Shape::of(2, 4, 100, 100)) : Tensor();
    const auto attend = [&](const Operands& p, const Tensor& m) {
      return nn::scaled_dot_product_attention(p.q, p.k, p.v, {.attn_mask = m, .is_causal = !masked});
    };
    std::vector<Tensor> results;
    if (of_mask) {
      results.push_back(grad([&](const Tensor& m) { return sum(attend(at, m) * given); }, mask));
    } else {
      const Operands of = grad([&](const Operands& p) { return sum(attend(p, mask) * given); }, at);
      results = {of.q, of.k, of.v};
    }
    return graph(std::move(results));
  }

  Device device;
  DType dtype;
};

bool same(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Dim x, Dim y) { return x.same(y); });
}
bool is_attention(const Node& node) {
  return node.op == Op::call && std::string_view(name_of(node)).starts_with("scaled_dot_product_attention");
}
Graph optimized(const Graph& graph, Device device, bool taken) {
  const PassContext context{device, [taken](const Node& node) { return taken && is_attention(node); }};
  return dead_code(common_subexpressions(inline_calls(graph, context), context), context);
}
std::vector<const Node*> calls_of(const Graph& graph) {
  std::vector<const Node*> all;
  for (const Tensor& value : graph.nodes)
    if (is_attention(*value.node())) all.push_back(value.node());
  return all;
}
std::string without_device(std::string text) {
  const std::string mark = "@cuda:0";
  for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark)) text.erase(at, mark.size());
  return text;
}

// All providers, and one that takes attention.
class WithAttention final : public Providers {
 public:
  struct Step final : Payload {
    explicit Step(const Candidate& candidate) : results(candidate.results.size()) {
      for (const PlacedValue& value : candidate.results) {
        strides.push_back(value.strides);
        offsets.push_back(value.offset);
        buffers.push_back(value.buffer);
      }
      for (const PlacedValue& value : candidate.operands) of_operands.push_back(value.strides);
    }
    std::string details() const override { return ""; }
    loop::Cost cost() const override { return {}; }
    std::vector<bool> writes(std::size_t buffers) const override {
      std::vector<bool> all(buffers, false);
      std::fill(all.end() - static_cast<std::ptrdiff_t>(results), all.end(), true);
      return all;
    }
    std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }
    std::size_t results;
    std::vector<std::vector<Dim>> strides, of_operands;
    std::vector<Dim> offsets;
    std::vector<int> buffers;
  };
  bool takes(const Node& node, Device device) const override {
    return is_attention(node) || providers::all().takes(node, device);
  }
  bool reads(const Node& node, Device device, const Shape& shape, Dim offset,
             std::span<const Dim> strides) const override {
    return is_attention(node) ? strides.back().same(Dim(1))
                              : providers::all().reads(node, device, shape, offset, strides);
  }
  bool writes_in_any_order(const Node& node, Device) const override { return is_attention(node); }
  Offer best(const Candidate& candidate) const override {
    if (!is_attention(candidate.node)) return providers::all().best(candidate);
    return {1, std::make_shared<Step>(candidate)};
  }
  std::shared_ptr<Payload> generated(std::vector<loop::Kernel> kernels) const override {
    return providers::all().generated(std::move(kernels));
  }
  std::size_t most_sets(const loop::Kernel& kernel, Device device) const override {
    return providers::all().most_sets(kernel, device);
  }
};

std::vector<const WithAttention::Step*> attention_steps(const Schedule& schedule) {
  std::vector<const WithAttention::Step*> steps;
  for (const Step& step : schedule.steps)
    if (const auto* own = dynamic_cast<const WithAttention::Step*>(step.payload.get())) steps.push_back(own);
  return steps;
}

}  // namespace

TEST_CASE("attention of 16-bit floats on a device is two calls that a provider may take") {
  Traced traced(Device::cuda());
  const Graph graph = optimized(traced.attention(), Device::cuda(), true);
  const std::vector<const Node*> calls = calls_of(graph);
  REQUIRE(calls.size() == 2);
  const Node &forward = *calls[0], &backward = *calls[1];
  CHECK(forward.operand_count == 3);
  CHECK(forward.output_count == 2);  // and the stats of its rows
  CHECK(forward.more_types()[0].dtype == DType::f32);
  CHECK(forward.more_types()[0].shape.same(Shape::of(2, 4, 100)));
  CHECK(backward.operand_count == 6);  // q, k, v, the output, its stats, its gradient
  CHECK(backward.output_count == 3);
  CHECK(backward.input(3).node() == &forward);
  CHECK(backward.input(4).node() == &forward);
  CHECK(backward.input(4).output() == 1);
}

TEST_CASE(
    "attention with dropout is two calls by one draw, which cuDNN and the kernels of few queries leave to our own") {
  Traced traced(Device::cuda());
  const Shape shape = Shape::of(2, 4, 8, 64);
  const Operands at{traced.input(shape), traced.input(shape), traced.input(shape)};
  const Tensor given = traced.input(shape);
  Generator generator(3);
  const Operands of = grad(
      [&](const Operands& p) {
        return sum(nn::scaled_dot_product_attention(p.q, p.k, p.v,
                                                    {.dropout_p = 0.1, .is_causal = true, .generator = &generator}) *
                   given);
      },
      at);
  const Graph graph = optimized(traced.graph({of.q, of.k, of.v}), Device::cuda(), true);
  const std::vector<const Node*> calls = calls_of(graph);
  REQUIRE(calls.size() == 2);
  const Node &forward = *calls[0], &backward = *calls[1];
  CHECK(forward.operand_count == 5);  // q, k, v, and of the draw seed and offset
  CHECK(forward.output_count == 2);
  CHECK(backward.operand_count == 8);
  for (const unsigned i : {3u, 4u}) {
    CHECK(type_of(forward.input(i)).dtype == DType::i64);
    CHECK(forward.input(i).same(backward.input(i)));
  }
  CHECK(backward.input(5).node() == &forward);
  CHECK(structure_text(graph).find("dropout 0.1") != std::string::npos);
  for (const Tensor& value : graph.nodes) CHECK(value.node()->op != Op::random_bits);
  for (const Node* call : calls) {
    const auto node = providers::attention_node(*call);
    REQUIRE(node);
    CHECK(node->dropout == 0.1);
    CHECK(node->captured == 2);
    CHECK(!providers::cudnn_attention().takes(*call, Device::cuda()));
    CHECK(!providers::split_attention().takes(*call, Device::cuda()));
  }
}

TEST_CASE(
    "attention over a cache in pages is one call, of few queries without mods and of pages that are read by 16 rows") {
  const auto calls = [](DType dtype, std::int64_t tokens, std::int64_t page_size, std::int64_t depth,
                        const nn::AttentionOptions& options = {}) {
    Traced traced(Device::cuda(), dtype);
    nn::PagedKeyValueCache cache(1, 1, 1, 1);
    cache.keys = traced.input(Shape::of(20, 2, page_size, depth));
    cache.values = traced.input(Shape::of(20, 2, page_size, depth));
    const Tensor q = traced.input(Shape::of(3, 4, tokens, depth));
    traced.dtype = DType::i32;
    const Tensor table = traced.input(Shape::of(3, 5)), positions = traced.input(Shape::of(3));
    const Tensor result = cache.attention(q, table, positions, options);
    CHECK(type_of(result).shape.same(Shape::of(3, 4, tokens, depth)));
    std::vector<const Node*> found;
    const Graph graph = traced.graph({result});
    for (const Tensor& value : graph.nodes)
      if (value.node()->op == Op::call && std::string_view(name_of(*value.node())) == "paged_attention")
        found.push_back(value.node());
    for (const Node* node : found) {
      CHECK(providers::paged_attention().takes(*node, Device::cuda()));
      CHECK(!providers::paged_attention().takes(*node, Device::cpu()));
      CHECK(!providers::cudnn_attention().takes(*node, Device::cuda()));
    }
    return found.size();
  };
  CHECK(calls(DType::bf16, 1, 16, 64) == 1);
  CHECK(calls(DType::f16, 16, 48, 256) == 1);
  CHECK(calls(DType::bf16, 17, 16, 64) == 0);
  CHECK(calls(DType::bf16, 1, 24, 64) == 0);
  CHECK(calls(DType::bf16, 1, 16, 60) == 0);
  CHECK(calls(DType::f32, 1, 16, 64) == 0);
  CHECK(calls(DType::bf16, 1, 16, 64, {.score_mod = [](auto score, auto...) { return score * 2; }}) == 0);
}

TEST_CASE("vmap of attention with dropout is its body, whose draw is of all examples") {
  Traced traced(Device::cuda());
  const Shape shape = Shape::of(3, 2, 4, 8, 64);
  const Tensor q = traced.input(shape), k = traced.input(shape), v = traced.input(shape);
  const auto attend = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return nn::scaled_dot_product_attention(a, b, c, {.dropout_p = 0.1});
  };
  CHECK_THROWS_AS(vmap(attend)(q, k, v), Error);  // says nothing of random numbers
  const Graph graph =
      optimized(traced.graph({vmap(attend, {.randomness = Randomness::different})(q, k, v)}), Device::cuda(), true);
  CHECK(calls_of(graph).empty());
  int draws = 0;
  for (const Tensor& value : graph.nodes)
    if (value.node()->op == Op::random_bits && ++draws) CHECK(value.node()->type.shape.same(Shape::of(3, 2, 4, 8, 8)));
  CHECK(draws == 1);
}

TEST_CASE("with a mask a provider may take the gradients of all but the mask") {
  Traced traced(Device::cuda());
  const Graph graph = optimized(traced.attention(true), Device::cuda(), true);
  REQUIRE(calls_of(graph).size() == 2);
  CHECK(calls_of(graph)[0]->operand_count == 4);
  CHECK(calls_of(graph)[1]->operand_count == 7);
}

TEST_CASE("the gradient of a mask reads what its body reads, neither the output nor the stats") {
  Traced traced(Device::cuda());
  const Graph graph = optimized(traced.attention(true, true), Device::cuda(), true);
  REQUIRE(calls_of(graph).size() == 1);
  CHECK(calls_of(graph)[0]->operand_count == 5);
}

TEST_CASE("attention that nobody takes is on a device what it is on the host") {
  for (const bool masked : {false, true}) {
    std::string texts[2];
    for (const Device device : {Device::cpu(), Device::cuda()}) {
      Traced traced(device);
      const Graph graph = traced.attention(masked);
      for (const Node* call : calls_of(graph)) {
        const bool is_backward = std::string_view(name_of(*call)).ends_with("_backward");
        if (device == Device::cpu()) CHECK(call->output_count == (is_backward ? 3 : 1));
      }
      texts[device == Device::cuda()] = without_device(structure_text(optimized(graph, device, false)));
    }
    CHECK(texts[0] == texts[1]);
    CHECK(texts[0].find("log(") == std::string::npos);  // the stats of nobody
  }
}

TEST_CASE("attention lies in memory as its readers want it: heads of a packed product in, [B, T, H, D] out") {
  Traced traced(Device::cuda());
  const Tensor packed = traced.input(Shape::of(2, 100, 3, 4, 64)), weight = traced.input(Shape::of(256, 256));
  const Tensor result = grad(
      [&](const Tensor& given) {
        const Tensor parts = permute(given, {2, 0, 3, 1, 4});
        const Tensor mixed = nn::scaled_dot_product_attention(select(parts, 0, 0), select(parts, 0, 1),
                                                              select(parts, 0, 2), {.is_causal = true});
        return sum(square(matmul(reshape(permute(mixed, {0, 2, 1, 3}), {200, 256}), weight)));
      },
      packed);
  const Graph graph = optimized(traced.graph({result}), Device::cuda(), true);
  const WithAttention providers;
  const Schedule schedule = make_schedule(graph, Device::cuda(), providers, {});
  const std::vector<const WithAttention::Step*> steps = attention_steps(schedule);
  INFO(to_text(schedule));
  REQUIRE(steps.size() == 2);
  const std::vector<Dim> of_parts = {76800, 64, 768, 1}, of_heads = {25600, 64, 256, 1};
  for (int i = 0; i < 3; ++i) CHECK(same(steps[0]->of_operands[static_cast<std::size_t>(i)], of_parts));
  CHECK(same(steps[0]->strides[0], of_heads));
  CHECK(same(steps[1]->of_operands[3], of_heads));
  CHECK(same(steps[1]->of_operands[5], of_heads));  // the gradient, as the product gives it
}

TEST_CASE("gradients of queries, keys and values are written where the products that read all three have them") {
  struct Parameters {
    Tensor x, weight, added;
    WEFT_MEMBERS(x, weight, added)
  };
  // Of three slices; of three matrices of heads, once they are permuted; where the keys' gradient is read elsewhere
  // too; where that of queries is a sum.
  enum class Form { plain, permuted, keys_too, twice };
  for (const Form form : {Form::plain, Form::permuted, Form::keys_too, Form::twice}) {
    CAPTURE(static_cast<int>(form));
    Traced traced(Device::cuda());
    const Shape heads_shape = Shape::of(2, 4, 100, 64);
    const Parameters at{traced.input(Shape::of(200, 256)), traced.input(Shape::of(256, 768)),
                        traced.input(heads_shape)};
    const Tensor given = traced.input(heads_shape);
    const Parameters of = grad(
        [&](const Parameters& p) {
          const Tensor packed = reshape(matmul(p.x, p.weight), {2, 100, 768});
          const Tensor parts = permute(reshape(packed, {2, 100, 3, 4, 64}), {2, 0, 3, 1, 4});
          const auto heads = [&](int i) {
            if (form == Form::permuted) return select(parts, 0, i);
            return permute(reshape(narrow(packed, -1, i * 256, 256), {2, 100, 4, 64}), {0, 2, 1, 3});
          };
          const Tensor first = heads(0), query = form == Form::twice ? relu(first) + first : first;
          return sum(given *
                     nn::scaled_dot_product_attention(query, heads(1) + p.added, heads(2), {.is_causal = true}));
        },
        at);
    std::vector<Tensor> results{of.x, of.weight};
    if (form == Form::keys_too) results.push_back(of.added);
    const Graph graph = optimized(traced.graph(std::move(results)), Device::cuda(), true);
    const WithAttention providers;
    const Schedule schedule = make_schedule(graph, Device::cuda(), providers, {});
    INFO(to_text(schedule));
    const std::vector<const WithAttention::Step*> steps = attention_steps(schedule);
    REQUIRE(steps.size() == 2);
    const WithAttention::Step& backward = *steps[1];
    const std::vector<Dim> window = {76800, 64, 768, 1};
    for (std::size_t i = 0; i < 3; ++i) {
      const bool is_window = !(i == 0 && form == Form::twice) && !(i == 1 && form == Form::keys_too);
      CHECK(same(backward.strides[i], window) == is_window);
      if (is_window) CHECK(backward.offsets[i].same(Dim(static_cast<std::int64_t>(i) * 256)));
      CHECK((backward.buffers[i] == backward.buffers[2]) == is_window);
    }
    const auto copied = static_cast<std::size_t>(std::ranges::count_if(schedule.steps, [&](const Step& step) {
      return step.buffers.back() == backward.buffers[2] && step.payload.get() != &backward;
    }));
    CHECK(copied == (form == Form::plain || form == Form::permuted ? 0 : 1));
  }
}

TEST_CASE("a gradient that is no part of a product's operand lies as its readers permute it") {
  struct Parameters {
    Tensor q, k, v;
    WEFT_MEMBERS(q, k, v)
  };
  Traced traced(Device::cuda());
  const Shape shape = Shape::of(256, 256);
  const Tensor x = traced.input(Shape::of(200, 256)), given = traced.input(Shape::of(2, 4, 100, 64));
  const Parameters at{traced.input(shape), traced.input(shape), traced.input(shape)};
  const Parameters of = grad(
      [&](const Parameters& p) {
        const auto heads = [&](const Tensor& weight) {
          return permute(reshape(matmul(x, weight), {2, 100, 4, 64}), {0, 2, 1, 3});
        };
        return sum(given * nn::scaled_dot_product_attention(heads(p.q), heads(p.k), heads(p.v), {.is_causal = true}));
      },
      at);
  const Graph graph = optimized(traced.graph({of.q, of.k, of.v}), Device::cuda(), true);
  const Schedule schedule = make_schedule(graph, Device::cuda(), WithAttention(), {});
  INFO(to_text(schedule));
  const std::vector<const WithAttention::Step*> steps = attention_steps(schedule);
  REQUIRE(steps.size() == 2);
  for (const std::vector<Dim>& strides : steps[1]->strides) CHECK(same(strides, {25600, 64, 256, 1}));
}

TEST_CASE("a call with the name of attention and other shapes is not taken whole") {
  const Device device = Device::cuda(0);
  const auto forward = [&](Shape q, Shape k, bool gqa) {
    Traced traced(device);
    const Tensor query = traced.input(q), key = traced.input(k), value = traced.input(k);
    return traced.graph({nn::scaled_dot_product_attention(query, key, value, {.enable_gqa = gqa})});
  };
  const auto offered = [](const Graph& graph) {
    int count = 0;
    for (const Tensor& value : graph.nodes)
      count += is_attention(*value.node()) && providers::attention_node(*value.node()).has_value();
    return count;
  };
  CHECK(offered(forward(Shape::of(2, 4, 100, 64), Shape::of(2, 4, 80, 64), false)) == 1);
  CHECK(offered(forward(Shape::of(2, 4, 100, 64), Shape::of(2, 2, 80, 64), true)) == 1);
  CHECK(offered(forward(Shape::of(100, 64), Shape::of(80, 64), false)) == 1);
  CHECK(offered(Traced(device).attention()) >= 1);
  Graph graph = forward(Shape::of(2, 4, 100, 64), Shape::of(2, 4, 80, 64), false);
  for (const Tensor& value : graph.nodes)
    if (value.node()->op == Op::input && value.node()->attributes<Parameter>().slot == 2)
      value.node()->type.shape[2] = 8;  // fewer values than keys
  CHECK(offered(graph) == 0);
}

TEST_CASE("attention of at most 64 tokens on Hopper is ours, and a batch or a length that is not known is not") {
  const auto is_short = [](Dim batch, Dim heads, Dim length, std::int64_t features) {
    providers::AttentionNode node;
    node.fixed.features = node.fixed.value_features = features;
    for (int i = 0; i < 3; ++i)
      node.types.push_back({DType::bf16, false, Device::cuda(), Shape::of(batch, heads, length, features)});
    return providers::is_short_attention(node);
  };
  CHECK(is_short(1, 12, 64, 64));
  CHECK(is_short(11, 12, 64, 64));
  CHECK(!is_short(12, 12, 64, 64));
  CHECK(!is_short(1, 12, 65, 64));
  CHECK(!is_short(1, 12, 64, 128));
  CHECK(!is_short(dims::symbol(0), 12, 64, 64));
  CHECK(!is_short(1, 12, dims::symbol(0), 64));
}

TEST_CASE("gradients on Hopper are of our nest where that was measured to be faster") {
  struct Case {
    std::int64_t features, batch, heads, key_heads, length;
    bool is_causal, in_order, unordered;  // the last two: whether ours is expected to be faster
  };
  const Case cases[] = {
      {64, 16, 12, 12, 1024, true, true, true},    {64, 16, 12, 12, 1024, false, true, true},
      {64, 1, 12, 12, 128, true, true, true},      {64, 1, 12, 12, 1024, false, true, false},
      {64, 1, 32, 8, 2048, true, true, false},     {128, 4, 16, 16, 4096, true, true, true},
      {128, 4, 16, 16, 4096, false, true, false},  {128, 1, 12, 12, 1024, true, true, true},
      {128, 1, 12, 12, 1024, false, false, false}, {128, 1, 32, 8, 2048, true, false, false},
      {128, 1, 2, 2, 16384, false, false, false},  {128, 16, 12, 12, 128, true, false, true},
      {128, 16, 12, 12, 128, false, false, false},
  };
  const auto is_faster = [](const Case& it, bool in_order, Dim batch) {
    providers::AttentionNode node;
    node.fixed.features = node.fixed.value_features = it.features;
    node.fixed.is_causal = it.is_causal, node.fixed.is_backward = true, node.fixed.is_deterministic = in_order;
    for (const std::int64_t heads : {it.heads, it.key_heads, it.key_heads}) {
      Shape shape = Shape::of(it.batch, heads, it.length, it.features);
      shape[0] = batch;
      node.types.push_back({DType::bf16, false, Device::cuda(), shape});
    }
    return providers::has_faster_nest(node);
  };
  for (const Case& it : cases) {
    CAPTURE(it.features);
    CAPTURE(it.is_causal);
    CAPTURE(it.heads);
    CAPTURE(it.length);
    CHECK(is_faster(it, true, it.batch) == it.in_order);
    CHECK(is_faster(it, false, it.batch) == it.unordered);
  }
  const Case few = {128, 1, 12, 12, 1024};
  CHECK(is_faster(few, true, dims::symbol(0)));  // a batch that is not known counts as large
}
