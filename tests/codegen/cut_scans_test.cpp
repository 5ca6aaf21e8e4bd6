// Scans that are cut, of rows and of columns: stage by stage on the host against plain loops, and what a device's
// kernels are.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "codegen/cuda.hpp"
#include "loop/parse.hpp"
#include "loop/scan_parts.hpp"
#include "loop/stages.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cpp_support.hpp"
#include "tests/codegen/cuda_support.hpp"
#include "tests/codegen/stages.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr Int rows = 3;

std::string with(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

// Buffers: rows; their running sums; the first position of the greatest element so far; the sum of the sums; sums less
// the last one, reversed. A reduction of a scan, a scan of a scan, and what is stored after both.
loop::Kernel sums_and_more(Int length, bool columns) {
  std::string text = R"(weft_scans(f32 p0[ALL], out f32 p1[ALL], out i64 p2[ALL], out f32 p3[3], out f32 p4[ALL])
  AXES
  inner0 v0 f32 = p0[AT]
  inner0 v1 f32 = scan_sum(v0)
  inner0 p1[AT] = v1
  inner0 v3 f32 = scan_amax(v0)
  inner0 v4 bool = equal(v0, v3)
  inner0 v5 i64 = index i1
  once 0 v6 i64 = 0
  inner0 v7 i64 = where(v4, v5, v6)
  inner0 v8 i64 = scan_amax(v7)
  inner0 p2[AT] = v8
  outer1 v10 f32 = reduce_sum(v1)
  outer1 p3[i0] = v10
  inner1 v12 f32 = sub(v1, v10)
  inner1 p4[BACK] = v12
)";
  const std::string n = std::to_string(length), all = std::to_string(rows * length);
  text = with(text, "ALL", all);
  text = with(text, "AXES", columns ? "outer i0<3 vector inner i1<" + n : "outer i0<3 inner i1<" + n + " vector");
  text = with(text, "AT", columns ? "i0 + 3*i1" : n + "*i0 + i1");
  text = with(text, "BACK", columns ? "i0 + 3*i1" : n + "*i0 + -1*i1 + " + std::to_string(length - 1));
  loop::Kernel kernel = loop::parse_kernel(text);
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b) kernel.buffers[b].value = static_cast<std::int32_t>(b);
  return kernel;
}

// Equal elements in several chunks, a NaN in the second row, -inf first in the third.
std::vector<float> sample_rows(Int length, bool columns) {
  std::vector<float> x(static_cast<std::size_t>(rows * length));
  const auto at = [&](Int row, Int i) -> float& {
    return x[static_cast<std::size_t>(columns ? i * rows + row : row * length + i)];
  };
  for (Int row = 0; row < rows; ++row)
    for (Int i = 0; i < length; ++i) at(row, i) = static_cast<float>(std::sin(0.37 * static_cast<double>(i + row)) * 5);
  at(0, length / 3) = at(0, length / 2) = at(0, length - 1) = 6;
  at(1, length / 2) = std::numeric_limits<float>::quiet_NaN();
  at(2, 0) = -std::numeric_limits<float>::infinity();
  return x;
}

bool is_near(float value, double expected, double within) {
  if (!std::isfinite(expected)) return std::isnan(expected) ? std::isnan(value) : value == static_cast<float>(expected);
  return std::abs(value - expected) <= within;
}

void check_on_host(const loop::Stages& stages, Int length, bool columns, const std::string& name) {
  const std::vector<float> x = sample_rows(length, columns);
  StageMemory memory = run_stages(stages, name, x);
  const auto* sums = reinterpret_cast<const float*>(memory[1].data());
  const auto* places = reinterpret_cast<const Int*>(memory[2].data());
  const auto* totals = reinterpret_cast<const float*>(memory[3].data());
  const auto* rest = reinterpret_cast<const float*>(memory[4].data());
  for (Int row = 0; row < rows; ++row) {
    CAPTURE(row);
    double sum = 0, total = 0;
    Int place = 0, wrong_sums = 0, wrong_places = 0, wrong_rest = 0;
    float greatest = -std::numeric_limits<float>::infinity();
    const auto at = [&](Int i) { return columns ? i * rows + row : row * length + i; };
    for (Int i = 0; i < length; ++i) {
      const float each = x[static_cast<std::size_t>(at(i))];
      sum += each;
      total += static_cast<double>(static_cast<float>(sum));
      wrong_sums += !is_near(sums[at(i)], sum, 1e-5);
      if (each >= greatest) place = i;
      if (std::isnan(each) || std::isnan(greatest))
        greatest = std::numeric_limits<float>::quiet_NaN();
      else if (each > greatest)
        greatest = each;
      wrong_places += places[at(i)] != place;
    }
    CHECK(wrong_sums == 0);
    CHECK(wrong_places == 0);
    CHECK(is_near(totals[row], total, 1e-6 * static_cast<double>(length) * 5));
    for (Int i = 0; i < length; ++i)
      wrong_rest +=
          !is_near(rest[columns ? at(i) : at(length - 1 - i)], static_cast<double>(sums[at(i)] - totals[row]), 1e-3);
    CHECK(wrong_rest == 0);
  }
}

