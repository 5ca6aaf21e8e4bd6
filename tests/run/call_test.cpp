// Calls through weft_run.h: what a function changes, kinds of arguments, memory of every layout, and what is refused.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/package_file.hpp"
#include "runtime/steps.hpp"
#include "tests/count_allocations.hpp"
#include "tests/needs_compiler.hpp"
#include "weft/nn.hpp"
#include "weft/ops.hpp"
#include "weft/package.hpp"
#include "weft/random.hpp"
#include "weft_run.h"

using namespace weft;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

// A function in C's hands, after its package was closed and its file has gone.
class RunFunction {
 public:
  explicit RunFunction(const PackageWriter& writer, const char* name = "f") {
    const std::string path =
        std::filesystem::temp_directory_path() / ("weft-run-" + std::to_string(getpid()) + ".weft");
    writer.write(path);
    weft_package* package = nullptr;
    REQUIRE(weft_package_open(path.c_str(), &package) == WEFT_OK);
    std::filesystem::remove(path);
    status = weft_package_function(package, name, &handle);
    CHECK(weft_package_close(package) == WEFT_OK);
  }
  ~RunFunction() { weft_function_close(handle); }
  RunFunction(const RunFunction&) = delete;

  weft_function* handle = nullptr;
  weft_status status = WEFT_OK;
};

// Memory of the caller.
template <class T>
struct Given {
  std::vector<T> elements;
  std::vector<std::int64_t> shape, strides = {};
  weft_tensor tensor() {
    const bool is_float = std::is_floating_point_v<T>;
    return {.data = elements.data(),
            .device = {1, 0},
            .ndim = static_cast<std::int32_t>(shape.size()),
            .dtype = {static_cast<std::uint8_t>(is_float ? 2 : 0), 8 * sizeof(T), 1},
            .shape = shape.data(),
            .strides = strides.empty() ? nullptr : strides.data(),
            .byte_offset = 0};
  }
};
using Floats = std::vector<float>;

struct Results {
  weft_status status = WEFT_OK;
  std::vector<weft_managed_tensor*> tensors;
  Results(weft_status status, std::vector<weft_managed_tensor*> tensors)
      : status(status), tensors(std::move(tensors)) {}
  Results(Results&&) = default;
  ~Results() {
    for (weft_managed_tensor* each : tensors)
      if (each) each->deleter(each);
  }
  Floats floats(std::size_t i) const {
    const weft_tensor& tensor = tensors.at(i)->dl_tensor;
    std::int64_t count = 1;
    for (int axis = 0; axis < tensor.ndim; ++axis) count *= tensor.shape[axis];
    const auto* const first = static_cast<const float*>(tensor.data);
    return {first, first + count};
  }
};
template <class... G>
Results call(const RunFunction& f, std::size_t results, std::size_t kind, G&&... given) {
  weft_tensor tensors[] = {given.tensor()...};
  std::vector<const weft_tensor*> pointers;
  for (const weft_tensor& each : tensors) pointers.push_back(&each);
  std::vector<weft_managed_tensor*> made(results);
  const weft_status status =
      weft_function_call(f.handle, kind, pointers.data(), pointers.size(), made.data(), made.size());
  return {status, std::move(made)};
}

bool says(const char* part) {
  INFO(weft_run_message());
  return std::string(weft_run_message()).find(part) != std::string::npos;
}

struct Scaling {
  double times = 2;
  std::string kind = "plain";
  std::optional<Tensor> offset;
};
Tensor with_options(const Scaling& options, const Tensor& x) {
  const Tensor y = x * options.times;
  return options.offset ? y + *options.offset : y;
}

}  // namespace

