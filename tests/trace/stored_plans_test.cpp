// Plans on disk: a function that is compiled again, as in another process, finds its plan, whatever steps it has, and
// does the same; anything else than what was stored is a miss.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include "base/log.hpp"
#include "base/options.hpp"
#include "base/storage.hpp"
#include "pipeline.hpp"
#include "runtime/cache.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/plan_file.hpp"
#include "runtime/steps.hpp"
#include "tests/ir/support.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/runtime/support.hpp"
#include "trace/support.hpp"
#include "weft/backends.hpp"
#include "weft/cache.hpp"
#include "weft/grad.hpp"
#include "weft/graph.hpp"
#include "weft/linalg.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/region.hpp"

using namespace weft;
using namespace trace_test;
using weft::test::a_compiler;
using weft::test::KeepOptions;
using weft::test::needs;

namespace {
// No plan is kept whose kernels are checked for a device too.
std::string plans_on_disk() {
  return options().nvrtc_check ? "WEFT_NVRTC_CHECK keeps plans from the disk" : a_compiler();
}
}  // namespace
namespace fs = std::filesystem;

namespace {

// A cache of its own, in which plans are kept.
struct Stored {
  KeepOptions keep;
  test::Folder folder;
  Stored() {
    options().stored_plans = true;
    options().cache_directory = folder.path();
  }
};

// What the cache's log says while it lives.
struct CacheLog : test::CaptureLog {
  std::uint32_t before = logging::detail::enabled_channels.exchange(1U << static_cast<int>(logging::Channel::cache));
  ~CacheLog() { logging::detail::enabled_channels = before; }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }
};

// What a new compile() of the function on the same line does, as another process would: its results, and what the log
// says of its plan.
struct Ran {
  std::vector<Numbers> results;
  std::string log;
  bool hit() const { return log.find("plan hit") != log.npos; }
  bool says(const char* text) const { return log.find(text) != log.npos; }
};
Numbers flat(const Tensor& value) { return numbers_of(cast(value, DType::f32)); }
template <class F, class... Arguments>
Ran run(F f, const Arguments&... arguments) {
  const CacheLog log;
  auto compiled = compile(f, {.check = Check::never});
  Ran ran;
  for (const Tensor& each : compiled(arguments...)) ran.results.push_back(flat(each));
  ran.log = log.text();
  return ran;
}
using Several = std::vector<Tensor>;

template <class F, class... Arguments>
void comes_again(const char* what, F f, const Arguments&... arguments) {
  CAPTURE(what);
  const Ran first = run(f, arguments...);
  CHECK_MESSAGE(first.says("plan stored"), first.log);
  const Ran second = run(f, arguments...);
  CHECK_MESSAGE(second.hit(), second.log);
  CHECK(first.results == second.results);
  CHECK_FALSE(second.says("compiled"));
}

std::vector<fs::path> entries(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& each : fs::directory_iterator(folder))
    if (each.path().extension() == ".weft") found.push_back(each.path());
  return found;
}
std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void replace(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// One product and one kernel.
Several small(const Tensor& x, const Tensor& y) { return {matmul(x, y) * 1.40625 + 2}; }

}  // namespace

