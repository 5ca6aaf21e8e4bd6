// Kernels that the runtime launches while the one in front of them still runs (begin_launch of
// runtime/cuda/device_function.hpp) wait for it before they read or write memory: a text that forgets to is a race.
// Held in the PTX that NVRTC makes of each, without a GPU. Generated kernels are in cuda_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "codegen/cuda.hpp"
#include "codegen/cuda_attention.hpp"
#include "codegen/cuda_attention_functions.hpp"
#include "codegen/cuda_functions.hpp"
#include "loop/parse.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

struct Waiting {
  codegen::CudaFunction function;
  bool reads_early = false;  // memory that no kernel in front writes: a kernel of few rows, its first weights
};

std::vector<Waiting> all_that_wait() {
  std::vector<Waiting> all;
  const auto name = [](const Waiting& each) { return each.function.name; };
  for (const bool checked : {false, true}) all.push_back({codegen::cuda_update_slice(DType::bf16, checked)});
  for (const bool has_copy_engine : {false, true})
    for (const bool is_gated : {false, true})
      all.push_back(
          {codegen::cuda_few_rows({.stages = 2, .has_copy_engine = has_copy_engine, .is_gated = is_gated}), true});
  for (const std::optional<DType> mask : {std::optional<DType>(), std::optional(DType::bf16)})
    for (const auto& made : codegen::cuda_split_attention({.features = 64, .value_features = 64, .mask = mask}))
      if (std::ranges::find(all, made.name, name) == all.end()) all.push_back({made});
  all.push_back({codegen::cuda_split_attention({.features = 64, .value_features = 64, .is_paged = true})[0]});
  all.push_back({codegen::cuda_depthwise({})});
  all.push_back({codegen::cuda_cluster_product({}), true});
  const auto functions = codegen::cuda_attention_functions({}, true, false, {});
  REQUIRE(functions);
  for (const bool on_hopper : {false, true})
    all.push_back({codegen::cuda_attention({.features = 64,
                                            .value_features = 64,
                                            .changes_scores = functions->changes_scores,
                                            .on_hopper = on_hopper,
                                            .functions = functions->text})
                       .front()});
  // The three of a call with a mask: the tiles, their lists, and the one that visits them.
  for (const bool on_hopper : {false, true})
    for (const auto& made :
         codegen::cuda_attention({.features = 64,
         .value_features = 64,
         .masks = true,
         .on_hopper = on_hopper,
         .functions = "struct Captured {\n  static constexpr bool changes_scores = false, masks = true, is_causal = "
                      "false;\n  static constexpr int mask_reads = -1, draws_together = 0;\n  long none;\n};\n"
                      "WEFT_DEVICE bool weft_sees(int, int, int q, int k, const Captured&) { return q >= k; }\n"}))
      all.push_back({made});
  const loop::Kernel scaled = loop::parse_kernel(R"(weft_scaled(f32 p0[4096], out f32 p1[4096])
  outer i0<4096 vector
  outer0 v0 f32 = p0[i0]
  outer0 v1 f32 = mul(v0, v0)
  outer0 p1[i0] = v1
)");
  all.push_back({{scaled.name, codegen::generate_cuda(scaled).text}});
  return all;
}

// Of a kernel's PTX the body.
std::string body_of(const std::string& ptx, const std::string& name) {
  const std::size_t entry = ptx.find(".entry " + name + "(");
  REQUIRE(entry != std::string::npos);
  const std::size_t begin = ptx.find("\n{", entry), end = ptx.find("\n}", begin);
  REQUIRE(end != std::string::npos);
  return ptx.substr(begin, end - begin);
}

constexpr const char* wait = "griddepcontrol.wait;";

// The first instruction before the wait that reads or writes memory which kernels share. Empty where there is none.
std::string access_before_wait(const std::string& body) {
  std::istringstream lines(body.substr(0, body.find(wait)));
  std::set<std::string> arguments;  // registers with the address of an argument
  for (std::string line; std::getline(lines, line);) {
    std::ranges::replace_if(
        line, [](char c) { return c == '\t' || c == ',' || c == '[' || c == ']' || c == '+'; }, ' ');
    std::istringstream words(line);
    std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    if (!all.empty() && all[0].starts_with("@")) all.erase(all.begin());
    if (all.empty()) continue;
    const std::string& name = all[0];
    const auto is_argument = [&](const std::string& word) { return arguments.contains(word); };
    // Its own address, and that of a part of it.
    if (name.starts_with("cvta.param") || (name.starts_with("add.") && is_argument(all[2]) && all[3][0] != '%'))
      arguments.insert(all[1]);
    const auto is_access = [&](const char* start) { return name.starts_with(start); };
    const auto is_own = [&](const char* space) { return name.substr(2).starts_with(space); };
    if (std::ranges::none_of(std::initializer_list<const char*>{"ld.", "st.", "atom.", "red.", "cp."}, is_access))
      continue;
    if (std::ranges::any_of(std::initializer_list<const char*>{".param", ".shared", ".local", ".const"}, is_own))
      continue;
    if (!name.starts_with("ld.") || std::ranges::none_of(all, is_argument)) return line;
  }
  return {};
}

}  // namespace

TEST_CASE("kernels that are launched while the one in front still runs wait for it first" * needs(nvrtc)) {
  const std::vector<Waiting> all = all_that_wait();
  std::vector<std::string> texts;
  for (const Waiting& each : all) texts.push_back(each.function.text);
  const std::string ptx = runtime::cuda::compile_units(codegen::cuda_units(texts, 1), "compute_90").at(0);
  for (const Waiting& each : all) {
    CAPTURE(each.function.name);
    const std::string body = body_of(ptx, each.function.name);
    CHECK(body.find(wait) != std::string::npos);
    if (!each.reads_early) CHECK(access_before_wait(body) == "");
  }
}

TEST_CASE("a kernel that does not wait, or too late, is found" * needs(nvrtc)) {
  const std::string texts[] = {
      "extern \"C\" __global__ void late(int* x) {\n  const int y = *x;\n  after_earlier_kernels();\n  x[1] = y;\n}\n",
      "extern \"C\" __global__ void never(int* x) {\n  x[1] = *x;\n}\n"};
  const std::string ptx = runtime::cuda::compile_units(codegen::cuda_units(texts, 1), "compute_90").at(0);
  CHECK(access_before_wait(body_of(ptx, "late")).find("ld.") != std::string::npos);
  CHECK(body_of(ptx, "never").find(wait) == std::string::npos);
}
