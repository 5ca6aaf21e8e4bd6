// Graphs as DOT, to the letter.
#include "tests/ir/support.hpp"

using namespace weft;
using namespace graph_test;

TEST_CASE("dot: a node is a box, an operand an edge; quotes and backslashes of a text are escaped") {
  Recording r;
  Tensor x = r.x();
  const std::uint32_t text = intern_text("a \"quoted\" C:\\text");
  record(Op::check, {full({}, 1, {.dtype = DType::boolean})}, Message{{text}}, {}, {});
  CHECK(to_dot(r.graph({x * x})) == R"(digraph weft {
  rankdir=TB; node [shape=box, fontname=monospace];
  n0 [label="input 0\nf32[2,3]"];
  n1 [label="constant 1\nbool[]"];
  n2 [label="check \"a \\\"quoted\\\" C:\\\\text\"\nbool[]"];
  n1 -> n2;
  n3 [label="mul\nf32[2,3]"];
  n0 -> n3;
  n0 -> n3;
}
)");
}

TEST_CASE("dot: a body is a cluster, and the body of a call in it a cluster inside") {
  auto body = [](auto make) {
    Recording r;
    Tensor a = r.x(), b = r.x();
    return std::make_shared<const Graph>(r.graph({make(a, b)}));
  };
  auto inside = body([](const Tensor& a, const Tensor& b) { return a - b; });
  auto outside = body([&](const Tensor& a, const Tensor& b) { return call(inside, b, a); });
  Recording r;
  Tensor x = r.x();
  CHECK(to_dot(r.graph({call(outside, x, x)})) == R"(digraph weft {
  rankdir=TB; node [shape=box, fontname=monospace];
  n0 [label="input 0\nf32[2,3]"];
  n1 [label="call \"\"\nf32[2,3]"];
  n0 -> n1;
  n0 -> n1;
  subgraph cluster_n1 {
    n1_0 [label="input 0\nf32[2,3]"];
    n1_1 [label="input 1\nf32[2,3]"];
    n1_2 [label="call \"\"\nf32[2,3]"];
    n1_1 -> n1_2;
    n1_0 -> n1_2;
    subgraph cluster_n1_2 {
      n1_2_0 [label="input 0\nf32[2,3]"];
      n1_2_1 [label="input 1\nf32[2,3]"];
      n1_2_2 [label="sub\nf32[2,3]"];
      n1_2_0 -> n1_2_2;
      n1_2_1 -> n1_2_2;
    }
    n1_1 -> n1_2_0 [style=dashed];
    n1_0 -> n1_2_1 [style=dashed];
    n1_2_2 -> n1_2 [style=dashed];
  }
  n0 -> n1_0 [style=dashed];
  n0 -> n1_1 [style=dashed];
  n1_2 -> n1 [style=dashed];
}
)");
}