std::string texts(const loop::Stages& stages) {
  std::string all;
  for (const loop::Kernel& kernel : stages.kernels) all += loop::to_text(kernel);
  return all;
}

// One scan of an operation, and its results read backwards.
loop::Kernel scan_of(const char* dtype, const char* op, Int length) {
  const std::string n = std::to_string(length);
  std::string text = R"(weft_one(DTYPE p0[N], out DTYPE p1[N])
  inner i0<N vector
  inner0 v0 DTYPE = p0[-1*i0 + LAST]
  inner0 v1 DTYPE = scan_OP(v0)
  inner0 p1[-1*i0 + LAST] = v1
)";
  text = with(with(with(with(text, "DTYPE", dtype), "OP", op), "LAST", std::to_string(length - 1)), "N", n);
  return loop::parse_kernel(text);
}

}  // namespace

TEST_CASE("rows that are scanned in chunks: sums, positions of the greatest, and what reads both") {
  for (const Int length : {Int{5000}, Int{5120}, Int{641}, Int{640}}) {
    const loop::Stages stages = loop::cut_reductions(sums_and_more(length, false), 640);
    INFO(texts(stages));
    check_on_host(stages, length, false, "rows_" + std::to_string(length));
  }
}

TEST_CASE("columns that are scanned in chunks: those of several chunks lie on the lanes") {
  for (const Int length : {Int{500}, Int{512}, Int{33}}) {
    const loop::Stages stages = loop::cut_reductions(sums_and_more(length, true), 32);
    INFO(texts(stages));
    check_on_host(stages, length, true, "columns_" + std::to_string(length));
  }
}

TEST_CASE("a scan that is cut is three kernels, a fourth where its last chunk is shorter; totals of f32 are f64") {
  loop::Kernel kernel = scan_of("f32", "sum", 10240);
  const loop::Stages even = loop::cut_reductions(kernel, 1024);
  CHECK(even.kernels.size() == 3);
  REQUIRE(even.partials.size() == 2);
  CHECK(even.partials[0].dtype == DType::f64);
  CHECK(even.partials[0].elements.same(Dim(10)));
  CHECK(loop::cut_reductions(kernel, 1000).kernels.size() == 4);
  CHECK(loop::cut_reductions(scan_of("f32", "amax", 10240), 1024).partials[0].dtype == DType::f32);
  CHECK(loop::cut_reductions(scan_of("i64", "prod", 10240), 1024).partials[0].dtype == DType::i64);
  // What a chunk starts from is read once for it, not at each of its elements.
  for (const loop::Instruction& it : even.kernels.back().body)
    if (it.kind == loop::Kind::scan)
      CHECK(even.kernels.back().body[static_cast<std::size_t>(it.args[1])].level == loop::Level::outer);
}

TEST_CASE("a scan from a row's end moves packs, in reverse") {
  const loop::Stages stages = loop::cut_reductions(scan_of("f32", "sum", 1 << 22), 4096);
  const std::string fold = codegen::generate_cuda(stages.kernels.front()).text;
  const std::string last = codegen::generate_cuda(stages.kernels.back()).text;
  INFO(fold << last);
  CHECK(fold.find(".read_backwards(") != fold.npos);
  CHECK(last.find(".read_backwards(") != last.npos);
  CHECK(last.find(".write_backwards(") != last.npos);
  CHECK(last.find("__launch_bounds__(256)") != last.npos);
}

TEST_CASE("scans that are cut compile for all devices" * needs(nvrtc)) {
  std::vector<Trial> trials = trials_of(loop::cut_reductions(sums_and_more(5000, false), 640), "rows");
  const auto more = [&](const loop::Stages& stages, const std::string& name) {
    for (Trial& each : trials_of(stages, name)) trials.push_back(std::move(each));
  };
  more(loop::cut_reductions(sums_and_more(500, true), 32), "columns");
  for (const char* op : {"sum", "prod", "amax", "amin", "logcumsumexp"})
    for (const char* dtype : {"f32", "f64", "i64"}) {
      if (std::string_view(op) == "logcumsumexp" && std::string_view(dtype) == "i64") continue;
      more(loop::cut_reductions(scan_of(dtype, op, 40960), 2048), std::string(op) + "_" + dtype);
    }
  check_cuda_compiles(trials);
}
