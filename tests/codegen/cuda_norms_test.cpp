// Norms of many rows on a device: how a team of threads has a row.
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "loop/parse.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// With each WIDTH the width of a row.
std::string cuda_of(std::string kernel, std::int64_t width) {
  for (std::size_t at; (at = kernel.find("WIDTH")) != std::string::npos;) kernel.replace(at, 5, std::to_string(width));
  return codegen::generate_cuda(loop::parse_kernel(kernel)).text;
}
std::string threads(std::int64_t count) { return "__launch_bounds__(" + std::to_string(count) + ")"; }

const char* const forward =
    R"(forward(bf16 p0[sizes], bf16 p1[sizes], out bf16 p2[sizes], out f32 p3[16384], f32 p4[WIDTH], out bf16 p5[sizes])
  outer i0<16384 inner i1<WIDTH vector
  inner0 v0 bf16 = p0[WIDTH*i0 + i1]
  inner0 v1 bf16 = p1[WIDTH*i0 + i1]
  inner0 v2 bf16 = add(v0, v1)
  inner0 p2[WIDTH*i0 + i1] = v2
  inner0 v4 f32 = cast(v2)
  outer1 v5 f32 = reduce_sum(v4)
  outer1 p3[i0] = v5
  inner1 v7 f32 = sub(v4, v5)
  inner1 v8 f32 = mul(v7, v7)
  outer2 v9 f32 = reduce_sum(v8)
  inner2 v10 f32 = mul(v7, v9)
  inner0 v11 f32 = p4[i1]
  inner2 v12 f32 = mul(v10, v11)
  inner2 v13 bf16 = cast(v12)
  inner2 p5[WIDTH*i0 + i1] = v13
)";
const char* const backward =
    R"(backward(bf16 p0[sizes], bf16 p1[sizes], f32 p2[WIDTH], bf16 p3[sizes], f32 p4[16384], f32 p5[16384], out bf16 p6[sizes], out f32 p7[sums], out f32 p8[sums])
  outer i0<1024 carried i1<16 inner i2<WIDTH vector
  inner0 v0 bf16 = p0[BLOCK*i0 + WIDTH*i1 + i2]
  inner0 v1 bf16 = p1[BLOCK*i0 + WIDTH*i1 + i2]
  inner0 v2 f32 = cast(v1)
  inner0 v3 f32 = p2[i2]
  inner0 v4 f32 = mul(v2, v3)
  inner0 v5 bf16 = p3[BLOCK*i0 + WIDTH*i1 + i2]
  inner0 v6 f32 = cast(v5)
  outer0 v7 f32 = p4[16*i0 + i1]
  inner0 v8 f32 = sub(v6, v7)
  inner0 v9 f32 = mul(v4, v8)
  outer1 v10 f32 = reduce_sum(v9)
  outer1 v11 f32 = reduce_sum(v4)
  outer0 v12 f32 = p5[16*i0 + i1]
  inner1 v13 f32 = mul(v8, v10)
  inner1 v14 f32 = sub(v4, v13)
  inner1 v15 f32 = sub(v14, v11)
  inner1 v16 f32 = mul(v15, v12)
  inner1 v17 bf16 = cast(v16)
  inner1 v18 bf16 = add(v0, v17)
  inner1 p6[BLOCK*i0 + WIDTH*i1 + i2] = v18
  inner0 v20 f32 = mul(v8, v12)
  inner0 v21 f32 = mul(v2, v20)
  inner0 v22 f32 = reduce_sum_of_rows(v21)
  inner0 v23 f32 = reduce_sum_of_rows(v2)
  inner0 p7[WIDTH*i0 + i2] = v22
  inner0 p8[WIDTH*i0 + i2] = v23
)";
std::string sized(std::string kernel, std::int64_t width) {
  const auto put = [&](const std::string& name, std::int64_t number) {
    for (std::size_t at; (at = kernel.find(name)) != std::string::npos;)
      kernel.replace(at, name.size(), std::to_string(number));
  };
  put("sizes", 16384 * width);
  put("sums", 1024 * width);
  put("BLOCK", 16 * width);
  return kernel;
}

}  // namespace

