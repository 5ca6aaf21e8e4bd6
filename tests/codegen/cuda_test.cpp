// The CUDA generator without a GPU: what it writes compiles with NVRTC for each generation of devices, where that is
// installed; the text depends on the kernel alone; indices are as wide as bounds ask. Every test of
// tests/codegen/cpp_test.cpp also goes through NVRTC with WEFT_NVRTC_CHECK=1, and through a GPU with
// WEFT_TEST_DEVICE=cuda.
#include "codegen/cuda.hpp"
#include "codegen/cuda_functions.hpp"

#include <doctest/doctest.h>

#include "base/options.hpp"
#include "loop/loads_ahead.hpp"
#include "loop/parse.hpp"
#include "loop/stages.hpp"
#include "providers/product.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/cuda/grouped_product.hpp"
#include "runtime/cuda/tensor_core_product.hpp"
#include "tests/codegen/cuda_support.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// Compiles for the host and, with NVRTC, for a GPU while it lives.
class NvrtcCheck {
 public:
  NvrtcCheck() { weft::options().nvrtc_check = true; }
  ~NvrtcCheck() { weft::options().nvrtc_check = before_; }

 private:
  bool before_ = weft::options().nvrtc_check;
};

loop::Kernel scale(Dim rows, Dim columns, const std::string& name) {
  KernelBuilder b(name);
  const Dim r = b.outer(rows), c = b.lanes(b.outer(columns)), at = r * columns + c;
  const int x = b.input(DType::f32, rows * columns), bias = b.input(DType::f32, rows),
            y = b.output(DType::f32, rows * columns);
  b.store(y, at, b.apply(Op::tanh, b.apply(Op::add, b.load(x, at), b.load(bias, r))));
  b.comment("tanh at \"model\".cpp:3 */ #include <x>");
  return b.kernel();
}

loop::Kernel row_sum(Dim rows, Dim columns, DType dtype, Op op, const std::string& name) {
  KernelBuilder b(name);
  const Dim r = b.outer(rows), c = b.lanes(b.inner(columns)), at = r * columns + c;
  const int x = b.input(dtype, rows * columns), y = b.output(op == Op::argmax ? DType::i64 : dtype, rows);
  b.store(y, r, b.reduce(op, b.load(x, at), op == Op::argmax ? c : Dim(0)));
  return b.kernel();
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

struct Net {
  Param in, out;
  Tensor operator()(const Tensor& x) const { return matmul(gelu(matmul(x, in)), out); }
  WEFT_MEMBERS(in, out)
};

}  // namespace

TEST_CASE("CUDA: packs are moved in one branch, and elements beyond the end are computed where only packs move") {
  KernelBuilder b("packs");
  const Dim s0 = dims::symbol(0), c = b.lanes(b.outer(s0));
  const int x = b.input(DType::f32, s0), y = b.input(DType::bf16, s0), z = b.output(DType::f32, s0);
  const int first = b.load(x, c), second = b.cast(DType::f32, b.load(y, c));
  b.store(z, c, b.apply(Op::add, first, second));
  const codegen::CudaKernel made = codegen::generate_cuda(b.kernel());
  const std::string& text = made.text;
  INFO(text);
  CHECK(!made.strides);
  CHECK(contains(text, "const bool words = n == 8 && at_words<8>(x0 + begin, x1 + begin, y2 + begin);"));
  CHECK(contains(text, "p0.read_words(x0 + begin);"));
  CHECK(!contains(text, "if (j >= n) continue;"));
}