TEST_CASE("a plan on disk serves the next compile() of the same function, whatever its steps" * needs(plans_on_disk)) {
  const Stored stored;
  Generator draws(3);
  const Tensor a = normal({24, 24}, 0, 1, draws).eval(), b = normal({24, 24}, 0, 1, draws).eval();
  const Tensor index = from_list<std::int64_t>({3, 0, 3, 7});
  comes_again("a product and kernels", small, a, b);
  comes_again(
      "reductions",
      [](const Tensor& x) {
        return Several{softmax(x, -1), sum(x), mean(x, 0)};
      },
      a);
  comes_again(
      "rows that meet",
      [](const Tensor& x, const Tensor& i) {
        return Several{grad([&](const Tensor& x) { return sum(square(gather(x, i))); }, x)};
      },
      a, index);
  comes_again(
      "an order", [](const Tensor& x) { return Several{argsort(x, -1, true)}; }, a);
  comes_again(
      "a part replaced",
      [](const Tensor& x, const Tensor& y, const Tensor& at) {
        return Several{update_slice(x, slice(y, 0, 0, 2), 0, at) * 2};
      },
      a, b, reshape(slice(index, 0, 0, 1), {}).eval());
  comes_again(
      "rows replaced",
      [](const Tensor& x, const Tensor& i) {
        return Several{set_rows(x, i, ones({4, 24}))};
      },
      a, index);
  comes_again(
      "a gather, whose indices are checked", [](const Tensor& x, const Tensor& i) { return Several{gather(x, i) * 3}; },
      a, index);
  comes_again(
      "a factorization",
      [](const Tensor& x) { return Several{linalg::cholesky(matmul(x, transpose(x)) + eye(24) * 24)}; }, a);
  comes_again(
      "a scan",
      [](const Tensor& x, const Tensor& w) {
        return Several{scan([&](const Tensor& h, const Tensor& row) { return tanh(matmul(h, w) + row); },
                            zeros({1, 24}), unsqueeze(x, 1))};
      },
      a, b);
  comes_again(
      "a loop and a choice",
      [](const Tensor& x) {
        const Tensor grown = while_loop([](const Tensor& s) { return sum(s) < 1000; },
                                        [](const Tensor& s) { return s * 2 + 1; }, abs(x));
        return Several{cond(
            sum(x) > 0, [](const Tensor& v) { return v + 1; }, [](const Tensor& v) { return v - 1; }, grown)};
      },
      a);
  comes_again(
      "a decision", [](const Tensor& x) { return Several{sum(x).item<double>() > -1e9 ? x * 2.5 : x * 3.5}; }, a);
  comes_again(
      "a constant with memory",
      [](const Tensor& x) {
        return Several{x + constant({1.5f, 2.5f, 3.5f, 4.5f})};
      },
      reshape(a, {144, 4}));
  comes_again(
      "a convolution", [](const Tensor& x, const Tensor& w) { return Several{conv2d(x, w)}; },
      reshape(a, {1, 4, 12, 12}), reshape(slice(b, 0, 0, 12), {8, 4, 3, 3}));
  comes_again(
      "a convolution of several images, a library's where it is there",
      [](const Tensor& x, const Tensor& w) { return Several{conv2d(x, w)}; }, reshape(a, {4, 1, 12, 12}),
      reshape(slice(b, 0, 0, 12), {32, 1, 3, 3}));
  comes_again(
      "a convolution with a bias",
      [](const Tensor& x, const Tensor& w, const Tensor& bias) {
        return Several{relu(conv2d(x, w) + reshape(bias, {8, 1, 1}))};
      },
      reshape(a, {1, 4, 12, 12}), reshape(slice(b, 0, 0, 12), {8, 4, 3, 3}), slice(reshape(a, {576}), 0, 0, 8).eval());
}

TEST_CASE("a plan over symbolic sizes is read back" * needs(plans_on_disk)) {
  const Stored stored;
  const auto f = [](const Tensor& x) { return Several{softmax(x, -1) * 2, sum(reshape(x, {-1, 2}), 0)}; };
  const auto sizes = [&](bool hit) {
    const CacheLog log;
    auto compiled = compile(f, {.dynamic = true, .check = Check::never});
    std::vector<Numbers> all;
    for (const std::int64_t rows : {6, 10, 34})
      for (const Tensor& each : compiled(cast(reshape(arange(rows * 4), {rows, 4}), DType::f32) * 0.125))
        all.push_back(flat(each));
    CHECK((log.text().find("plan hit") != std::string::npos) == hit);
    return all;
  };
  const std::vector<Numbers> first = sizes(false);
  CHECK(sizes(true) == first);
}