TEST_CASE("what a function changes is written where it lies, and results are as they were" * needs(a_compiler)) {
  PackageWriter writer;
  Buffer a(zeros({3})), b(ones({3}));
  writer.add("f", compile([](Buffer& a, Buffer& b, const Tensor& x) {
               const Tensor before = a.tensor(), sum = a.tensor() + x;
               a = Buffer(b.tensor());
               b = Buffer(sum);
               return std::tuple(before, sum, sum);
             }),
             a, b, ones({3}));
  const RunFunction f(writer);
  REQUIRE(f.status == WEFT_OK);
  Given<float> first{{1, 2, 3}, {3}}, second{{10, 20, 30}, {3}}, x{{5, 5, 5}, {3}};
  const Results results = call(f, 3, WEFT_ANY_KIND, first, second, x);
  REQUIRE(results.status == WEFT_OK);
  CHECK(first.elements == Floats{10, 20, 30});
  CHECK(second.elements == Floats{6, 7, 8});
  CHECK(results.floats(0) == Floats{1, 2, 3});
  CHECK(results.floats(1) == second.elements);
  CHECK(results.floats(2) == second.elements);
  CHECK(results.tensors[1]->dl_tensor.data != results.tensors[2]->dl_tensor.data);

  CHECK(call(f, 3, WEFT_ANY_KIND, first, first, x).status == WEFT_MISMATCH);
  CHECK(says("argument 0 and argument 1 share memory, and the function changes argument 1"));
  CHECK(call(f, 3, WEFT_ANY_KIND, first, second, second).status == WEFT_MISMATCH);
  CHECK(says("argument 1 and argument 2 share memory, and the function changes argument 1"));
  Given<float> reversed{{1, 2, 3, 4, 5}, {3}, {2}};
  CHECK(call(f, 3, WEFT_ANY_KIND, reversed, second, x).status == WEFT_MISMATCH);
  CHECK(says("argument 0 is written where it lies, so it must be in row-major order"));
  CHECK(first.elements == Floats{10, 20, 30});
}

TEST_CASE("a check that fails is a status, and arguments hold what they held" * needs(a_compiler)) {
  PackageWriter writer;
  Buffer count(zeros({2}));
  writer.add("f", compile([](Buffer& count, const Tensor& table, const Tensor& places) {
               count = Buffer(count.tensor() + 1);
               return gather(table, places);
             }),
             count, ones({3, 2}), from_list<std::int64_t>({0, 1}));
  const RunFunction f(writer);
  Given<float> counted{{0, 0}, {2}}, table{{1, 2, 3, 4, 5, 6}, {3, 2}};
  Given<std::int64_t> places{{2, 0}, {2}}, wrong{{2, 3}, {2}};
  CHECK(call(f, 1, WEFT_ANY_KIND, counted, table, places).floats(0) == Floats{5, 6, 1, 2});
  CHECK(counted.elements == Floats{1, 1});
  const Results results = call(f, 1, WEFT_ANY_KIND, counted, table, wrong);
  CHECK(results.status == WEFT_FAILED);
  CHECK(results.tensors[0] == nullptr);
  CHECK(says("call_test.cpp:"));
  CHECK(counted.elements == Floats{1, 1});
}

TEST_CASE("what is read may lie anywhere; values and undefined tensors are not passed" * needs(a_compiler)) {
  PackageWriter writer;
  const auto f = compile(with_options, {.dynamic = true});
  writer.add("f", f, Scaling{}, ones({3, 2}));
  writer.add("f", f, Scaling{.times = 3}, ones({3, 2}));
  writer.add("f", f, Scaling{.offset = ones({2})}, ones({3, 2}));
  const RunFunction run(writer);
  REQUIRE(run.status == WEFT_OK);
  std::size_t kinds = 0, count = 0;
  const weft_tensor_info* infos = nullptr;
  CHECK(weft_function_kinds(run.handle, &kinds) == WEFT_OK);
  CHECK(kinds == 3);
  CHECK(weft_function_arguments(run.handle, 2, &count, &infos) == WEFT_OK);
  CHECK(count == 2);

  Given<float> x{{1, 2, 3, 4, 5, 6}, {3, 2}}, columns{{1, 3, 5, 2, 4, 6}, {3, 2}, {1, 3}};
  CHECK(call(run, 1, 0, x).floats(0) == Floats{2, 4, 6, 8, 10, 12});
  CHECK(call(run, 1, 1, x).floats(0) == Floats{3, 6, 9, 12, 15, 18});
  CHECK(call(run, 1, 0, columns).floats(0) == Floats{2, 4, 6, 8, 10, 12});
  CHECK(call(run, 1, WEFT_ANY_KIND, x).status == WEFT_MISMATCH);
  CHECK(says("fits kinds 0 and 1 of its arguments, which differ in what is no tensor: ask for one of them"));
  Given<float> offset{{100, 200}, {2}};
  CHECK(call(run, 1, WEFT_ANY_KIND, offset, x).floats(0) == Floats{102, 204, 106, 208, 110, 212});
  CHECK(call(run, 1, WEFT_ANY_KIND, offset, offset).status == WEFT_MISMATCH);
  CHECK(says("fits none of the 3 kinds of arguments that the package holds; of the nearest, argument 1: number of"));

  struct Unaligned : Given<float> {
    weft_tensor tensor() {
      weft_tensor made = Given::tensor();
      auto* const bytes = static_cast<char*>(made.data);
      std::memmove(bytes + 1, bytes, 24);
      made.byte_offset = 1;
      return made;
    }
  } unaligned{{{1, 2, 3, 4, 5, 6, 0}, {3, 2}}};
  CHECK(call(run, 1, 0, unaligned).floats(0) == Floats{2, 4, 6, 8, 10, 12});
}