TEST_CASE("CUDA: a thread's loads of a tile are on their way before the first of them is kept") {
  const codegen::CudaKernel made =
      codegen::generate_cuda(loop::parse_kernel(R"(turned(f32 p0[1048576], out f32 p1[1048576])
  outer i0<1024 outer i1<1024 vector
  outer0 v0 f32 = p0[1024*i1 + i0]
  outer0 p1[1024*i0 + i1] = v0
)"));
  INFO(made.text);
  CHECK(contains(made.text, "Pack<float, 2> read0[8];"));
  CHECK(contains(made.text, "read0[turn].read_words(x0 + (1024*i1) + begin);"));
  CHECK(made.strides);
}

TEST_CASE("CUDA: several loads of a tile are read once" * needs(nvrtc)) {
  const codegen::CudaKernel made =
      codegen::generate_cuda(loop::parse_kernel(R"(turned(bf16 p0[1048576], bf16 p1[1048576], out bf16 p2[1048576])
  outer i0<1024 outer i1<1024 vector
  outer0 v0 bf16 = p0[1024*i1 + i0]
  outer0 v1 bf16 = p1[1024*i1 + i0]
  outer0 v2 bf16 = add(v0, v1)
  outer0 p2[1024*i0 + i1] = v2
)"));
  INFO(made.text);
  CHECK(contains(made.text, "= read0[turn];"));
  CHECK(!contains(made.text, "p0.read"));
  const std::string functions[] = {made.text};
  CHECK_NOTHROW(runtime::cuda::compile_units(codegen::cuda_units(functions), "sm_90", runtime::cuda::Effort::check));
}

TEST_CASE("CUDA: what is computed of 16-bit floats is rounded where it is read; what is only stored is rounded there") {
  const std::string text =
      codegen::generate_cuda(loop::parse_kernel(R"(chain(bf16 p0[4096], out bf16 p1[4096], out bf16 p2[4096])
  outer i0<4096 vector
  once v0 bf16 = 0.1
  outer0 v1 bf16 = p0[i0]
  outer0 v2 bf16 = mul(v1, v1)
  outer0 v3 bf16 = maximum(v2, v0)
  outer0 v4 bf16 = sub(v3, v1)
  outer0 p1[i0] = v2
  outer0 p2[i0] = v4
)"))
          .text;
  INFO(text);
  CHECK(contains(text, " v0 = 0x1.9ap-4f;"));
  CHECK(contains(text, " v2 = convert<bfloat16>(v1 * v1);"));
  CHECK(contains(text, " v3 = maximum(v2, v0);"));
  CHECK(contains(text, " v4 = v3 - v1;"));
}

TEST_CASE("CUDA: a kernel over a table of buffers compiles, and each block finds its set" * needs(nvrtc)) {
  std::vector<std::string> texts;
  for (const loop::Kernel& kernel : {scale(10, 64, "flat"), row_sum(100, 8192, DType::bf16, Op::sum, "rows")})
    texts.push_back(codegen::generate_cuda(kernel, 3).text);
  CHECK(contains(texts[0], "ArgumentTable<3, 3, 1> table"));
  CHECK(!contains(texts[0], "gridDim"));
  CHECK_NOTHROW(runtime::cuda::compile_units(codegen::cuda_units(texts), "sm_90"));
}

TEST_CASE("CUDA: a kernel with a predicate stores nothing where its word is set, and its text reads back" *
          needs(nvrtc)) {
  loop::Kernel kernel = row_sum(100, 64, DType::f32, Op::sum, "predicated");
  kernel.predicate = static_cast<int>(kernel.buffers.size());
  kernel.buffers.push_back({DType::i32, false, -1, 1});
  loop::verify(kernel);
  const std::string text = loop::to_text(kernel);
  CHECK(contains(text, " unless p2\n"));
  CHECK(loop::to_text(loop::parse_kernel(text)) == text);
  const codegen::CudaKernel made = codegen::generate_cuda(kernel);
  CHECK(contains(made.text, "const bool stores = *x2 == 0;"));
  CHECK(contains(made.text, "if (stores && member == 0) store(y1"));
  const std::string functions[] = {made.text, codegen::cuda_check().text};
  CHECK(runtime::cuda::compile_units(codegen::cuda_units(functions, 1), "sm_90", runtime::cuda::Effort::check).size() ==
        1);
  kernel.buffers.back().dtype = DType::f32;
  CHECK_THROWS_AS(loop::verify(kernel), InternalError);
}

TEST_CASE("rows that a unit walks in order are read from where the row before has fetched them") {
  const loop::Stages stages =
      loop::cut_columns(loop::parse_kernel(R"(both(bf16 p0[4194304], out f32 p1[1024], out f32 p2[4096])
  outer i0<1024 inner i1<4096 vector
  inner0 v0 bf16 = p0[4096*i0 + i1]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  inner1 v3 f32 = mul(v1, v2)
  inner1 v4 f32 = reduce_sum_of_rows(v3)
  outer1 p1[i0] = v2
  inner1 p2[i1] = v4
)"),
                        32);
  const std::string text = codegen::generate_cuda(stages.kernels[0]).text;
  CHECK(contains(text, "p0 = shared0["));
  CHECK(contains(text, "].fetch(x0 + "));
  CHECK(!contains(text, "p0.read("));
}

TEST_CASE("two sums of a block are joined as one, and a sum and a greatest element are not") {
  const auto text_of = [](const std::string& second) {
    return codegen::generate_cuda(loop::parse_kernel(R"(both(f32 p0[4194304], out f32 p1[1024])
  outer i0<1024 inner i1<4096 vector
  inner0 v0 f32 = p0[4096*i0 + i1]
  outer1 v1 f32 = reduce_sum(v0)
  inner0 v2 f32 = mul(v0, v0)
  outer1 v3 f32 = )" + second + R"((v2)
  outer1 v4 f32 = add(v1, v3)
  outer1 p1[i0] = v4
)"))
        .text;
  };
  CHECK(contains(text_of("reduce_sum"), "join_two<256>(joins, r1, r3);"));
  CHECK(contains(text_of("reduce_amax"), "join_team<256>(joins, r1, r3);"));
}

TEST_CASE("what many elements are divided by has its reciprocal once, and stores round what is computed") {
  const std::string text = codegen::generate_cuda(loop::parse_kernel(R"(shares(bf16 p0[4194304], out bf16 p1[4194304])
  outer i0<1024 inner i1<4096 vector
  inner0 v0 bf16 = p0[4096*i0 + i1]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  inner1 v3 f32 = div(v1, v2)
  inner1 v4 bf16 = cast(v3)
  inner1 p1[4096*i0 + i1] = v4
)"))
                               .text;
  CHECK(contains(text, "const Divisor d2(v2);"));
  CHECK(contains(text, "v3 = v1 / d2;"));
  CHECK(contains(text, "NewPack<bfloat16, 8> q5;"));
  CHECK(contains(text, "q5.set(j, v3);"));
}

namespace {
// y[i] = the sum of x[j] w[i, j] over 2,048 of j; the rows of w begin at `first`.
loop::Kernel matrix_times_vector(std::int64_t rows, DType dtype, std::int64_t first = 0) {
  constexpr std::int64_t columns = 2048;
  KernelBuilder b("matrix_times_vector");
  const Dim r = b.outer(rows), c = b.lanes(b.inner(columns));
  const int x = b.input(DType::f32, columns), w = b.input(dtype, first + rows * columns),
            y = b.output(DType::f32, rows);
  const auto wide = [&](int value) { return dtype == DType::f32 ? value : b.cast(DType::f32, value); };
  b.store(y, r, b.reduce(Op::sum, b.apply(Op::mul, b.load(x, c), wide(b.load(w, r * columns + c + first)))));
  return b.kernel();
}
}  // namespace

TEST_CASE("a matrix times a vector asks for packs of its rows before it uses the first" * needs(nvrtc)) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const codegen::CudaKernel made = codegen::generate_cuda(matrix_times_vector(512, dtype));
    CHECK(made.threads == 128);
    CHECK(made.blocks.same(Dim(512 / 4)));  // a warp has a row
    CHECK(contains(made.text, "const bool words = begin_at_words("));
    CHECK(runtime::cuda::compile_units(codegen::cuda_units(std::span(&made.text, 1)), "sm_90").size() == 1);
  }
  // Few rows are shared out among more threads; what does not begin at a multiple of 16 bytes is read as it comes.
  CHECK(!contains(codegen::generate_cuda(matrix_times_vector(100, DType::bf16)).text, "begin_at_words"));
  CHECK(!contains(codegen::generate_cuda(matrix_times_vector(512, DType::bf16, 1)).text, "begin_at_words"));
  CHECK(!contains(codegen::generate_cuda(row_sum(512, 2048, DType::bf16, Op::sum, "sum")).text, "begin_at_words"));
}

TEST_CASE("a generated kernel waits for those in front of it before it does anything else") {
  for (const std::size_t sets : {std::size_t{1}, std::size_t{3}})
    for (const loop::Kernel& kernel : {scale(3, 5, "first"), row_sum(4, 100, DType::f32, Op::sum, "first_row")}) {
      const std::string text = codegen::generate_cuda(kernel, sets).text;
      const std::size_t body = text.find(") {\n");
      REQUIRE(body != std::string::npos);
      CHECK(text.substr(body + 4).starts_with("  after_earlier_kernels();\n"));
    }
}

TEST_CASE("rows of weights that no kernel in front writes are asked for before the kernel waits for it") {
  loop::Kernel kernel = matrix_times_vector(512, DType::bf16);
  const auto waits_first = [&] {
    const std::string text = codegen::generate_cuda(kernel).text;
    const std::size_t waits = text.find("after_earlier_kernels();"), asks = text.find("ask(first_row, ");
    REQUIRE(waits != std::string::npos);
    CHECK(text.find("after_earlier_kernels();", waits + 1) == std::string::npos);
    REQUIRE(asks != std::string::npos);
    return waits < asks;
  };
  CHECK(waits_first());
  kernel.buffers[0].steady = true;  // the vector alone: it is read after that
  CHECK(waits_first());
  kernel.buffers[1].steady = true;
  CHECK(!waits_first());
  const std::string text = loop::to_text(kernel);
  CHECK(contains(text, "steady bf16 p1["));
  CHECK(loop::to_text(loop::parse_kernel(text)) == text);
  CHECK(loop::shared_text(kernel) != loop::shared_text(matrix_times_vector(512, DType::bf16)));
}

TEST_CASE("what only the later walk over a single row reads is asked for before the first, and before the wait") {
  const auto norm_of = [](bool is_steady, bool is_one) {
    const std::string along = is_one ? "i0" : "i1", at = is_one ? "i0" : "2048*i0 + i1";
    return loop::parse_kernel(std::string("norm(bf16 p0[65536], ") + (is_steady ? "steady " : "") +
                              "bf16 p1[2048], out bf16 p2[65536])\n  " + (is_one ? "" : "outer i0<32 ") + "inner " +
                              along + "<2048 vector\n  inner0 v0 bf16 = p0[" + at + R"(]
  inner0 v1 f32 = cast(v0)
  inner0 v2 f32 = mul(v1, v1)
  outer1 v3 f32 = reduce_sum(v2)
  outer1 v4 f32 = rsqrt(v3)
  inner1 v5 f32 = mul(v1, v4)
  inner0 v6 bf16 = p1[)" + along +
                              R"(]
  inner0 v7 f32 = cast(v6)
  inner1 v8 f32 = mul(v5, v7)
  inner1 v9 bf16 = cast(v8)
  inner1 p2[)" + at + "] = v9\n");
  };
  const auto asks = [&](bool is_steady, bool is_one) -> std::string {
    const std::string text = codegen::generate_cuda(norm_of(is_steady, is_one)).text;
    const std::size_t waits = text.find("after_earlier_kernels();"), asks = text.find("later6[turn].read(x1"),
                      joins = text.find("join_team");
    REQUIRE(waits != std::string::npos);
    if (asks == std::string::npos) return "where it is used";
    CHECK(asks < joins);
    return asks < waits ? "before the wait" : "after the wait";
  };
  CHECK(asks(true, true) == "before the wait");
  CHECK(asks(false, true) == "after the wait");  // a kernel in front may write it
  CHECK(asks(true, false) == "where it is used");
  CHECK(loop::gains_by_reading_early(norm_of(false, true)));
}

TEST_CASE("indices have 32 bits where bounds prove it, and packs are as wide as 16 bytes") {
  const std::string small = codegen::generate_cuda(scale(10, 64, "small")).text;
  CHECK(contains(small, "using index = int;"));
  CHECK(contains(small, "Pack<float, 4>"));
  CHECK(contains(codegen::generate_cuda(scale(1 << 16, 1 << 16, "large")).text, "using index = long;"));
  KernelBuilder b("symbolic");
  const Dim n = b.size(), i = b.lanes(b.outer(n));
  const int x = b.input(DType::bf16, n), y = b.output(DType::bf16, n);
  b.store(y, i, b.apply(Op::neg, b.load(x, i)));
  const std::string symbolic = codegen::generate_cuda(b.kernel()).text;
  CHECK(contains(symbolic, "using index = long;"));
  loop::Kernel bounded = b.kernel();
  bounded.small = true;
  CHECK(contains(loop::to_text(bounded), ") small where s0 >= "));
  CHECK(loop::parse_kernel(loop::to_text(bounded)).small);
  CHECK(loop::shared_text(bounded) != loop::shared_text(b.kernel()));
  CHECK(contains(codegen::generate_cuda(bounded).text, "using index = int;"));
  CHECK(contains(symbolic, "Pack<bfloat16, 8>"));
}

TEST_CASE("the text depends on the kernel alone, and holds nothing of the user's but names and numbers") {
  const std::string text = codegen::generate_cuda(scale(10, 64, "same")).text;
  CHECK(text == codegen::generate_cuda(scale(10, 64, "same")).text);
  CHECK_FALSE(contains(text, "#include"));
  CHECK_FALSE(contains(text, "*/"));
  CHECK(contains(text, "model_.cpp:3"));
}

TEST_CASE("the grid has a team for each row and a thread for each pack") {
  CHECK(codegen::generate_cuda(row_sum(100, 8192, DType::f32, Op::sum, "long_rows")).blocks.same(Dim(100)));
  for (const auto& [columns, teams] : {std::pair{512, 8}, {128, 8}, {64, 16}, {16, 64}, {3, 64}}) {
    const codegen::CudaKernel rows = codegen::generate_cuda(row_sum(1000, columns, DType::f32, Op::sum, "rows"));
    CAPTURE(columns);
    CHECK(rows.threads == 256);
    CHECK(rows.blocks.same(Dim((1000 + teams - 1) / teams)));
  }
  CHECK(codegen::generate_cuda(scale(1, 4096, "flat")).blocks.same(Dim(4)));
}

TEST_CASE("NVRTC's words come with the source's place, and the next program compiles" * needs(nvrtc)) {
  const auto compile = [](const std::string& source) {
    return runtime::cuda::compile_units(std::span(&source, 1), "sm_90")[0];
  };
  std::string text;
  try {
    compile("extern \"C\" __global__ void k() { not_a_function(); }");
  } catch (const CompileError& error) {
    text = error.what();
  }
  CHECK(contains(text, "not_a_function"));
  CHECK(contains(text, "source:"));
  CHECK_FALSE(compile("extern \"C\" __global__ void k() {}").empty());
}

TEST_CASE("code that was only to be checked is not what the cache gives to run" * needs(nvrtc)) {
  const std::string source =
      "extern \"C\" __global__ void k(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = x[i] * x[i] + x[0]; }";
  const auto compiled = [&](runtime::cuda::Effort effort) {
    return runtime::cuda::compile_units(std::span(&source, 1), "sm_90", effort)[0];
  };
  const std::string checked = compiled(runtime::cuda::Effort::check), run = compiled(runtime::cuda::Effort::run);
  CHECK_FALSE(checked.empty());
  CHECK(checked == compiled(runtime::cuda::Effort::check));
  CHECK(checked != run);
}

TEST_CASE("kernels of each form and reduction compile for all devices" * needs(nvrtc)) {
  std::vector<Trial> trials;
  trials.emplace_back(scale(3, 5, "scale"));
  for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax})
    for (const DType dtype : {DType::f32, DType::f64, DType::i64})
      trials.emplace_back(row_sum(4, 100, dtype, op, std::string("row_") + info(op).name + "_" + info(dtype).name));
  check_cuda_compiles(trials);
}

TEST_CASE("traced programs compile for all devices: softmax, layer normalization, a training step" * needs(nvrtc)) {
  const NvrtcCheck check;
  const Tensor x = ones({16, 300});
  CHECK_NOTHROW(compile([](const Tensor& x) { return softmax(x * 2, -1); })(x).eval());
  CHECK_NOTHROW(compile([](const Tensor& x) {
                  const Tensor centered = x - mean(x, -1, true);
                  return centered / sqrt(mean(square(centered), -1, true) + 1e-5);
                })(x)
                    .eval());
  CHECK_NOTHROW(compile([](const Tensor& x) { return sum(x, 0) + amax(x, 0); })(x).eval());
  CHECK_NOTHROW(
      compile([](const Tensor& x, const Tensor& index) { return argmax(gather(x, index), -1); })(x, arange(5)).eval());
  auto step = compile([](Net& net, const Tensor& x, Scalar rate) {
    auto [loss, gradients] = value_and_grad([&](const Net& n) { return mean(square(n(x))); }, net);
    net.in = net.in.tensor() - gradients.in.tensor() * rate;
    net.out = net.out.tensor() - gradients.out.tensor() * rate;
    return loss;
  });
  Net net{ones({300, 40}), ones({40, 3})};
  CHECK_NOTHROW(step(net, x, Scalar(0.1)).eval());
}

namespace {
// a b, both with gaps between their elements, over two batch axes of which the first repeats b.
loop::Kernel strided_product(test::Traced& t, DType dtype, Dim m, Dim n, Dim k, bool repeated = false) {
  const Type a{dtype, false, {}, Shape::of(2, 3, m, k)}, b{dtype, false, {}, Shape::of(2, 3, k, n)},
      c{dtype, false, {}, Shape::of(2, 3, m, n)};
  const auto placed = [](const Type& type, int buffer, std::vector<Dim> strides) {
    return PlacedValue{type, buffer, buffer == 2 ? 0 : 1, std::move(strides)};
  };
  const Tensor product = matmul(t.input(dtype, a.shape), t.input(dtype, b.shape));
  const Dim column = m * Dim(3);
  const Candidate candidate{*product.node(),
                            Device::cuda(),
                            {placed(a, 0, {k * column * Dim(3), k * column, repeated ? 0 : 2, column}),
                             placed(b, 1, {0, n * k * Dim(4), n * Dim(4), repeated ? 0 : 3})},
                            {placed(c, 2, {n * m * Dim(3), n * m, n, 1})}};
  struct Own final : providers::Product {
    using Product::Product;
    std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }
  };
  loop::Kernel kernel = Own(candidate).as_kernel();
  kernel.name = std::string("weft_own_product_") + info(dtype).name;
  for (const Dim size : {m, n, k}) kernel.name += "_" + (size.is_constant() ? std::to_string(size.constant()) : "s");
  // No buffer is shorter than what is read of it.
  if (repeated) kernel.name += "_repeated";
  kernel.buffers[0].elements = Dim(6) * k * column + Dim(2), kernel.buffers[1].elements = Dim(12) * n * k + Dim(8);
  return kernel;
}
}  // namespace

