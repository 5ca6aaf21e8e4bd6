// Norms of many rows on a device: how a team of threads has a row.
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "loop/parse.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

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
