// Kernels as texts of the loop IR, for tests of their loops and of the code that is generated from them.
#pragma once

namespace weft::test {

inline constexpr const char* softmax_text = R"(weft_text_softmax(f32 p0[64000], out f32 p1[64000])
  outer i0<64 inner i1<1000 vector
  inner0 v0 f32 = p0[1000*i0 + i1]
  outer1 v1 f32 = reduce_amax(v0)
  inner1 v2 f32 = sub(v0, v1)
  inner1 v3 f32 = exp(v2)
  outer2 v4 f32 = reduce_sum(v3)
  inner2 v5 f32 = div(v3, v4)
  inner2 p1[1000*i0 + i1] = v5
)";

}  // namespace weft::test