namespace {
// Scans between what feeds them and what reads them: of rows and of columns, of each combination.
template <int axis>
std::vector<Tensor> scanned(const Tensor& x) {
  const auto greatest = cummax(x * 2, axis);
  return {cumsum(exp(x), axis) + 1, cumprod(x, axis),      greatest.values,     greatest.indices,
          cummin(x, axis).values,   logcumsumexp(x, axis), cumsum(x > 0, axis), cumsum(x, axis) / sum(x, axis, true)};
}
}  // namespace

TEST_CASE("scans of rows and columns compile for all devices, and run right on the host" * needs(nvrtc)) {
  const NvrtcCheck check;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const std::int64_t length : {3, 33, 1000, 40000}) {
      const Tensor x = cast(reshape(sin(arange(2 * length, {DType::f32})), {2, length}), dtype);
      const std::vector<Tensor> rows = compile(scanned<1>)(x), expected = scanned<1>(x);
      const std::vector<Tensor> columns = compile(scanned<0>)(transpose(x));
      for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
        CAPTURE(i);
        CHECK(allclose(rows[i], expected[i], {.rtol = 1e-4, .atol = 1e-4}).item<bool>());
        CHECK(allclose(transpose(columns[i]), expected[i], {.rtol = 1e-4, .atol = 1e-4}).item<bool>());
      }
    }
  CompileOptions symbolic{.dynamic = true};
  CHECK_NOTHROW(compile(scanned<1>, symbolic)(ones({5, 7}))[0].eval());
  CHECK_NOTHROW(compile(scanned<0>, symbolic)(ones({5, 7}))[0].eval());
}