TEST_CASE("graphs that differ have plans of their own" * needs(plans_on_disk)) {
  const Stored stored;
  const Tensor x = ones({4, 4}).eval(), longer = ones({5, 4}).eval();
  // One line for several functions: by a number that the trace sees.
  double factor = 1.25;
  static double* seen;
  seen = &factor;
  const auto numbers = [](const Tensor& x) { return Several{x * *seen}; };
  const auto data = [](const Tensor& x) { return Several{x + constant({1.f, 2.f, 3.f, static_cast<float>(*seen)})}; };
  const auto differ = [&](const auto& f) {
    const Ran first = run(f, x);
    CHECK(run(f, x).hit());
    factor = 1.75;
    const Ran other = run(f, x);
    CHECK_FALSE(other.hit());
    CHECK(other.results != first.results);
    CHECK_FALSE(run(f, longer).hit());
    factor = 1.25;
    const Ran again = run(f, x);
    CHECK(again.hit());
    CHECK(again.results == first.results);
  };
  differ(numbers);
  differ(data);
}

TEST_CASE("a region is no operation, and has plans of its own" * needs(plans_on_disk)) {
  const Stored stored;
  const Tensor x = ones({4, 4}).eval();
  bool is_marked = false;
  static bool* marked;
  marked = &is_marked;
  const auto f = [](const Tensor& x) {
    const auto plain = [](const Tensor& x) { return matmul(x, x) * 1.5; };
    const auto part = region("part", plain);
    return Several{*marked ? part(x) : plain(x)};
  };
  run(f, x);
  CHECK(run(f, x).hit());
  is_marked = true;
  CHECK_FALSE(run(f, x).hit());
  CHECK(run(f, x).hit());
}

TEST_CASE("explain() of a function whose plan was on disk shows what it shows of one that was compiled" *
          needs(plans_on_disk)) {
  const Stored stored;
  const Tensor x = ones({8, 8}).eval();
  const auto explained = [&] {
    auto f = compile(small);
    f(x, x);
    return explain(f, x, x);
  };
  const Explanation first = explained(), second = explained();
  CHECK(first.cache[0] == "plan: not on disk: none of this graph is there");
  CHECK(first.cache[1].starts_with("kernels: compiled in "));
  CHECK(second.cache[0] == "plan: found on disk");
  CHECK(second.cache.size() == first.cache.size());
  CHECK(to_string(second).find("---- cache ----\nplan: found on disk\n") != std::string::npos);
  CHECK(second.passes.size() == 1);
  CHECK(second.passes[0].name == "stored_plan");
  CHECK(second.graph == first.graph);
  CHECK(second.optimized == first.optimized);
  CHECK(second.schedule == first.schedule);
  CHECK(second.arena_bytes == first.arena_bytes);
  CHECK(second.source_path == first.source_path);
  REQUIRE(second.kernels.size() == first.kernels.size());
  CHECK(second.kernels[0].source == first.kernels[0].source);
}

TEST_CASE("an entry that was made otherwise is a miss, which names the field" * needs(plans_on_disk)) {
  const Stored stored;
  const Tensor x = ones({4, 4}).eval();
  const auto under = [&](CompileOptions with) {
    const CacheLog log;
    auto f = compile(small, with);
    f(x, x);
    return "explain " + explain(f, x, x).cache[0] + "\n" + log.text();
  };
  CHECK(under({}).find("plan stored") != std::string::npos);
  CHECK(under({.level = Level::O1}).find("explain plan: not on disk: made for another level: 2, here 1\n") == 0);
  CHECK(under({}).find("explain plan: found on disk\n") == 0);
  CHECK(under({}).find("plan hit") != std::string::npos);
  CHECK(under({.memory_budget = 0.3}).find("made for another memory budget: 1, here 0.3\n") != std::string::npos);
  // Nothing that is stored is nearer than another: it may be that of 1 or of 0.3.
  CHECK(under({.memory_budget = 0.30000000000000004}).find(", here 0.30000000000000004\n") != std::string::npos);
  if (host_isa() > Isa::avx2) {
    options().isa = "avx2";
    CHECK(under({}).find("made for another instruction set: avx512, here avx2") != std::string::npos);
    options().isa.clear();
  }
  options().kernel_optimization = 1;
  CHECK(under({}).find("made for another optimization of kernels: 3, here 1") != std::string::npos);
}