TEST_CASE("what C can't pass is refused by name" * needs(a_compiler)) {
  struct Counter {
    std::int64_t calls = 0;
  } counter;
  Buffer rows(ones({3}));
  PackageWriter writer;
  writer.add("counts", compile([](Counter& counter, const Tensor& x) {
               ++counter.calls;
               return x + 1;
             }),
             counter, ones({2}));
  writer.add("draws", compile([](const Tensor& x) { return x + uniform({2}); }), ones({2}));
  writer.add("grows", compile([](Buffer& rows) { rows = Buffer(concat({rows.tensor(), ones({1})}, 0)); }), rows);
  const RunFunction counts(writer, "counts");
  CHECK(counts.status == WEFT_UNSUPPORTED);
  CHECK(counts.handle == nullptr);
  const RunFunction draws(writer, "draws");
  CHECK(draws.status == WEFT_UNSUPPORTED);
  CHECK(says("draws from the default generator, which a program in C does not have"));
  const RunFunction grows(writer, "grows");
  Given<float> given{{1, 2, 3}, {3}};
  CHECK(call(grows, 0, WEFT_ANY_KIND, given).status == WEFT_UNSUPPORTED);
  CHECK(says("gives argument 0 other sizes, and a program in C passes memory that stays"));
}

TEST_CASE("a tensor without elements whose other sizes are too large is refused" * needs(a_compiler)) {
  PackageWriter writer;
  const Tensor none = zeros({2, 3, 0});
  mark_dynamic(none, 0), mark_dynamic(none, 1);
  writer.add("f", compile([](const Tensor& none, const Tensor& x) { return std::pair(none, x * 2); }), none, ones({2}));
  const RunFunction f(writer);
  REQUIRE(f.status == WEFT_OK);
  const std::int64_t large = std::int64_t{1} << 40;
  Given<float> wide{{}, {large, 7, 0}}, too_wide{{}, {large, large, 0}}, x{{1, 2}, {2}};
  const Results results = call(f, 2, WEFT_ANY_KIND, wide, x);
  REQUIRE(results.status == WEFT_OK);
  CHECK(results.tensors[0]->dl_tensor.shape[0] == large);
  CHECK(results.floats(1) == Floats{2, 4});
  CHECK(call(f, 2, WEFT_ANY_KIND, too_wide, x).status == WEFT_BAD_CALL);
  CHECK(says("tensor 0 of the call has a size that is negative, or too many elements"));
}