namespace {
std::vector<Trial> own_products() {
  test::Traced t;
  std::vector<Trial> trials;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto& [m, n, k] : {std::tuple{70, 130, 20},
                                  {64, 64, 16},
                                  {3, 5, 0},
                                  {1, 40, 33},
                                  {40, 1, 33},
                                  {1, 1, 9},
                                  {7, 5, 1},
                                  {1, 5, 1},
                                  {0, 5, 3},
                                  {5, 0, 3}})
      trials.emplace_back(strided_product(t, dtype, m, n, k));
  trials.emplace_back(strided_product(t, DType::f32, 6, 5, 4, true));
  return trials;
}
std::vector<Trial> own_symbolic_products() {
  test::Traced t;
  std::vector<Trial> trials;
  for (const DType dtype : {DType::f32, DType::f64}) {
    loop::Kernel kernel = strided_product(t, dtype, t.symbol(5), t.symbol(6), t.symbol(7));
    const std::vector<std::int64_t> symbols{5, 6, 7, 5, 6, 7};
    std::vector<std::int64_t> sizes;
    for (const Dim slot : kernel.parameters) sizes.push_back(dims::evaluate(slot, symbols));
    for (loop::Buffer& buffer : kernel.buffers) buffer.elements = dims::evaluate(buffer.elements, symbols);
    trials.emplace_back(std::move(kernel), std::move(sizes));
  }
  return trials;
}
}  // namespace