TEST_CASE("CUDA: all packs that a thread has of a row are asked for before the first is used, and it keeps them") {
  const std::string text = cuda_of(sized(forward, 768), 768);
  INFO(text);
  CHECK(contains(text, threads(64)));
  CHECK(contains(text, "if (at_words<8>(x0, x1)) {"));
  CHECK(contains(text, "all1[turn].read_words(x1 + (768*i0) + begin);"));
  CHECK(contains(text, "all1[turn].read(x1 + (768*i0) + begin, n);"));  // where a buffer begins between words
  CHECK(contains(text, "const Pack<bfloat16, 8>& p0 = all0[turn];"));
  CHECK(text.find("all0[turn].read_words") < text.find("q3.set"));
  CHECK(contains(text, "kept2[turn][j] = v2;"));  // though it has been stored
  CHECK(!contains(text, "x2"));
  // One pack is asked for where it is used; more than a thread has registers for are asked for turn by turn.
  CHECK(!contains(cuda_of(sized(forward, 256), 256), "all0"));
  CHECK(!contains(cuda_of(sized(forward, 4096), 4096), "all0"));
}

TEST_CASE("CUDA: where columns are added up all threads have packs of a row, or half a warp has none") {
  for (const auto& [width, count] : {std::pair<std::int64_t, std::int64_t>{768, 96},
                                     {776, 128},
                                     {1024, 64},
                                     {1280, 160},
                                     {1600, 224},
                                     {2048, 128},
                                     {4096, 256}}) {
    const std::string text = cuda_of(sized(backward, width), width);
    INFO(text);
    CHECK(contains(text, threads(count)));
    CHECK(contains(text, "join_two<" + std::to_string(count) + ">(joins, r10, r11);"));
  }
}

TEST_CASE("CUDA: no warp of a row's threads is without a pack") {
  const std::string text = cuda_of(R"(few(bf16 p0[98304], out bf16 p1[98304])
  outer i0<128 inner i1<768 vector
  inner0 v0 bf16 = p0[768*i0 + i1]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  inner1 v3 f32 = mul(v1, v2)
  inner1 v4 bf16 = cast(v3)
  inner1 p1[768*i0 + i1] = v4
)",
                                   768);
  INFO(text);
  CHECK(contains(text, threads(96)));
}

TEST_CASE("CUDA: members of a block that join columns' sums have eight rows on their way, where all have as many") {
  const auto ends_of = [](std::int64_t rows) {
    const std::string count = std::to_string(rows);
    return codegen::generate_cuda(loop::parse_kernel("ends(f32 p0[" + std::to_string(768 * rows) +
                                                     R"(], f32 p1[768], out f32 p2[768])
  outer i0<768 vector inner i1<)" + count + R"(
  inner0 v0 f32 = p0[i0 + 768*i1]
  outer0 v1 f32 = p1[i0]
  outer1 v2 f32 = join_sum(v0)
  outer1 v3 f32 = sub(v1, v2)
  outer1 p2[i0] = v3
)"))
        .text;
  };
  const std::string walk = "for (index position = member; position < rows; position += 32) {";
  const std::string text = ends_of(1024);
  INFO(text);
  CHECK(text.find(walk) != std::string::npos);
  CHECK(text.find("#pragma unroll 8\n") < text.find(walk));
  const std::string other = ends_of(1000);  // not the same for each of 32 members
  CHECK(other.find(walk) != std::string::npos);
  CHECK(!contains(other, "#pragma unroll 8"));
}

TEST_CASE("CUDA: norms of odd numbers of warps compile" * test::needs(nvrtc)) {
  for (const char* architecture : device_generations) {
    std::vector<std::string> texts = {cuda_of(sized(forward, 768), 768)};
    CHECK_NOTHROW(runtime::cuda::compile_units(codegen::cuda_units(texts), architecture));
    for (const std::int64_t width : {768, 1280, 1600}) {
      texts = {cuda_of(sized(backward, width), width)};
      CHECK_NOTHROW(runtime::cuda::compile_units(codegen::cuda_units(texts), architecture));
    }
  }
}
