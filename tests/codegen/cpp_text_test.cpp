// From the text of the loop IR to kernels that run: each is held against plain loops.
#include <doctest/doctest.h>

#include <cmath>

#include "base/fail.hpp"
#include "codegen/cpp.hpp"
#include "loop/online.hpp"
#include "loop/parse.hpp"
#include "loop/pick.hpp"
#include "loop/product.hpp"
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

TEST_CASE("text to kernel: transposes, with what they read and write the other way") {
  std::vector<Trial> trials;
  for (const auto& [rows, columns] : {std::pair{"100", "110"}, {"64", "128"}, {"16", "33"}})
    for (const char* dtype : {"f32", "f64", "u8", "bool"}) {
      const std::string r = rows, c = columns, count = std::to_string(5 * std::stoi(r) * std::stoi(c));
      const std::string page = std::to_string(std::stoi(r) * std::stoi(c));
      const std::string across = page + "*i0 + " + r + "*i2 + i1", along = page + "*i0 + " + c + "*i1 + i2";
      const std::string type = dtype, size = "[" + count + "]";
      trials.emplace_back(loop::parse_kernel(
          "weft_turn_" + r + "_" + type + "(" + type + " p0" + size + ", " + type + " p1" + size + ", out " + type +
          " p2" + size + ", out " + type + " p3" + size + ", out " + type + " p4" + size + ")\n  outer i0<5 outer i1<" +
          r + " outer i2<" + c + " vector\n  outer0 v0 " + type + " = p0[" + across + "]\n  outer0 v1 " + type +
          " = p1[" + along + "]\n  outer0 v2 " + type + " = " + (type == "bool" ? "bitwise_or" : "maximum") +
          "(v0, v1)\n  outer0 p2[" + along + "] = v2\n  outer0 p3[" + across + "] = v2\n  outer0 p4[" + across +
          "] = v0\n"));
    }
  trials.emplace_back(
      loop::parse_kernel(R"(weft_turn_slots(f32 p0[s0*s1], out f32 p1[s0*s1]) where s0 >= 2 is 1, s1 >= 2 is 1
  outer i0<s0 outer i1<s1 vector
  outer0 v0 f32 = p0[i0 + i1*s0]
  outer0 v1 f32 = neg(v0)
  outer0 p1[i0*s1 + i1] = v1
)"),
      std::vector<Int>{45, 70});
  check_all(trials);
}

