// WEFT_LOGS=guards,recompiles,fusion,kernels,cache,passes,decisions: what each channel says, to the letter.
#include "base/log.hpp"

#include <regex>

#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"  // weft/ops.hpp too: with the function log beside the namespace logging

using namespace weft;
using namespace trace_test;
using weft::test::CaptureLog;
using weft::test::Folder;
using weft::test::KeepOptions;

namespace {
// Switches them on, and all of them off at the end of the block.
struct Channels {
  explicit Channels(const char* names) { logging::set_channels(names); }
  ~Channels() { logging::set_channels(""); }
};

// Without what differs from run to run.
std::string masked(const std::string& line) {
  static const std::regex number("[0-9.e-]+ (bytes|ms)");
  return std::regex_replace(line, number, "N $1");
}
}  // namespace

TEST_CASE("guards, and each recompilation with its reason") {
  CaptureLog log;
  const Channels channels("recompiles,guards");
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x) { return weft::log(x); });
  f(ones({64}));
  f(ones({32}));
  const std::string where = "compile" + AT_LINE(line).substr(1) + ": ";
  CHECK(log.lines == std::vector<std::string>{
                         "[weft:guards] " + where + "argument 0: f32[64]",
                         "[weft:recompiles] " + where +
                             "argument 0: size of dimension 0 was 64, is 32; argument 0: size of dimension 0 "
                             "is symbolic from here on",
                         "[weft:guards] " + where + "argument 0: f32[s0]", "[weft:guards] " + where + "s0 >= 2"});
}

TEST_CASE("fusion: buffers, steps and why a kernel begins, a line each") {
  CaptureLog log;
  const Channels channels("fusion");
  const int line = __LINE__ + 2;
  auto f = compile([](const Tensor& x) {
    const Tensor y = exp(x), rows = sum(y, 1);
    return rows + sum(y, 0);
  });
  f(ones({4, 4}));
  for (const std::string& each : log.lines) CHECK(each.find('\n') == each.npos);
  REQUIRE(log.lines.size() > 2);
  CHECK(log.lines.front() == "[weft:fusion] buffer 0: argument 0, f32 x 16");
  CHECK(log.lines.back() ==
        "[weft:fusion] %4 sum" + AT_LINE(line + 1).substr(1) +
            " starts a kernel: it reduces other axes than the kernel does; 64 bytes are read again");
}

TEST_CASE("kernels: name, cost, source and what it fuses, when it is ready") {
  CaptureLog log;
  const Channels channels("kernels");
  const int line = __LINE__ + 1;
  auto f = compile([](const Tensor& x, const Tensor& y) { return relu(x * y + 1.65625); });
  Tensor x = ones({4, 5});
  for (int i = 0; i < 3; ++i) f(x, x);
  const std::string here = " f32[4,5], log_test.cpp:" + std::to_string(line);
  CHECK(log.lines ==
        std::vector<std::string>{"[weft:kernels] weft_k0_mul_add_relu: 240 bytes, 60 operations, source " +
                                 explain(f, x, x).source_path + "; mul" + here + "; add" + here + "; relu" + here});
}

TEST_CASE("cache: what was compiled and what was found, by the names of their files") {
  const Folder folder;
  const KeepOptions keep;
  options().cache_directory = folder.path();
  options().cache = true;
  options().nvrtc_check = false;  // whose code would be cached too
  CaptureLog log;
  const Channels channels("cache");
  const auto function = [](const Tensor& x) { return x * 3.71875; };
  for (int i = 0; i < 2; ++i) compile(function)(ones({4}));  // what is compiled leaves memory with the function
  REQUIRE(folder.names_with(".weft").size() == 1);
  const std::string key = folder.names_with(".weft")[0].substr(0, 32);
  REQUIRE(log.lines.size() == 2);
  CHECK(masked(log.lines[0]) == "[weft:cache] compiled " + key + ", N bytes, N ms");
  CHECK(masked(log.lines[1]) == "[weft:cache] hit " + key + ", N ms");
}

TEST_CASE("passes: each with its time, in order") {
  CaptureLog log;
  const Channels channels("passes");
  compile([](const Tensor& x) { return x * 3.84375; })(ones({4}));
  std::vector<std::string> names;
  for (const std::string& each : log.lines) names.push_back(masked(each));
  std::vector<std::string> expected;
  for (const char* name :
       {"fuse_attention", "merge_loops", "inline_calls", "place_gathers", "fold_constants", "simplify_algebra",
        "common_subexpressions", "fold_batch_norm", "orient_matmul", "simplify_algebra", "rematerialize",
        "decompose_convolution", "decompose_matmul", "decompose_argsort", "widen_scatter_add", "local_collectives",
        "align_products", "dead_code", "prune_loops"})
    expected.push_back(concat_text("[weft:passes] ", name, ": N ms, 3"));
  for (const char* rest :
       {"schedule: N ms, 1", "memory: N ms, 2", "generate: N ms, 1", "compile: N ms, 1", "launches: N ms, 1"})
    expected.push_back(concat_text("[weft:passes] ", rest));
  CHECK(names == expected);
}

TEST_CASE("passes: which rows of its table replaced nodes, and how many") {
  CaptureLog log;
  const Channels channels("passes");
  compile([](const Tensor& x) { return -(-x) - -(-(-x)) * 1; })(ones({4}));
  std::vector<std::string> rows;
  for (const std::string& each : log.lines)
    if (const std::size_t at = each.find("; "); at != each.npos) rows.push_back(each.substr(at));
  CHECK(rows == std::vector<std::string>{"; sub(x, neg(y)) -> add(x, y): 1; mul(x, 1) -> x: 1; neg(neg(x)) -> x: 2"});
}

TEST_CASE("decisions: each outcome with its line, and whether it is new") {
  CaptureLog log;
  const Channels channels("decisions");
  const int line = __LINE__ + 3;
  auto f = compile(
      [](const Tensor& x) {
        if (sum(x) > 0) return x.item<int>() == 3 ? x * 2 : x;
        return -x;
      },
      {.check = Check::never});
  const auto lines_of = [&](double value) {
    log.lines.clear();
    f(full({}, value));
    return log.lines;
  };
  const std::string where = "[weft:decisions] " + AT_LINE(line).substr(5) + ": ";
  CHECK(lines_of(3) == std::vector<std::string>{where + "true, new", where + "3, new"});
  CHECK(lines_of(3).empty());  // it follows what is known, without the function's code
  CHECK(lines_of(4) == std::vector<std::string>{where + "true, as before", where + "4, new"});
  CHECK(lines_of(-1) == std::vector<std::string>{where + "false, new"});
}