TEST_CASE("what a program's own passes have changed is not kept" * needs(plans_on_disk)) {
  const Stored stored;
  const Tensor x = ones({4, 4}).eval();
  register_pass(PassStage::traced, "same", "1", [](const GraphView& graph) { return graph; });
  const Ran ran = run(small, x, x);
  unregister_pass("same");
  CHECK_FALSE(ran.says("plan"));
}

TEST_CASE("a damaged entry is a miss: cut anywhere, or a bit flipped in any byte" * needs(plans_on_disk)) {
  const Stored stored;
  const Tensor x = ones({4, 4}).eval();
  const Ran first = run(small, x, x);
  fs::path plan;
  for (const fs::path& each : entries(stored.folder.path()))
    if (bytes_of(each).find("plans 3") != std::string::npos) plan = each;
  REQUIRE(!plan.empty());
  const std::string whole = bytes_of(plan);
  const Cache cache({stored.folder.path()});
  const std::string digits = plan.stem();
  const Digest key{std::stoull(digits.substr(16), nullptr, 16), std::stoull(digits.substr(0, 16), nullptr, 16)};
  REQUIRE(cache.load(key));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    replace(plan, bytes);
    CHECK_FALSE(cache.load(key));
    replace(plan, whole.substr(0, i));
    CHECK_FALSE(cache.load(key));
  }
  const Ran second = run(small, x, x);
  CHECK_FALSE(second.hit());
  CHECK(second.results == first.results);
  CHECK(run(small, x, x).hit());
}

TEST_CASE("a forged plan under a right digest is a miss, or computes within its memory" * needs(plans_on_disk)) {
  const Stored stored;
  Generator draws(3);
  const Tensor a = normal({24, 24}, 0, 1, draws).eval(), b = normal({24, 24}, 0, 1, draws).eval();
  Cache cache({stored.folder.path()});
  int hits = 0, misses = 0;
  const auto forge = [&](auto f, const CompileOptions& compile_options, const auto&... arguments) {
    const auto call = [&] {
      const CacheLog log;
      for (const Tensor& each : compile(f, compile_options)(arguments...)) each.eval();
      return log.text();
    };
    const std::string stores = call();
    const std::size_t at = stores.find("plan stored ");
    REQUIRE_MESSAGE(at != std::string::npos, stores);
    const std::string digits = stores.substr(at + 12, 32);
    const Digest key{std::stoull(digits.substr(16), nullptr, 16), std::stoull(digits.substr(0, 16), nullptr, 16)};
    const std::optional<CacheEntry> entry = cache.load(key);
    REQUIRE(entry);
    std::mt19937_64 random(7);
    for (int number = 0; number < 200; ++number) {
      CAPTURE(number);
      std::string forged = entry->payload;
      for (std::size_t left = 1 + random() % 3; left > 0; --left) {
        char& byte = forged[random() % forged.size()];
        byte = static_cast<char>(random() % 2 ? random() : byte ^ (1 << random() % 8));
      }
      REQUIRE(cache.store(key, entry->metadata, forged));
      try {
        ++(call().find("plan hit") == std::string::npos ? misses : hits);
      } catch (const Error&) {  // sizes for which it leaves its memory, or an arena larger than the memory there is
      }
    }
  };
  forge(small, {.check = Check::never}, a, b);
  forge(
      [](const Tensor& x) {
        return Several{softmax(x, -1) * 2, sum(reshape(x, {-1, 2}), 0)};
      },
      {.dynamic = true, .check = Check::never}, a);
  forge(
      [](const Tensor& x, const Tensor& i) {
        return Several{gather(x, i) * 3, argsort(x, -1)};
      },
      {.check = Check::never}, a, from_list<std::int64_t>({3, 0, 3, 7}));
  CHECK(hits > 0);
  CHECK(misses > hits);
}

