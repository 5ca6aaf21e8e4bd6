// The tables of rewrites: for each row a graph that it changes, from text to text. A row without one, which may never
// fit, fails.
#include <algorithm>

#include "ir/parse.hpp"
#include "passes/algebra.hpp"
#include "passes/decompose.hpp"
#include "passes/orient.hpp"
#include "tests/ir/support.hpp"

using namespace weft;
using namespace graph_test;

namespace {

struct Example {
  std::string row, before, after;
};

const std::string inputs = "%0 f32[2,3] = input(0)\n%1 f32[2,3] = input(1)\n";
const std::string integer = "%0 i32[4] = input(0)\n", predicate = "%0 bool[4] = input(0)\n";

// What the row finds to be the first of the inputs itself.
Example to_x(const std::string& row, const std::string& of, const std::string& lines,
             const std::string& last = "return %0\n") {
  return {row, of + lines, of + last};
}

// Somebody does f32 products, nobody those of other dtypes: of f64 they are not computed in f32 for that.
const PassContext context{.provided = [](const Node& node) { return node.type.dtype == DType::f32; }};

struct Table {
  std::string name;
  const RewriteTable& rewrites;
  std::vector<Example> examples;
};

const std::vector<Table>& tables() {
  static const std::vector<Table> all = {
      {"algebra",
       algebra,
       {
           to_x("add(x, -0) -> x", inputs, "%2 f32[2,3] = constant(-0)\n%3 f32[2,3] = add(%0, %2)\nreturn %3\n"),
           to_x("add(x, -0) -> x", inputs, "%2 f32[2,3] = constant(-0)\n%3 f32[2,3] = add(%2, %0)\nreturn %3\n"),
           to_x("add(x, 0) -> x", integer, "%1 i32[4] = constant(0)\n%2 i32[4] = add(%0, %1)\nreturn %2\n"),
           {"add(x, neg(y)) -> sub(x, y)", inputs + "%2 f32[2,3] = neg(%1)\n%3 f32[2,3] = add(%0, %2)\nreturn %3\n",
            inputs + "%2 f32[2,3] = sub(%0, %1)\nreturn %2\n"},
           {"add(x, neg(y)) -> sub(x, y)", inputs + "%2 f32[2,3] = neg(%1)\n%3 f32[2,3] = add(%2, %0)\nreturn %3\n",
            inputs + "%2 f32[2,3] = sub(%0, %1)\nreturn %2\n"},
           to_x("sub(x, 0) -> x", inputs, "%2 f32[2,3] = constant(0)\n%3 f32[2,3] = sub(%0, %2)\nreturn %3\n"),
           {"sub(x, neg(y)) -> add(x, y)", inputs + "%2 f32[2,3] = neg(%1)\n%3 f32[2,3] = sub(%0, %2)\nreturn %3\n",
            inputs + "%2 f32[2,3] = add(%0, %1)\nreturn %2\n"},
           to_x("mul(x, 1) -> x", inputs, "%2 f32[2,3] = constant(1)\n%3 f32[2,3] = mul(%2, %0)\nreturn %3\n"),
           {"mul(x, -1) -> neg(x)", inputs + "%2 f32[2,3] = constant(-1)\n%3 f32[2,3] = mul(%2, %1)\nreturn %3\n",
            inputs + "%2 f32[2,3] = neg(%1)\nreturn %2\n"},
           to_x("div(x, 1) -> x", inputs, "%2 f32[2,3] = constant(1)\n%3 f32[2,3] = div(%0, %2)\nreturn %3\n"),
           {"div(x, c) -> mul(x, 1 / c)", inputs + "%2 f32[2,3] = constant(-8)\n%3 f32[2,3] = div(%0, %2)\nreturn %3\n",
            inputs + "%2 f32[2,3] = constant(-0.125)\n%3 f32[2,3] = mul(%0, %2)\nreturn %3\n"},
           to_x("neg(neg(x)) -> x", inputs, "%2 f32[2,3] = neg(%0)\n%3 f32[2,3] = neg(%2)\nreturn %3\n"),
           to_x("pow(x, 1) -> x", inputs, "%2 f32[2,3] = constant(1)\n%3 f32[2,3] = pow(%0, %2)\nreturn %3\n"),
           {"pow(x, 2) -> mul(x, x)", inputs + "%2 f32[2,3] = constant(2)\n%3 f32[2,3] = pow(%0, %2)\nreturn %3\n",
            inputs + "%2 f32[2,3] = mul(%0, %0)\nreturn %2\n"},
           to_x("where(x, y, y) -> y", inputs,
                "%2 bool[2,3] = less(%0, %1)\n%3 f32[2,3] = where(%2, %0, %0)\nreturn %3\n"),
           to_x("where(1, x, y) -> x", inputs,
                "%2 bool[2,3] = constant(1)\n%3 f32[2,3] = where(%2, %0, %1)\nreturn %3\n"),
           to_x("where(0, x, y) -> y", inputs,
                "%2 bool[2,3] = constant(0)\n%3 f32[2,3] = where(%2, %1, %0)\nreturn %3\n"),
           to_x("bitwise_not(bitwise_not(x)) -> x", predicate,
                "%1 bool[4] = bitwise_not(%0)\n%2 bool[4] = bitwise_not(%1)\nreturn %2\n"),
           to_x("cast(x) -> x", inputs, "%2 f32[2,3] = cast(%0)\nreturn %2\n"),
           {"cast(cast(x)) -> cast(x)", integer + "%1 f64[4] = cast(%0)\n%2 f32[4] = cast(%1)\nreturn %2\n",
            integer + "%1 f32[4] = cast(%0)\nreturn %1\n"},
           to_x("reshape(x) -> x", inputs, "%2 f32[2,3] = reshape(%0)\nreturn %2\n"),
           {"reshape(reshape(x)) -> reshape(x)",
            integer + "%1 i32[2,2] = reshape(%0)\n%2 i32[1,4] = reshape(%1)\nreturn %2\n",
            integer + "%1 i32[1,4] = reshape(%0)\nreturn %1\n"},
           to_x("expand(x) -> x", inputs, "%2 f32[2,3] = expand(%0)\nreturn %2\n"),
           {"expand(expand(x)) -> expand(x)",
            integer + "%1 i32[2,4] = expand(%0)\n%2 i32[3,2,4] = expand(%1)\nreturn %2\n",
            integer + "%1 i32[3,2,4] = expand(%0)\nreturn %1\n"},
           to_x("permute(x) -> x", inputs, "%2 f32[2,3] = permute(%0; axes [0,1])\nreturn %2\n"),
           {"permute(permute(x)) -> permute(x)",
            "%0 f32[1,2,3] = input(0)\n%1 f32[2,3,1] = permute(%0; axes [1,2,0])\n"
            "%2 f32[3,2,1] = permute(%1; axes [1,0,2])\nreturn %2\n",
            "%0 f32[1,2,3] = input(0)\n%1 f32[3,2,1] = permute(%0; axes [2,1,0])\nreturn %1\n"},
           {"gather(permute(x), y) -> permute(gather(x, y))",
            "%0 f32[4,2,3] = input(0)\n%1 i64[5] = input(1)\n%2 f32[4,3,2] = permute(%0; axes [0,2,1])\n"
            "%3 f32[5,3,2] = gather(%2, %1)\nreturn %3\n",
            "%0 f32[4,2,3] = input(0)\n%1 i64[5] = input(1)\n%2 f32[5,2,3] = gather(%0, %1)\n"
            "%3 f32[5,3,2] = permute(%2; axes [0,2,1])\nreturn %3\n"},
           to_x("slice(x) -> x", inputs, "%2 f32[2,3] = slice(%0; axis 1)\nreturn %2\n"),
           to_x("pad(x) -> x", inputs, "%2 f32[2,3] = pad(%0; axis 1)\nreturn %2\n"),
           to_x("variable(x) -> x", inputs, "%2 f32[2,3] = variable(%0)\nreturn %2\n"),
           to_x("stop_gradient(x) -> x", inputs, "%2 f32[2,3] = stop_gradient(%0)\nreturn %2\n"),
       }},
      {"orientation",
       orientation,
       {{"permute(matmul(a, b)) -> matmul(permute(b), permute(a))",
         "%0 f32[2,3] = input(0)\n%1 f32[3,4] = input(1)\n%2 f32[2,4] = matmul(%0, %1)\n"
         "%3 f32[4,2] = permute(%2; axes [1,0])\nreturn %3\n",
         "%0 f32[2,3] = input(0)\n%1 f32[3,4] = input(1)\n%2 f32[3,2] = permute(%0; axes [1,0])\n"
         "%3 f32[4,3] = permute(%1; axes [1,0])\n%4 f32[4,2] = matmul(%3, %2)\nreturn %4\n"}}},
      {"products",
       products,
       {{"matmul(a, b) -> cast(matmul(cast(a), cast(b)))",
         "%0 bf16[2,3] = input(0)\n%1 bf16[3,4] = input(1)\n%2 bf16[2,4] = matmul(%0, %1)\nreturn %2\n",
         "%0 bf16[2,3] = input(0)\n%1 bf16[3,4] = input(1)\n%2 f32[2,3] = cast(%0)\n%3 f32[3,4] = cast(%1)\n"
         "%4 f32[2,4] = matmul(%2, %3)\n%5 bf16[2,4] = cast(%4)\nreturn %5\n"},
        {"matmul(a, b) -> sum(mul(a, b))",
         "%0 i64[2,3] = input(0)\n%1 i64[3,4] = input(1)\n%2 i64[2,4] = matmul(%0, %1)\nreturn %2\n",
         "%0 i64[2,3] = input(0)\n%1 i64[3,4] = input(1)\n%2 i64[4,3] = permute(%1; axes [1,0])\n"
         "%3 i64[2,1,3] = reshape(%0)\n%4 i64[2,4,3] = expand(%3)\n%5 i64[1,4,3] = reshape(%2)\n"
         "%6 i64[2,4,3] = expand(%5)\n%7 i64[2,4,3] = mul(%4, %6)\n%8 i64[2,4,1] = sum(%7; axes [2])\n"
         "%9 i64[2,4] = reshape(%8)\nreturn %9\n"},
        {"matmul(a, b) -> sum(mul(a, b))",
         "%0 f64[2,3] = input(0)\n%1 f64[3,4] = input(1)\n%2 f64[2,4] = matmul(%0, %1)\nreturn %2\n",
         "%0 f64[2,3] = input(0)\n%1 f64[3,4] = input(1)\n%2 f64[4,3] = permute(%1; axes [1,0])\n"
         "%3 f64[2,1,3] = reshape(%0)\n%4 f64[2,4,3] = expand(%3)\n%5 f64[1,4,3] = reshape(%2)\n"
         "%6 f64[2,4,3] = expand(%5)\n%7 f64[2,4,3] = mul(%4, %6)\n%8 f64[2,4,1] = sum(%7; axes [2])\n"
         "%9 f64[2,4] = reshape(%8)\nreturn %9\n"}}},
      {"orders",
       orders,
       {{"argsort(x) -> slice(argsort(x))",
         "%0 f32[2,5] = input(0)\n%1 i64[2,2] = argsort(%0; descending true, first 1, count 2)\nreturn %1\n",
         "%0 f32[2,5] = input(0)\n%1 i64[2,5] = argsort(%0; descending true)\n"
         "%2 i64[2,2] = slice(%1; axis 1, start 1)\nreturn %2\n"}}},
      {"wide_scatters",
       wide_scatters,
       {{"scatter_add(a, b) -> cast(scatter_add(a, cast(b)))",
         "%0 i64[6] = input(0)\n%1 f16[6] = input(1)\n%2 f16[4] = scatter_add(%0, %1)\nreturn %2\n",
         "%0 i64[6] = input(0)\n%1 f16[6] = input(1)\n%2 f32[6] = cast(%1)\n%3 f32[4] = scatter_add(%0, %2)\n"
         "%4 f16[4] = cast(%3)\nreturn %4\n"}}},
      {"group_of_one",
       group_of_one,
       {to_x("all_reduce_start(x) -> x", inputs,
             "%2 f32[2,3] = all_reduce_start(%0; group \"data\")\n"
             "%3 f32[2,3] = all_reduce_wait(%2; group \"data\")\nreturn %3\n"),
        to_x("all_reduce_wait(x) -> x", inputs,
             "%2 f32[2,3] = all_reduce_start(%0; group \"data\")\n"
             "%3 f32[2,3] = all_reduce_wait(%2; group \"data\")\nreturn %3\n"),
        to_x("broadcast(x) -> x", inputs, "%2 f32[2,3] = broadcast(%0; group \"data\")\nreturn %2\n"),
        to_x("reduce_to_root(x) -> x", inputs, "%2 f32[2,3] = reduce_to_root(%0; group \"data\")\nreturn %2\n"),
        to_x("all_gather(x) -> x", inputs, "%2 f32[2,3] = all_gather(%0; group \"data\")\nreturn %2\n"),
        to_x("reduce_scatter(x) -> x", inputs, "%2 f32[2,3] = reduce_scatter(%0; group \"data\")\nreturn %2\n")}},
  };
  return all;
}

using Names = std::vector<std::string>;

Names fired_by(const Table& table, const Example& example) {
  Names fired;
  PassContext told = context;
  told.rewritten = [&](const Rewrite& row) { fired.push_back(to_text(row)); };
  const Graph before = parse_graph(example.before);
  CHECK(to_text(before) == example.before);
  verify(before);
  const Graph after = rewrite(before, table.rewrites, told);
  verify(after);
  CHECK(to_text(after) == example.after);
  return fired;
}

}  // namespace

TEST_CASE("each row of each table has an example that it changes") {
  for (const Table& table : tables()) {
    INFO(table.name);
    Names seen;
    for (const Example& example : table.examples) {
      INFO(example.row, "\n", example.before);
      const Names fired = fired_by(table, example);
      CHECK(std::ranges::find(fired, example.row) != fired.end());
      seen.push_back(example.row);
    }
    for (const Rewrite& row : table.rewrites.rows()) {
      INFO(to_text(row));
      CHECK(std::ranges::find(seen, to_text(row)) != seen.end());
    }
  }
}