TEST_CASE("sizes that vary are held to their range, to each other and to conditions" * needs(a_compiler)) {
  PackageWriter writer;
  const Tensor x = ones({4}), y = ones({4}), z = ones({3});
  for (const Tensor& each : {x, y}) mark_dynamic(each, 0, 2, 8);
  mark_dynamic(z, 0, 0, 100);
  writer.add("f", compile([](const Tensor& x, const Tensor& y, const Tensor& z) {
               return z.size(0) < x.size(0) * 2 ? x + y : x - y;
             }),
             x, y, z);
  const RunFunction f(writer);
  REQUIRE(f.status == WEFT_OK);
  const auto status = [&](std::int64_t x_size, std::int64_t y_size, std::int64_t z_size) {
    const auto of = [](std::int64_t size) {
      return Given<float>{Floats(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)), 1), {size}};
    };
    return call(f, 1, WEFT_ANY_KIND, of(x_size), of(y_size), of(z_size)).status;
  };
  CHECK(status(4, 4, 3) == WEFT_OK);
  CHECK(status(8, 8, 15) == WEFT_OK);
  CHECK(status(2, 2, 0) == WEFT_OK);
  CHECK(status(9, 9, 0) == WEFT_MISMATCH);
  CHECK(says("argument 0: size of dimension 0 is 9, the package holds sizes of at most 8"));
  CHECK(status(1, 1, 0) == WEFT_MISMATCH);
  CHECK(says("the package holds sizes of at least 2"));
  CHECK(status(4, 5, 0) == WEFT_MISMATCH);
  CHECK(says("argument 1: size of dimension 0 is 5, the package holds 4 there, as of argument 0: size of dimension 0"));
  CHECK(status(4, 4, 8) == WEFT_MISMATCH);
  CHECK(says("the package holds sizes with s1 < 2*s0"));
  CHECK(status(4, 4, -1) == WEFT_BAD_CALL);
  CHECK(status(4, 4, 7) == WEFT_OK);  // what was refused leaves nothing to the next call of its thread
}

TEST_CASE("a state that a forged package takes from an undefined argument is refused" * needs(a_compiler)) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("weft-run-forged-" + std::to_string(getpid()) + ".weft");
  Buffer state(zeros({}));
  package(path, "f", compile([](const Tensor& wide, const Tensor&, Buffer& state) {
            state = Buffer(state.tensor() + 1);
            return wide * 2;
          }),
          zeros({}, {.dtype = DType::f64}), Tensor(), state);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(path);
  runtime::PackageFile parsed = runtime::parse_package(bytes, runtime::read_step);
  using Source = runtime::Source::Kind;
  parsed.entries.at(0).specializations.at(0).states.at(0).source = {Source::argument, 1};
  std::string refusal;
  const std::string forged = runtime::write_package(parsed, refusal);
  weft_package* opened = nullptr;
  REQUIRE(weft_package_open_bytes(forged.data(), forged.size(), "f.weft", &opened) == WEFT_OK);
  weft_function* function = nullptr;
  CHECK(weft_package_function(opened, "f", &function) == WEFT_UNSUPPORTED);
  CHECK(says("makes argument 2 undefined, and a program in C passes memory that stays"));
  CHECK(function == nullptr);
  CHECK(weft_package_close(opened) == WEFT_OK);
}

TEST_CASE("a function may be closed while other threads call it" * needs(a_compiler)) {
  PackageWriter writer;
  writer.add("f", compile([](const Tensor& x) { return x * 2; }), ones({2}));
  const RunFunction f(writer);
  std::atomic<int> calls = 0;
  const auto run = [&] {
    Given<float> x{{1, 2}, {2}};
    while (true) {
      const Results results = call(f, 1, WEFT_ANY_KIND, x);
      if (results.status != WEFT_OK) return results.status;
      if (results.floats(0) != Floats{2, 4}) return weft_status{WEFT_INTERNAL};
      ++calls;
    }
  };
  weft_status ended[3] = {};
  std::vector<std::thread> threads;
  for (weft_status& each : ended) threads.emplace_back([&] { each = run(); });
  while (calls < 100) std::this_thread::yield();
  CHECK(weft_function_close(f.handle) == WEFT_OK);
  for (std::thread& thread : threads) thread.join();
  for (const weft_status each : ended) CHECK(each == WEFT_BAD_CALL);
}