TEST_CASE("text to kernel: a transpose beside rows that a value, or a predicate, decides") {
  std::vector<Trial> trials;
  trials.emplace_back(
      loop::parse_kernel(R"(weft_turn_beside(f32 p0[3300], f32 p1[640], i64 p2[33], f32 p3[3000], out f32 p4[3300])
  outer i0<33 outer i1<100 vector
  outer0 v0 f32 = p0[i0 + 33*i1]
  outer0 v1 i64 = p2[i0]
  once 0 v2 i64 = 5
  outer0 v3 i64 = minimum(v1, v2)
  once 0 v4 i64 = 0
  outer0 v5 i64 = maximum(v3, v4) below 6
  outer0 v6 f32 = p1[100*v5 + i1]
  outer0 v7 f32 = add(v0, v6)
  outer0 v8 bool = 0 <= i0 - 3
  outer0 v9 f32 = p3[100*i0 + i1 - 300] where v8
  outer0 v10 f32 = add(v7, v9)
  outer0 p4[100*i0 + i1] = v10
)"));
  check_all(trials);
}

TEST_CASE("text to kernel: scans of rows and of columns, between what feeds them and what reads them") {
  std::vector<Trial> trials;
  const auto add = [&](const std::string& name, const std::string& rows, const std::string& columns, bool along,
                       const char* op, const char* type) {
    const std::string size = std::to_string(std::stoi(rows) * std::stoi(columns)), t = type;
    const std::string axes = along ? "outer i0<" + rows + " inner i1<" + columns + " vector"
                                   : "outer i0<" + columns + " vector inner i1<" + rows;
    const std::string at = along ? "[" + columns + "*i0 + i1]" : "[" + columns + "*i1 + i0]";
    trials.emplace_back(loop::parse_kernel(
        "weft_scan_" + name + "(" + t + " p0[" + size + "], out " + t + " p1[" + size + "], out " + t + " p2[" + size +
        "])\n  " + axes + "\n  inner0 v0 " + t + " = p0" + at + "\n  inner0 v1 " + t + " = mul(v0, v0)\n  inner0 v2 " +
        t + " = scan_" + op + "(v1)\n  inner0 v3 " + t + " = add(v2, v0)\n  inner0 v4 " + t +
        " = scan_amax(v3)\n  inner0 p1" + at + " = v3\n  inner0 p2" + at + " = v4\n"));
  };
  int number = 0;
  for (const bool along : {true, false})
    for (const auto& [rows, columns] : {std::pair{"3", "1"}, {"5", "70"}, {"70", "33"}, {"3", "3000"}, {"300", "200"}})
      ++number,
          add(std::to_string(number), rows, columns, along, number % 2 ? "sum" : "amin", number % 3 ? "f32" : "f64");
  add("of_integers", "7", "1001", true, "sum", "i64");
  add("prod", "7", "100", true, "prod", "i32");
  add("prod_of_columns", "100", "7", false, "prod", "i32");
  add("logcumsumexp", "7", "100", true, "logcumsumexp", "f32");
  add("logcumsumexp_of_columns", "100", "7", false, "logcumsumexp", "f64");
  // A row of two runs, walked twice; in the second walk the scan is computed again, or kept.
  for (const char* length : {"40", "4000"}) {
    const std::string n = length, all = std::to_string(6 * std::stoi(n)), half = std::to_string(3 * std::stoi(n));
    trials.emplace_back(loop::parse_kernel("weft_scan_shares_" + n + "(f32 p0[" + all + "], out f32 p1[" + all +
                                           "])\n  outer i0<2 inner i1<3 inner i2<" + n + R"( vector
  inner0 v0 f32 = p0[)" + half + "*i0 + i1 + 3*i2]\n" +
                                           R"(  inner0 v1 f32 = exp(v0)
  inner0 v2 f32 = scan_sum(v1)
  outer1 v3 f32 = reduce_amax(v2)
  inner1 v4 f32 = div(v2, v3)
  inner1 p1[)" + half + "*i0 + i1 + 3*i2] = v4\n"));
  }
  check_all(trials);
}

TEST_CASE("text to kernel: a packed product with what feeds its operands and what reads its sums") {
  std::vector<Trial> trials;
  const auto add = [&](const char* type, int batch, int rows, int columns, int depth, bool turned) {
    const auto n = [](int x) { return std::to_string(x); };
    const std::string t = type, left = n(batch * rows * depth), right = n(depth * columns),
                      all = n(batch * rows * columns);
    const std::string out = batch > 1 ? "outer i0<" + n(batch) + " " : "";
    const int first = batch > 1;
    const std::string i = "i" + n(first), j = "i" + n(first + 1), k = "i" + n(first + 2);
    const std::string in_left = batch > 1 ? n(rows * depth) + "*i0 + " : "",
                      in_all = batch > 1 ? n(rows * columns) + "*i0 + " : "";
    const std::string at_left = turned ? n(rows) + "*" + k + " + " + i : n(depth) + "*" + i + " + " + k;
    const std::string at_right = turned ? n(depth) + "*" + j + " + " + k : n(columns) + "*" + k + " + " + j;
    trials.emplace_back(loop::parse_kernel(
        "weft_product_" + n(static_cast<int>(trials.size())) + "(" + t + " p0[" + left + "], " + t + " p1[" + right +
        "], " + t + " p2[" + n(columns) + "], " + t + " p3[" + n(rows) + "], out " + t + " p4[" + all + "])\n  " + out +
        "outer " + i + "<" + n(rows) + " outer " + j + "<" + n(columns) + " vector inner " + k + "<" + n(depth) +
        "\n  inner0 v0 " + t + " = p0[" + in_left + at_left + "]\n  outer0 v1 " + t + " = p3[" + i + "]\n  inner0 v2 " +
        t + " = sub(v0, v1)\n  inner0 v3 " + t + " = p1[" + at_right + "]\n  inner0 v4 " + t +
        " = neg(v3)\n  outer1 v5 " + t + " = product(v2, v4)\n  outer0 v6 " + t + " = p2[" + j + "]\n  outer1 v7 " + t +
        " = add(v5, v6)\n  outer1 v8 " + t + " = maximum(v7, v1)\n  outer1 p4[" + in_all + n(columns) + "*" + i +
        " + " + j + "] = v8\n"));
  };
  for (const char* type : {"f32", "f64", "i32", "i64"}) {
    add(type, 1, 2, 3, 4, false);
    add(type, 1, 70, 200, 33, true);
  }
  add("f32", 3, 25, 128, 300, false);
  add("f32", 2, 64, 64, 64, false);
  add("f32", 1, 31, 15, 1000, true);
  check_all(trials);
}

TEST_CASE("text to kernel: a sum of products of integers is a product of panels, in the narrower dtype") {
  const std::string head = R"(weft_integers(i32 p0[1400], i32 p1[3500], out i32 p2[1000])
  outer i0<20 outer i1<50 )",
                    operands = R"(  inner0 v0 i32 = p0[70*i0 + i2]
  inner0 v1 i64 = cast(v0)
  inner0 v2 i32 = p1[i1 + 50*i2]
  inner0 v3 i64 = cast(v2)
)";
  const auto found = [](const std::string& text) {
    loop::Kernel kernel = loop::parse_kernel(text);
    loop::find_product(kernel);
    loop::verify(kernel);
    return kernel;
  };
  loop::Kernel kernel = found(head + "inner i2<70 vector\n" + operands + R"(  inner0 v4 i64 = mul(v3, v1)
  outer1 v5 i64 = reduce_sum(v4)
  outer1 v6 i32 = cast(v5)
  outer1 p2[50*i0 + i1] = v6
)");
  CHECK(loop::to_text(kernel) == head + R"(vector inner i2<70
  inner0 v0 i32 = p0[70*i0 + i2]
  inner0 v1 i32 = p1[i1 + 50*i2]
  outer1 v2 i32 = product(v0, v1)
  outer1 v3 i32 = cast(v2)
  outer1 p2[50*i0 + i1] = v3
)");
  // The sum is read as an i64 too: no narrower. Floats keep the order of their additions.
  const loop::Kernel wide = found(head + "inner i2<70 vector\n" + operands + R"(  inner0 v4 i64 = mul(v3, v1)
  outer1 v5 i64 = reduce_sum(v4)
  once 0 v6 i64 = 1000
  outer1 v7 i64 = remainder(v5, v6)
  outer1 v8 i32 = cast(v7)
  outer1 p2[50*i0 + i1] = v8
)");
  CHECK(loop::to_text(wide).find("i64 = product(v1, v3)") != std::string::npos);
  const std::string floats = R"(weft_floats(f32 p0[1400], f32 p1[3500], out f32 p2[1000])
  outer i0<20 outer i1<50 inner i2<70 vector
  inner0 v0 f32 = p0[70*i0 + i2]
  inner0 v1 f32 = p1[i1 + 50*i2]
  inner0 v2 f32 = mul(v0, v1)
  outer1 v3 f32 = reduce_sum(v2)
  outer1 p2[50*i0 + i1] = v3
)";
  CHECK(loop::to_text(found(floats)) == floats);

  std::vector<Trial> trials;
  for (loop::Kernel each : {kernel, wide}) {
    each.name += std::to_string(trials.size());
    trials.emplace_back(std::move(each));
    auto* const large = trials.back().data<std::int32_t>(0);
    for (int i = 0; i < 1400; i += 3) large[i] *= 700'000'001;
  }
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

