// The generated text of kernels, C++ and CUDA, as tests/golden holds it. WEFT_UPDATE_GOLDEN=1 writes it anew: look at
// the difference before committing it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen/cpp.hpp"
#include "codegen/cuda.hpp"
#include "tests/codegen/cpp_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

void check_golden(const std::string& file, const std::string& text) {
  const std::string path = std::string(WEFT_SOURCE_DIR) + "/tests/golden/" + file;
  if (std::getenv("WEFT_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  CHECK_MESSAGE(golden.str() == text, "tests/golden/", file, " differs from what is generated:\n", text);
}
void check_golden(const KernelBuilder& builder, const std::string& name) {
  check_golden(name + ".cpp.txt", codegen::generate_cpp(builder.kernel()));
  check_golden(name + ".cu.txt", codegen::generate_cuda(builder.kernel()).text);
}

}  // namespace

TEST_CASE("golden: a pointwise chain with a slot for its size, a scalar and a constant") {
  KernelBuilder b("chain");
  b.comment("x * lr + 0.1, tanh at step.cpp:12");
  const Dim n = b.size(), i = b.lanes(b.outer(n));
  const int x = b.load(b.input(DType::f32, n), i), rate = b.load(b.input(DType::f32, 1), 0);
  const int sum = b.apply(Op::add, b.apply(Op::mul, x, rate), b.constant(DType::f32, 0.1));
  b.store(b.output(DType::f32, n), i, b.apply(Op::tanh, sum));
  b.store(b.output(DType::boolean, n), i, b.apply(Op::less, x, sum));
  check_golden(b, "chain");
}

TEST_CASE("golden: softmax over rows keeps the exponentials") {
  KernelBuilder b("softmax");
  b.comment("softmax at model.cpp:12");
  const Int rows = 64, columns = 1000;
  const Dim r = b.outer(rows), c = b.lanes(b.inner(columns)), at = r * Dim(columns) + c;
  const int v = b.load(b.input(DType::f32, rows * columns), at);
  const int e = b.apply(Op::exp, b.apply(Op::sub, v, b.reduce(Op::amax, v)));
  b.store(b.output(DType::f32, rows * columns), at, b.apply(Op::div, e, b.reduce(Op::sum, e)));
  check_golden(b, "softmax");
}

TEST_CASE("golden: softmax over rows of any length keeps the exponentials of short ones") {
  KernelBuilder b("softmax_of_any");
  b.comment("softmax at model.cpp:12");
  const Dim m = b.size(), n = b.size(), r = b.outer(m), c = b.lanes(b.inner(n)), at = r * n + c;
  const int v = b.load(b.input(DType::f32, m * n), at);
  const int e = b.apply(Op::exp, b.apply(Op::sub, v, b.reduce(Op::amax, v)));
  b.store(b.output(DType::f32, m * n), at, b.apply(Op::div, e, b.reduce(Op::sum, e)));
  check_golden(b, "softmax_of_any");
}

TEST_CASE("golden: many rows summed by column, and taken away again") {
  KernelBuilder b("center_columns");
  b.comment("x - sum(x, 0) at model.cpp:30");
  const Int rows = 1000, columns = 300;
  const Dim r = b.inner(rows), c = b.lanes(b.outer(columns)), at = r * Dim(columns) + c;
  const int v = b.load(b.input(DType::f32, rows * columns), at), sum = b.reduce(Op::sum, v);
  b.store(b.output(DType::f32, rows * columns), at, b.apply(Op::sub, v, sum));
  b.store(b.output(DType::f32, columns), c, sum);
  check_golden(b, "center_columns");
}

TEST_CASE("golden: rows of an embedding, and one element of each") {
  KernelBuilder b("embedding");
  b.comment("gather at model.cpp:44");
  const Dim r = b.outer(9), c = b.lanes(b.outer(64));
  const int index = b.load(b.input(DType::i64, 9), r), table = b.input(DType::f32, 7 * 64);
  const int place = b.load(b.input(DType::i64, 64), c);
  b.store(b.output(DType::f32, 9 * 64), r * Dim(64) + c, b.load(table, b.value(index, 7) * Dim(64) + c));
  b.store(b.output(DType::f32, 9 * 64), c * Dim(9) + r,
          b.load(table, b.value(index, 7) * Dim(64) + b.value(place, 64)));
  check_golden(b, "embedding");
}

TEST_CASE("golden: elements of two matrices, one of which lies across the lanes") {
  KernelBuilder b("add_transposed");
  b.comment("x + transpose(y) at model.cpp:51");
  const Int size = 512;
  const Dim r = b.outer(size), c = b.lanes(b.outer(size)), at = r * Dim(size) + c;
  const int x = b.load(b.input(DType::bf16, size * size), at),
            y = b.load(b.input(DType::bf16, size * size), c * Dim(size) + r);
  b.store(b.output(DType::bf16, size * size), at, b.apply(Op::add, x, y));
  check_golden(b, "add_transposed");
}