TEST_CASE("a call takes nothing from the heap, from C and from C++" * needs(a_compiler)) {
  using Ten = std::array<Tensor, 10>;
  const auto f = compile([](Buffer& calls, const Ten& x) {
    calls = Buffer(calls.tensor() + 1);
    Tensor sum = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) sum = sum + x[i];
    return std::pair(sum, x[9]);
  });
  Buffer calls(zeros({2}));
  Ten x;
  for (Tensor& each : x) mark_dynamic(each = ones({4, 3}).eval(), 0);
  PackageWriter writer;
  writer.add("f", f, calls, x);
  const std::string path = std::filesystem::temp_directory_path() / ("weft-run-" + std::to_string(getpid()) + ".weft");
  writer.write(path);
  const auto loaded = load_package(path).function<std::pair<Tensor, Tensor>(Buffer&, const Ten&)>("f");
  std::filesystem::remove(path);
  CHECK(allocations_of([&] { loaded(calls, x); }) == 0);

  const RunFunction run(writer);
  Given<float> counted{{0, 0}, {2}}, rows{Floats(12, 1), {4, 3}}, columns{Floats(12, 1), {4, 3}, {1, 4}};
  weft_tensor tensors[11] = {counted.tensor(), columns.tensor()};
  std::fill(tensors + 2, tensors + 11, rows.tensor());
  const weft_tensor* arguments[11];
  for (std::size_t i = 0; i < 11; ++i) arguments[i] = &tensors[i];
  int failed = 0;
  CHECK(allocations_of([&] {
          weft_managed_tensor* results[2];
          failed += weft_function_call(run.handle, WEFT_ANY_KIND, arguments, 11, results, 2) != WEFT_OK;
          for (weft_managed_tensor* each : results) each->deleter(each);
        }) == 0);
  CHECK(failed == 0);
  CHECK(counted.elements == Floats{6, 6});
}

TEST_CASE("weights that lie in the package are no arguments in C" * needs(a_compiler)) {
  const nn::Linear layer(2, 3);
  PackageWriter writer;
  writer.add({"f", {.weights = true}},
             compile([](const nn::Linear& layer, const Tensor& x) { return layer(x); }, bind(layer)), ones({2, 2}));
  const RunFunction f(writer);
  REQUIRE(f.status == WEFT_OK);
  std::size_t count = 0;
  const weft_tensor_info* infos = nullptr;
  CHECK(weft_function_arguments(f.handle, 0, &count, &infos) == WEFT_OK);
  CHECK(count == 1);
  const Results results = call(f, 1, WEFT_ANY_KIND, Given<float>{{1, 2, 3, 4}, {2, 2}});
  REQUIRE(results.status == WEFT_OK);
  const Tensor expected = layer(reshape(from_list<float>({1, 2, 3, 4}), {2, 2}));
  const auto data = expected.data<float>();
  CHECK(results.floats(0) == Floats(data.begin(), data.end()));
}

namespace {

// A reader that counts, of a file or of bytes that are given.
struct Reads {
  std::string path;
  std::string bytes = read(path);
  std::size_t size = bytes.size();
  bool is_null = false;
  int reads = 0, releases = 0;

  weft_status open(weft_package** package) {
    const weft_reader reader{this, give, take};
    return weft_package_open_with("f.weft", &reader, package);
  }

 private:
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const void* first() const { return is_null ? nullptr : bytes.data(); }
  static std::int32_t give(void* context, const char*, const void** bytes, std::size_t* size) {
    Reads& self = *static_cast<Reads*>(context);
    ++self.reads;
    *bytes = self.first(), *size = self.size;
    return 0;
  }
  static void take(void* context, const void* bytes, std::size_t size) {
    Reads& self = *static_cast<Reads*>(context);
    self.releases += bytes == self.first() && size == self.size;
  }
};

}  // namespace

