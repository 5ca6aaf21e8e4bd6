// From the text of the loop IR to kernels that run: each is held against plain loops.
#include <doctest/doctest.h>

#include "base/fail.hpp"
#include "codegen/cpp.hpp"
#include "loop/parse.hpp"
#include "loop/pick.hpp"
#include "loop/stages.hpp"
#include "tests/codegen/cpp_support.hpp"
#include "tests/loop/texts.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr const char* rows_of_a_table = R"(weft_text_rows(i64 p0[9], f32 p1[640], out f32 p2[576])
  outer i0<9 outer i1<64 vector
  outer0 v0 i64 = p0[i0]
  once 0 v1 i64 = 9
  outer0 v2 i64 = minimum(v0, v1)
  once 0 v3 i64 = 0
  outer0 v4 i64 = maximum(v2, v3) below 10
  outer0 v5 f32 = p1[64*v4 + i1]
  outer0 p2[64*i0 + i1] = v5
)";

constexpr const char* sum_of_all = R"(weft_text_sum(f32 p0[98304], out f32 p1[1])
  inner i0<98304 vector
  inner0 v0 f32 = p0[i0]
  inner0 v1 f32 = mul(v0, v0)
  outer1 v2 f32 = reduce_sum(v1)
  once 0 v3 f32 = 1e-05
  outer1 v4 f32 = mul(v2, v3)
  outer1 p1[0] = v4
)";

}  // namespace

TEST_CASE("text to kernel: softmax, a gather, slots for sizes") {
  std::vector<Trial> trials;
  trials.emplace_back(loop::parse_kernel(softmax_text));
  trials.emplace_back(loop::parse_kernel(rows_of_a_table));
  trials.emplace_back(loop::parse_kernel(R"(weft_text_chain(f32 p0[s0], out f32 p1[s0]) where s0 >= 2 is 1
  outer i0<s0 vector
  outer0 v0 f32 = p0[i0]
  outer0 v1 f32 = tanh(v0)
  outer0 p1[i0] = v1
)"),
                      std::vector<Int>{1003});
  check_all(trials);
}

TEST_CASE("text to kernel: everything to one number, folded chunk by chunk and joined") {
  const loop::Stages stages = loop::cut_reductions(loop::parse_kernel(sum_of_all), 4096);
  REQUIRE(stages.kernels.size() == 2);
  CHECK(loop::to_text(stages.kernels[0]) == R"(weft_text_sum(f32 p0[98304], out f32 p1[24])
  outer i0<24 inner i1<4096 vector
  inner0 v0 f32 = p0[4096*i0 + i1]
  inner0 v1 f32 = mul(v0, v0)
  outer1 v2 f32 = reduce_sum(v1)
  outer1 p1[i0] = v2
)");
  CHECK(loop::to_text(stages.kernels[1]) == R"(weft_text_sum(f32 p0[24], out f32 p1[1])
  inner i0<24 vector
  inner0 v0 f32 = p0[i0]
  outer1 v1 f32 = join_sum(v0)
  once 0 v2 f32 = 1e-05
  outer1 v3 f32 = mul(v1, v2)
  outer1 p1[0] = v3
)");
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < 2; ++i) {
    loop::Kernel kernel = stages.kernels[i];
    kernel.name += "_" + std::to_string(i);
    trials.emplace_back(std::move(kernel));
  }
  check_all(trials);
}

TEST_CASE("text to kernel: a sum of one term that is not zero reads that term") {
  constexpr const char* text = R"(weft_text_pick(f32 p0[6300], i64 p1[63], out f32 p2[63], out f32 p3[63])
  outer i0<63 inner i1<100 vector
  inner0 v0 f32 = p0[100*i0 + i1]
  inner0 v1 i64 = index i1
  outer0 v2 i64 = p1[i0]
  inner0 v3 bool = equal(v1, v2)
  once 0 v4 f32 = 0
  inner0 v5 f32 = exp(v0)
  inner0 v6 f32 = where(v3, v5, v4)
  outer1 v7 f32 = reduce_sum(v6)
  outer1 v8 f32 = reduce_sum(v0)
  outer1 p2[i0] = v7
  outer1 p3[i0] = v8
)";
  loop::Kernel kernel = loop::parse_kernel(text);
  loop::pick_single_terms(kernel);
  CHECK(loop::to_text(kernel) ==
        loop::to_text(loop::parse_kernel(R"(weft_text_pick(f32 p0[6300], i64 p1[63], out f32 p2[63], out f32 p3[63])
  outer i0<63 inner i1<100 vector
  inner0 v0 f32 = p0[100*i0 + i1]
  outer0 v1 i64 = p1[i0]
  once 0 v2 f32 = 0
  once 0 v3 i64 = index 99
  outer0 v4 i64 = minimum(v1, v3)
  once 0 v5 i64 = 0
  outer0 v6 i64 = maximum(v4, v5) below 100
  outer0 v7 f32 = p0[v6 + 100*i0]
  outer0 v8 f32 = exp(v7)
  outer0 v9 bool = equal(v1, v6)
  outer0 v10 f32 = where(v9, v8, v2)
  outer0 v11 f32 = add(v10, v2)
  outer1 v12 f32 = reduce_sum(v0)
  outer0 p2[i0] = v11
  outer1 p3[i0] = v12
)")));
  loop::Kernel other = loop::parse_kernel(text);
  other.body[4].bits = 0x3ff0000000000000;  // 1 for the other terms
  const std::string before = loop::to_text(other);
  loop::pick_single_terms(other);
  CHECK(loop::to_text(other) == before);

  // The bits of the sum, also where no term is in range.
  std::vector<Trial> trials;
  for (loop::Kernel each : {loop::parse_kernel(text), kernel}) {
    each.name += std::to_string(trials.size());
    trials.emplace_back(std::move(each), std::vector<Int>{}, 130);
    trials.back().data<Int>(1)[5] = -1;
  }
  check_all(trials);
  CHECK(trials[0].buffers == trials[1].buffers);
}

TEST_CASE("text to kernel: what does not fit is an error with its place") {
  const auto message = [](const char* text) -> std::string {
    try {
      loop::parse_kernel(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message("k(f33 p0[4])\n").find("line 1, column 3: a dtype is expected") != std::string::npos);
  CHECK(message("k(f32 p0[4], out f32 p1[4])\n  outer i0<4\n  outer0 v0 f32 = p0[i1]\n")
            .find("line 3, column 24: an axis of the kernel is expected") != std::string::npos);
  CHECK(message("k(f32 p0[4])\n  outer i0<4\n  outer0 v0 f32 = tann(v0)\n").find("line 3, column 23: a primitive") !=
        std::string::npos);
}