TEST_CASE("our own product takes any strides, sizes and floats: the same kernel on the host is right") {
  std::vector<Trial> trials = own_products();
  check_all(trials);
}

TEST_CASE("our own product of symbolic sizes is right on the host") {
  std::vector<Trial> trials = own_symbolic_products();
  check_all(trials);
}

TEST_CASE("our own product of any strides, floats and symbolic sizes compiles for all devices" * needs(nvrtc)) {
  test::Traced t;
  std::vector<Trial> trials = own_products();
  for (const DType dtype : {DType::f16, DType::bf16}) trials.emplace_back(strided_product(t, dtype, 70, 130, 20));
  check_cuda_compiles(trials);
  check_cuda_compiles(own_symbolic_products());
}

TEST_CASE("programs have about as much to compile each, and their number is no matter of the machine") {
  CHECK(codegen::cuda_unit_count(0) == 0);
  CHECK(codegen::cuda_unit_count(11) == 11);
  CHECK(codegen::cuda_unit_count(96) == 16);
  CHECK(codegen::cuda_unit_count(97) == 32);
  const std::vector<std::string> functions = {std::string(10, 'a'), std::string(60, 'b'), std::string(40, 'c'),
                                              std::string(50, 'd'), std::string(20, 'e'), "update_rows<"};
  const std::vector<std::size_t> order = codegen::order_for_units(functions, 2);
  CHECK(order == std::vector<std::size_t>{5, 1, 2, 3, 4, 0});  // 5, 2, 4 and 1, 3, 0
}

TEST_CASE("the product on tensor cores has the shared memory that a launch gives it" * needs(nvrtc)) {
  const std::vector<std::string> functions = {
      codegen::cuda_product({.b_by_rows = true, .has_bias = true}).text +
      "static_assert(sizeof(product::Shared) + 1023 <= " + std::to_string(runtime::cuda::product_shared) + ");\n"};
  CHECK(!runtime::cuda::compile_units(codegen::cuda_units(functions), "sm_90a", runtime::cuda::Effort::check).empty());
}

TEST_CASE("products over groups of rows have the shared memory that a launch gives them" * needs(nvrtc)) {
  using codegen::GroupsKernel;
  const std::vector<std::string> functions = {
      codegen::cuda_groups(DType::bf16, GroupsKernel::rows).text +
      "static_assert(sizeof(product::GroupsShared) + 1023 <= " + std::to_string(runtime::cuda::grouped_shared) +
      " && product::most_groups == " + std::to_string(runtime::cuda::most_groups) + ");\n"};
  CHECK(!runtime::cuda::compile_units(codegen::cuda_units(functions), "sm_90a", runtime::cuda::Effort::check).empty());
}