TEST_CASE("bytes that are no plan are refused while they are read, whatever they say") {
  runtime::Plan plan;
  plan.buffers = {{runtime::PlanBuffer::Kind::argument, 0, DType::f32, 4, 0},
                  {runtime::PlanBuffer::Kind::constant, 0, DType::f32, dims::symbol(0) * 3 + dims::symbol(1) / 2, 0},
                  {runtime::PlanBuffer::Kind::result, 0, DType::f32, dims::symbol(0) % 7, 0}};
  plan.argument_count = plan.result_count = 1, plan.symbol_count = 2;
  plan.arena_bytes = dims::symbol(0) * dims::symbol(1);
  plan.constants = {std::vector<std::byte>(16, std::byte{7})};
  plan.donations = {{0, 0}};
  runtime::FieldWriter to;
  runtime::write_plan(to, plan);
  REQUIRE(to.refusal().empty());
  const auto read = [](std::string_view bytes) {
    runtime::FieldReader from(bytes);
    return runtime::read_plan(from, runtime::read_step);
  };
  const runtime::Plan again = read(to.bytes());
  CHECK(again.arena_bytes.same(plan.arena_bytes));
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) CHECK(again.buffers[i].elements.same(plan.buffers[i].elements));
  CHECK(again.constants == plan.constants);
  for (std::size_t i = 0; i < to.bytes().size(); ++i) {
    CHECK_THROWS_AS(read(to.bytes().substr(0, i)), runtime::Malformed);
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = to.bytes();
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      // A flip that is not refused is another plan, or the same one written otherwise; either is read back as written.
      std::optional<runtime::Plan> other;
      try {
        other = read(bytes);
      } catch (const runtime::Malformed&) {
        continue;
      }
      const auto written = [](const runtime::Plan& plan) {
        runtime::FieldWriter to;
        runtime::write_plan(to, plan);
        return to.bytes();
      };
      CAPTURE(i);
      CAPTURE(bit);
      CHECK(written(read(written(*other))) == written(*other));
    }
  }
}

TEST_CASE("what a plan from the disk is explained by does not hold the memory of constants" * needs(plans_on_disk)) {
  const Stored stored;
  const auto add_constant = [] {
    graph_test::Recording recording;
    return recording.graph({recording.x() + constant({1.25f, 2.5f, 3.75f})});
  };
  PipelineOptions options;
  options.stored = options.keep = true;
  for (const char* const stage : {"fuse_attention", "stored_plan"}) {
    Graph graph = add_constant();
    const auto data = std::ranges::find_if(graph.nodes, [](const Tensor& each) { return each.node()->op == Op::data; });
    REQUIRE(data != graph.nodes.end());
    Storage* const memory = data->node()->storage;
    retain(memory);
    const auto executable = compile_graph(std::exchange(graph, {}), options);
    CHECK(std::string(executable->stages[0].name) == stage);
    CHECK(unique(memory));
    CHECK(!texts_of(*executable).kernels.empty());
    CHECK(unique(memory));
    release(memory);
  }
}

TEST_CASE("a file of save_cache holds plans too" * needs(plans_on_disk)) {
  const Stored stored;
  const Tensor x = ones({4, 4}).eval();
  const auto f = [](const Tensor& x) { return Several{x * 1.3125 + 11}; };
  const Ran first = run(f, x);
  const std::string file = stored.folder.path() + "/saved";
  CHECK(save_cache(file) >= 2);
  const test::Folder another;
  options().cache_directory = another.path();
  CHECK(load_cache(file) >= 2);
  const Ran second = run(f, x);
  CHECK_MESSAGE(second.hit(), second.log);
  CHECK(second.results == first.results);
}