TEST_CASE("text to kernel: online softmax, and sums that it weighs") {
  const auto rows = [](const std::string& name, const std::string& columns) {
    const std::string all = std::to_string(5 * std::stoi(columns)), at = "[" + columns + "*i0 + i1]";
    return loop::parse_kernel("weft_online_" + name + "(f32 p0[" + all + "], f32 p1[" + all + "], out f32 p2[" + all +
                              "], out f32 p3[5])\n  outer i0<5 inner i1<" + columns + " vector\n  inner0 v0 f32 = p0" +
                              at + "\n  outer1 v1 f32 = reduce_amax(v0)\n" + R"(  inner1 v2 f32 = sub(v0, v1)
  inner1 v3 f32 = exp(v2)
  outer2 v4 f32 = reduce_sum(v3)
  inner0 v5 f32 = p1)" + at + R"(
  inner1 v6 f32 = mul(v5, v3)
  outer2 v7 f32 = reduce_sum(v6)
  inner2 v8 f32 = div(v3, v4)
  outer2 v9 f32 = div(v7, v4)
  inner2 p2)" + at + " = v8\n  outer2 p3[i0] = v9\n");
  };
  loop::Kernel kernel = rows("text", "1000");
  loop::sum_online(kernel);
  loop::verify(kernel);
  CHECK(loop::to_text(kernel) == loop::to_text(loop::parse_kernel(
                                     R"(weft_online_text(f32 p0[5000], f32 p1[5000], out f32 p2[5000], out f32 p3[5])
  outer i0<5 inner i1<1000 vector
  inner0 v0 f32 = p0[1000*i0 + i1]
  outer1 v1 f32 = reduce_amax(v0)
  inner1 v2 f32 = sub(v0, v1)
  inner1 v3 f32 = exp(v2)
  outer1 v4 f32 = online_sum(v0, v1)
  inner0 v5 f32 = p1[1000*i0 + i1]
  outer1 v6 f32 = online_sum(v0, v1, v5)
  inner1 v7 f32 = div(v3, v4)
  outer1 v8 f32 = div(v6, v4)
  inner1 p2[1000*i0 + i1] = v7
  outer1 p3[i0] = v8
)")));
  // Not below the greatest of other values: they may overflow.
  kernel = loop::parse_kernel(R"(weft_of_others(f32 p0[500], f32 p1[500], out f32 p2[5])
  outer i0<5 inner i1<100 vector
  inner0 v0 f32 = p0[100*i0 + i1]
  inner0 v1 f32 = p1[100*i0 + i1]
  outer1 v2 f32 = reduce_amax(v1)
  inner1 v3 f32 = sub(v0, v2)
  inner1 v4 f32 = exp(v3)
  outer2 v5 f32 = reduce_sum(v4)
  outer2 p2[i0] = v5
)");
  const std::string before = loop::to_text(kernel);
  loop::sum_online(kernel);
  CHECK(loop::to_text(kernel) == before);
  std::vector<Trial> trials;
  for (const char* columns : {"1", "3", "16", "33", "1000", "9000", "40000"}) {
    loop::Kernel online = rows(columns, columns);
    loop::sum_online(online);
    trials.emplace_back(std::move(online));
    // Elements far below and far above the others, in both orders; a row of nothing but -inf has no softmax.
    float* const x = trials.back().data<float>(0);
    const int n = std::stoi(columns);
    x[0] = -INFINITY;
    x[n] = 100;
    x[2 * n + n - 1] = 100;
    if (n > 3) x[3 * n + 2] = -1000;
  }
  for (int i = 0; i < 3; ++i) trials.back().data<float>(0)[4 * 40000 + i] = i % 2 ? INFINITY : 3;
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