TEST_CASE("where memory ends while a package is read, that is what is said" * needs(a_compiler)) {
  const nn::Linear layer(2, 3);
  PackageWriter writer;
  writer.add({"f", {.weights = true}},
             compile([](const nn::Linear& layer, const Tensor& x) { return layer(x); }, bind(layer)), ones({2, 2}));
  const std::string path = std::filesystem::temp_directory_path() / ("weft-run-" + std::to_string(getpid()) + ".weft");
  writer.write(path);
  // One allocation fails, a later one each time, until there are no more.
  const auto each = [](const auto& open) {
    int failed = 0;
    for (long most = 0;; ++most) {
      until_failure = most;
      const bool whole = open();
      const bool reached = std::exchange(until_failure, -1) < 0;
      failed += !whole;
      if (!reached) return failed;
    }
  };
  int others = 0;
  CHECK(each([&] {
          weft_package* package = nullptr;
          const weft_status status = weft_package_open(path.c_str(), &package);
          others += status != WEFT_OK && status != WEFT_NO_MEMORY;
          CHECK(weft_package_close(package) == WEFT_OK);
          return status == WEFT_OK;
        }) > 50);
  CHECK(each([&] {
          try {
            load_package(path);
            return true;
          } catch (const OutOfMemory&) {
          } catch (const std::exception&) {
            ++others;
          }
          return false;
        }) > 50);
  // What the program's reader gave is given back as often as it was read, whatever fails.
  Reads reads{path};
  CHECK(each([&] {
          weft_package* package = nullptr;
          const weft_status status = reads.open(&package);
          others += status != WEFT_OK && status != WEFT_NO_MEMORY;
          CHECK(weft_package_close(package) == WEFT_OK);
          return status == WEFT_OK;
        }) > 50);
  CHECK(others == 0);
  CHECK(reads.reads > 50);
  CHECK(reads.releases == reads.reads);
  std::filesystem::remove(path);
}

TEST_CASE("what a reader gives is released once, also where it is nothing") {
  weft_package* package = nullptr;
  for (const bool is_null : {false, true})
    for (const std::size_t size : {std::size_t{0}, std::size_t{100}}) {
      Reads reads{"", std::string(is_null ? 0 : 100, 'x'), size, is_null};
      CHECK(reads.open(&package) == (is_null && size ? WEFT_BAD_CALL : WEFT_BAD_PACKAGE));
      CHECK(says(is_null && size ? "what the reader gave is a null pointer" : "is no package of Weft"));
      CHECK(package == nullptr);
      CHECK(reads.releases == 1);
    }
}

namespace {

// In the child of a fork, locks that other threads held in GCC's AddressSanitizer are not free.
std::string memory_in_children() {
#ifdef __SANITIZE_ADDRESS__
  return "the allocator of AddressSanitizer may hang in a child of a process with threads";
#else
  return "";
#endif
}

}  // namespace

TEST_CASE("a child that is forked while other threads open, update, call and close packages does the same" *
          needs(a_compiler) * needs(memory_in_children)) {
  const nn::Linear layer(2, 3);
  PackageWriter writer;
  writer.add({"f", {.weights = true}},
             compile([](const nn::Linear& layer, const Tensor& x) { return layer(x); }, bind(layer)), ones({2, 2}));
  const std::string path = std::filesystem::temp_directory_path() / ("weft-run-" + std::to_string(getpid()) + ".weft");
  writer.write(path);
  weft_package* shared = nullptr;
  REQUIRE(weft_package_open(path.c_str(), &shared) == WEFT_OK);
  Given<float> bias{{1, 2, 3}, {3}};
  const weft_tensor value = bias.tensor();
  weft_function* function = nullptr;
  REQUIRE(weft_package_function(shared, "f", &function) == WEFT_OK);
  Package loaded = load_package(path);
  const auto packaged = loaded.function<Tensor(const Tensor&)>("f");
  const Tensor x = ones({2, 2}), other = zeros({3});
  const auto use = [&] {
    const char* const name = "bias";
    const weft_tensor* const values = &value;
    weft_package* own = nullptr;
    Given<float> rows{{1, 2, 3, 4}, {2, 2}};
    const weft_tensor tensor = rows.tensor();
    const weft_tensor* const arguments = &tensor;
    weft_managed_tensor* result = nullptr;
    const bool all = weft_package_inspect(path.c_str(), &own) == WEFT_OK && weft_package_close(own) == WEFT_OK &&
                     weft_package_update_constants(shared, &name, &values, 1) == WEFT_OK &&
                     weft_function_call(function, WEFT_ANY_KIND, &arguments, 1, &result, 1) == WEFT_OK;
    if (result) result->deleter(result);
    loaded.update_constants("bias", other);
    return all && packaged(x).size(1) == 3;
  };
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!done) use();
    });
  int wrong = 0;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      _exit(use() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    wrong += status != 0;
  }
  done = true;
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
  CHECK(weft_function_close(function) == WEFT_OK);
  CHECK(weft_package_close(shared) == WEFT_OK);
  std::filesystem::remove(path);
}
