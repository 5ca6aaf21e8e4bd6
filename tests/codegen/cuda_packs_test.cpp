// How a thread of a device moves neighbours: packs of columns, tiles that are turned in registers, elements that lie a
// warp apart.
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "loop/parse.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string cuda_of(const std::string& kernel) { return codegen::generate_cuda(loop::parse_kernel(kernel)).text; }

}  // namespace

TEST_CASE("CUDA: a thread has a pack of the columns of many rows, and a column of their sums") {
  const std::string text = cuda_of(R"(sums(bf16 p0[12582912], out f32 p1[49152])
  outer i0<64 outer i1<768 vector inner i2<256
  inner0 v0 bf16 = p0[196608*i0 + 768*i2 + i1]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  outer1 p1[768*i0 + i1] = v2
)");
  INFO(text);
  CHECK(contains(text, "const index units = 192, chunks = 3, rows = 256;"));
  CHECK(contains(text, "Reduction<Sum, float> r2[8];"));
  CHECK(contains(text, "p0.read_words(x0 + (196608*i0 + 768*i2) + begin);"));
  CHECK(contains(text, "r2[j].close();"));
  CHECK(contains(text, "const float v2 = join_packs_of_columns<32, 8>(r2);"));
}

TEST_CASE("CUDA: random words of a pack are those of whole counters, where it is known that it begins at one") {
  const auto drawn = [](const std::string& axes, const std::string& index) {
    return cuda_of("drawn(i64 p0[2], out f32 p1[65536])\n  " + axes + R"(
  once 0 v0 i64 = p0[0]
  once 0 v1 i64 = p0[1]
  outer0 v2 i64 = random_bits(v0, v1; )" +
                   index + ")\n  outer0 v3 f32 = cast(v2)\n  outer0 p1[" + index + "] = v3\n");
  };
  CHECK(contains(drawn("outer i0<65536 vector", "i0"), "random_bits(v0, v1, long(begin), j)"));
  CHECK(contains(drawn("outer i0<64 outer i1<1024 vector", "1024*i0 + i1"), "random_bits(v0, v1, long(1024*i0 + i1))"));
}

TEST_CASE("CUDA: few columns, and rows that begin at no word, have a thread a column") {
  const std::string few = cuda_of(R"(few(bf16 p0[65536], out f32 p1[256])
  outer i0<256 vector inner i1<256
  inner0 v0 bf16 = p0[256*i1 + i0]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  outer1 p1[i0] = v2
)");
  CHECK(contains(few, "join_columns<32, "));
  const std::string odd = cuda_of(R"(odd(bf16 p0[12599296], out f32 p1[49152])
  outer i0<64 outer i1<768 vector inner i2<256
  inner0 v0 bf16 = p0[196864*i0 + 769*i2 + i1]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  outer1 p1[768*i0 + i1] = v2
)");
  CHECK(contains(odd, "join_columns<32, "));
}

TEST_CASE("CUDA: columns whose sums read no memory have a thread a column") {
  const std::string text = cuda_of(R"(made(out f32 p0[49152])
  outer i0<64 outer i1<768 vector inner i2<256
  inner0 v0 i64 = index 196608*i0 + 768*i2 + i1
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  outer1 p0[768*i0 + i1] = v2
)");
  INFO(text);
  CHECK(contains(text, "join_columns<32, "));
}

TEST_CASE("CUDA: rows of several runs have packs that are parts of a run") {
  const auto text_of = [](const std::string& pixels, const std::string& image, const std::string& all) {
    return cuda_of("runs(bf16 p0[" + all + "], out f32 p1[512])\n  outer i0<512 inner i1<8 inner i2<" + pixels +
                   " vector\n  inner0 v0 bf16 = p0[" + image + "*i1 + " + pixels + "*i0 + i2]\n" +
                   R"(  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_sum(v1)
  outer1 p1[i0] = v2
)");
  };
  CHECK(contains(text_of("256", "131072", "1048576"), "Pack<bfloat16, 8>"));
  CHECK(contains(text_of("196", "100352", "802816"), "Pack<bfloat16, 4>"));
  CHECK(!contains(text_of("49", "25088", "200704"), "Pack<bfloat16, "));
}

TEST_CASE("CUDA: whole tiles are turned in blocks of registers") {
  const std::string text = cuda_of(R"(turned(bf16 p0[67108864], out bf16 p1[67108864])
  outer i0<8192 outer i1<8192 vector
  outer0 v0 bf16 = p0[8192*i1 + i0]
  outer0 p1[8192*i0 + i1] = v0
)");
  INFO(text);
  CHECK(contains(text, "__shared__ Pack<bfloat16, 8> kept0[128][16];"));
  CHECK(contains(text, "kept0[pack * 8 + j][block ^ pack] = turned;"));
}

TEST_CASE("CUDA: where rows begin at no word the elements of a pack lie a warp apart") {
  const std::string text = cuda_of(R"(inner(f32 p0[1048576], out f32 p1[1047552])
  outer i0<1024 outer i1<1023 vector
  outer0 v0 f32 = p0[1024*i0 + i1 + 1]
  outer0 p1[1023*i0 + i1] = v0
)");
  INFO(text);
  CHECK(contains(text, "const index begin = (unit % chunks) / 32 * 128 + (unit % chunks) % 32;"));
  CHECK(contains(text, "const index i1 = begin + j * 32;"));
  CHECK(contains(text, "q1.write_apart(y1 + (1023*i0) + begin, n);"));
}

TEST_CASE("CUDA: short rows that begin at no word have as few threads as they have elements, or packs of full warps") {
  const auto of_row = [](int length) {
    const std::string n = std::to_string(length), more = std::to_string(length + 1);
    return cuda_of("rows(bf16 p0[1048576], out bf16 p1[1048576])\n  outer i0<1024 outer i1<" + n +
                   " vector\n  outer0 v0 bf16 = p0[" + more + "*i0 + i1 + 1]\n  outer0 p1[" + n + "*i0 + i1] = v0\n");
  };
  CHECK(contains(of_row(3), "const index units = 3072;"));  // the channels of an image, which move to the end
  CHECK(contains(of_row(101), "/ 32 * 64 +"));
}

TEST_CASE("CUDA: packs without a label are computed without asking each element") {
  const std::string text = cuda_of(R"(hot(i64 p0[1024], out f32 p1[1048576])
  outer i0<1024 outer i1<1024 vector
  outer0 v0 i64 = p0[i0]
  outer0 v1 i64 = index i1
  outer0 v2 bool = equal(v0, v1)
  outer0 v3 f32 = cast(v2)
  outer0 p1[1024*i0 + i1] = v3
)");
  INFO(text);
  CHECK(contains(text, "is_among<4>(v0, begin)"));
}
