// Saving and loading: every kind of part comes back, every misfit is listed, and a file appears whole or not at all.
#include "weft/io.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <map>
#include <memory>
#include <optional>

#include "base/fail.hpp"
#include "base/file.hpp"
#include "base/storage.hpp"
#include "io/support.hpp"
#include "record/evaluate.hpp"
#include "record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"

namespace weft {
namespace {

using test::Folder;
using test::numbers;
using test::refused;

enum class Mode : std::uint8_t { train, test };
struct Block {
  nn::Linear inner{3, 2};
};
struct Everything {
  std::vector<Block> blocks = std::vector<Block>(2);
  std::map<std::string, Param> named = {{"a", ones({2})}};
  std::unique_ptr<Block> owned = std::make_unique<Block>();
  std::optional<Tensor> maybe = arange(4);
  Buffer buffer = ones({2, 0, 3}, {DType::bf16});
  Tensor flags = from_list<bool>({true, false, true});
  Tensor eighths = cast(from_list<float>({-0.0f, 1.5f, 448}), DType::f8e4m3), fifths = cast(arange(3), DType::f8e5m2);
  Tensor transposed = transpose(reshape(arange(6), {2, 3}));
  Tensor pending = ones({2}) + 1;
  Scalar lr = 0.1;
  Index position = -7;
  double number = 0.1;
  std::int64_t count = INT64_MIN;
  std::uint8_t byte = 200;
  bool flag = true;
  Mode mode = Mode::test;
  float16 half{0.1};
  std::vector<float> list = {1.5f, -0.0f, 3e38f};
  std::string text = "two words, \"quoted\"";
  nn::Linear without_bias{2, 2, {.bias = false}};
};

TEST_CASE("everything that is saved is loaded, to the same bits") {
  const Folder folder;
  const std::string path = folder.file("all.safetensors");
  seed(1);
  Everything saved;
  Generator rng(5);
  (void)normal({3}, 0, 1, rng);
  std::int64_t step = 12;
  io::save(path.c_str(), {{"model", saved}, {"rng", rng}, {"step", step}});
  CHECK(folder.count() == 1);

  seed(2);
  Everything loaded;
  Generator other(6);
  std::int64_t reached = 0;
  loaded.pending = zeros({2});
  loaded.flags = zeros({3}, {DType::boolean});
  loaded.eighths = zeros({3}, {DType::f8e4m3}), loaded.fifths = zeros({3}, {DType::f8e5m2});
  loaded.lr = 0;
  loaded.position = 0;
  loaded.number = loaded.count = loaded.byte = 0;
  loaded.flag = false;
  loaded.mode = Mode::train;
  loaded.half = float16(0);
  loaded.list = {0, 0, 0};
  loaded.text = std::string(saved.text.size(), 'x');
  loaded.owned->inner.weight.frozen = true;
  io::load(path.c_str(), {{"model", loaded}, {"rng", other}, {"step", reached}});
  int compared = 0;
  tree::for_each(saved, loaded, [&](const char* path, const auto& a, const auto& b) {
    const Tensor x = At(a).tensor[0], y = At(b).tensor[0];
    CAPTURE(path);
    CHECK(x.dtype() == y.dtype());
    CHECK(x.shape() == y.shape());
    CHECK(numbers(x) == numbers(y));
    ++compared;
  });
  CHECK(compared == 4 + 1 + 2 + 1 + 6 + 2 + 1);
  CHECK(loaded.number == 0.1);
  CHECK(loaded.count == INT64_MIN);
  CHECK(loaded.byte == 200);
  CHECK(loaded.flag);
  CHECK(loaded.mode == Mode::test);
  CHECK(loaded.half.bits == float16(0.1).bits);
  CHECK(loaded.list == std::vector<float>{1.5f, -0.0f, 3e38f});
  CHECK(std::signbit(loaded.list[1]));
  CHECK(loaded.text == saved.text);
  CHECK(loaded.owned->inner.weight.frozen);
  CHECK(reached == 12);
  CHECK(numbers(normal({3}, 0, 1, other)) == numbers(normal({3}, 0, 1, rng)));
  // A Scalar that was loaded is still one: it takes the other operand's dtype.
  CHECK((ones({2}) * loaded.lr).dtype() == DType::f32);
  // Loaded values are values as others are.
  auto f = compile([](Everything& e, const Tensor& x) {
    e.blocks[0].inner.weight -= x;
    return sum(e.blocks[0].inner.weight) + sum(e.flags);
  });
  Tensor before = loaded.blocks[0].inner.weight;
  const std::vector<double> first = numbers(before);
  CHECK(f(loaded, ones({3})).item() == doctest::Approx(f(saved, ones({3})).item()));
  CHECK(numbers(before) == first);
  CHECK(numbers(loaded.blocks[0].inner.weight) == numbers(saved.blocks[0].inner.weight));
}

TEST_CASE("the default generator goes on where it was") {
  const Folder folder;
  const std::string path = folder.file("x");
  seed(3);
  (void)uniform({4});
  io::save(path.c_str(), {{"rng", default_generator()}});
  const std::vector<double> next = numbers(uniform({4}));
  seed(4);
  io::load(path.c_str(), {{"rng", default_generator()}});
  CHECK(numbers(uniform({4})) == next);
}

TEST_CASE("a tensor lies in the mapped file, also after the file has got another content") {
  const Folder folder;
  const std::string path = folder.file("x");
  Tensor value = arange(100000);
  io::save(path.c_str(), {{"x", value}});
  Tensor loaded = zeros({100000}, {DType::i64});
  io::load(path.c_str(), {{"x", loaded}});
  CHECK(storage_of(loaded)->borrowed);
  value = value + 1;
  io::save(path.c_str(), {{"x", value}});
  CHECK(loaded.data<std::int64_t>()[99999] == 99999);
  io::load(path.c_str(), {{"x", loaded}});
  CHECK(loaded.data<std::int64_t>()[99999] == 100000);
  // The result of an update has memory of its own; the file stays.
  auto add = compile([](Tensor& x) { x = x + 1; });
  add(loaded);
  CHECK(loaded.data<std::int64_t>()[99999] == 100001);
  Tensor again = zeros({100000}, {DType::i64});
  io::load(path.c_str(), {{"x", again}});
  CHECK(again.data<std::int64_t>()[99999] == 100000);
}

struct Pair {
  Param weight = ones({2}), bias = ones({3});
};

TEST_CASE("all names that do not fit are listed at once, and nothing is changed") {
  const Folder folder;
  const std::string path = folder.file("x");
  struct Other {
    Param weight = zeros({2}), scale = ones({1}), shift = ones({1});
  } other;
  io::save(path.c_str(), {{"a", other}, {"b", other}, {"n", 3.5}});
  Pair a, b;
  b.weight = ones({2}, {DType::f64});
  const char* all =
      "x does not fit:\n"
      "  b.weight is f64[2], the file has F32[2]\n"
      "  it has no a.bias\n"
      "  it has no b.bias\n"
      "  nothing asks for a.scale\n"
      "  nothing asks for a.shift\n"
      "  nothing asks for b.scale\n"
      "  nothing asks for b.shift\n"
      "  nothing asks for n, at io_test.cpp:";
  CHECK_THROWS_WITH_AS(io::load(path.c_str(), {{"a", a}, {"b", b}}), doctest::Contains(all), Error);
  CHECK_THROWS_WITH_AS(io::load(path.c_str(), {{"c", b}}),
                       doctest::Contains("  nothing asks for b.shift\n  nothing asks for 2 more, at"), Error);
  CHECK(numbers(a.weight) == std::vector<double>{1, 1});
  io::load(path.c_str(), {{"a", a}, {"b", b}}, {.strict = false, .convert = true});
  CHECK(numbers(a.weight) == std::vector<double>{0, 0});
  CHECK(numbers(b.weight) == std::vector<double>{0, 0});
  CHECK(b.weight->dtype() == DType::f64);
  CHECK(numbers(a.bias) == std::vector<double>{1, 1, 1});
  // A shape is never let pass.
  a.weight = ones({3});
  const io::LoadOptions lenient = {.strict = false, .convert = true};
  const char* shape = "does not fit: a.weight is f32[3], the file has F32[2]";
  refused([&] { io::load(path.c_str(), {{"a", a}}, lenient); }, shape);
  std::int64_t whole = 1;
  refused([&] { io::load(path.c_str(), {{"n", whole}}, {.strict = false}); }, "n is 1, the file has 3.5");
}

TEST_CASE("a file under other names, by a table; a part of a file") {
  const Folder folder;
  const std::string path = folder.file("x");
  struct Theirs {
    std::map<std::string, Tensor> h = {{"0.w", ones({2}) * 4}, {"0.b", ones({3}) * 5}};
  } theirs;
  io::save(path.c_str(), theirs);
  std::vector<Pair> layers(1);
  CHECK_THROWS_WITH_AS(io::load(path.c_str(), {{"layers", layers}}),
                       doctest::Contains("\n  it has no layers.0.bias\n  it has no layers.0.weight\n"), Error);
  io::load(path.c_str(), {{"layers", layers}}, {.renames = {{"layers.*.weight", "h.*.w"}, {"layers.*.bias", "h.*.b"}}});
  CHECK(numbers(layers[0].bias) == std::vector<double>{5, 5, 5});
  io::load(path, {{"h", layers}}, {.renames = {{"*.*.weight", "*.*.w"}, {"*.*.bias", "*.*.b"}}});
  CHECK(numbers(layers[0].weight) == std::vector<double>{4, 4});
  Tensor bias = zeros({3}), none = zeros({3});
  refused([&] { io::load(path, {{"h.0.b", bias}}); }, "nothing asks for h.0.w");
  refused([&] { io::load(path, {{"h.0.b", bias}, {"none", none}}, {.allow_extra = true}); }, "it has no none");
  CHECK(numbers(bias) == std::vector<double>{0, 0, 0});
  io::load(path, {{"h.0.b", bias}}, {.allow_extra = true});
  CHECK(numbers(bias) == std::vector<double>{5, 5, 5});
}

TEST_CASE("a file says nothing of the mode; paths are of any kind") {
  const Folder folder;
  const std::string path = folder.file("x");
  struct Model {
    nn::Linear linear{2, 2};
    nn::Dropout dropout{0.5};
    std::int64_t steps = 3;
  } model, other;
  io::save(path, model);
  nn::eval(other);
  other.steps = 0;
  io::load(std::filesystem::path(path), other);
  CHECK_FALSE(other.dropout.training);
  CHECK(other.steps == 3);
  CHECK(io::load_tensors(path).size() == 2);
}

TEST_CASE("a file of another program: its tensors alone, in its order; numbers keep their values") {
  const Folder folder;
  const std::string path = folder.file("x");
  struct Model {
    Param w = zeros({2});
    std::int64_t stride = 2;
  } model;
  test::write_bytes(path, test::safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},)"
                                            R"("__metadata__":{"format":"pt"},)"
                                            R"("v":{"data_offsets":[0,3],"shape":[3,1],"dtype":"U8"}}  )",
                                            11));
  refused([&] { io::load(path.c_str(), model); }, "nothing asks for v");
  io::load(path.c_str(), model, {.strict = false});
  CHECK(model.stride == 2);
  CHECK(!storage_of(model.w)->borrowed);  // byte 3 is no place for a float
  float expected;
  std::memcpy(&expected, "\1\1\1\1", 4);
  CHECK(numbers(model.w) == std::vector<double>{expected, expected});
  const std::vector<io::NamedTensor> all = io::load_tensors(path.c_str());
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "v");
  CHECK(all[0].value.shape() == Shape::of(3, 1));
  CHECK(numbers(all[1].value) == numbers(model.w));
}

TEST_CASE("damaged files are refused, each with its reason") {
  const Folder folder;
  const std::string path = folder.file("x");
  const auto damaged = [&](const std::string& bytes, const char* words, Loc loc = Loc::current()) {
    test::write_bytes(path, bytes);
    refused([&] { io::load_tensors(path.c_str(), loc); }, words, loc);
  };
  using test::safetensors;
  const auto one = [](const char* fields, std::size_t bytes) {
    return safetensors(std::string("{\"a\":{") + fields + "}}", bytes);
  };
  damaged("", "is too short");
  damaged("1234567", "is too short");
  damaged(std::string(8, '\xff'), "is no safetensors file, or truncated");
  damaged(safetensors("{}", 0).substr(0, 9), "truncated");
  damaged(safetensors("", 0), "does not begin with {");
  damaged(safetensors("[]", 0), "does not begin with {");
  damaged(safetensors("{\"a\":", 0), "no JSON, at byte");
  damaged(safetensors("{\"a\xff\":{}}", 0), "no JSON, at byte");
  damaged(safetensors("{\"a\":1}", 0), "does not say the dtype, shape and data_offsets of a");
  damaged(safetensors("{\"a\":{\"b\":{}}}", 0), "does not say");
  damaged(safetensors("{\"__metadata__\":{\"a\":1}}", 0), "no list of tensors");
  damaged(one(R"("dtype":"F32","shape":[1])", 4), "does not say the dtype, shape and data_offsets of a");
  damaged(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4), "does not say");
  damaged(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", 4), "does not say");
  damaged(one(R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])", 4), "does not say");
  damaged(one(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])", 4), "does not say");
  damaged(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])", 4), "does not say");
  damaged(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])", 4), "lies at bytes 0 to 8 of 4");
  damaged(one(R"("dtype":"F32","shape":[1],"data_offsets":[8,4])", 8), "lies at bytes 8 to 4 of 8");
  damaged(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4), "gives a, F32[2], 4 bytes");
  damaged(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 8), "has a hole before a");
  damaged(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 5), "is longer than its tensors: 1 bytes more");
  damaged(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])", 4), "more elements than");
  damaged(one(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])", 4), "more elements than");
  damaged(one(R"("dtype":"F8_E8M0","shape":[4],"data_offsets":[0,4])", 4), "a is F8_E8M0[4], which no tensor can be");
  const std::string entry = R"({"dtype":"U8","shape":[2],"data_offsets":[)";
  damaged(safetensors("{\"a\":" + entry + "0,2]},\"b\":" + entry + "1,3]}}", 3), "has tensors that overlap: b");
  damaged(safetensors("{\"a\":" + entry + "0,2]},\"a\":" + entry + "2,4]}}", 4), "holds a twice");
  damaged(safetensors("{\"a\":" + std::string(100000, '['), 0), "does not say");
  refused([&] { io::load_tensors(folder.file("none").c_str()); }, "none can't be opened: No such file");
  refused([&] { io::load_tensors(std::filesystem::temp_directory_path().c_str()); }, "is no regular file");
}

TEST_CASE("a file that is replaced keeps its mode, a link leads to the new one, and only regular files are replaced") {
  const Folder folder;
  const std::string path = folder.file("x"), link = folder.file("link"), pipe = folder.file("pipe");
  io::save(path.c_str(), {{"x", ones({2})}});
  CHECK(chmod(path.c_str(), 0640) == 0);
  CHECK(symlink("x", link.c_str()) == 0);
  io::save(link.c_str(), {{"x", ones({3})}});
  struct stat status;
  CHECK(lstat(link.c_str(), &status) == 0);
  CHECK(S_ISLNK(status.st_mode));
  CHECK(lstat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0640);
  CHECK(io::load_tensors(path.c_str())[0].value.element_count() == Dim(3));
  CHECK(mkfifo(pipe.c_str(), 0600) == 0);
  refused([&] { io::save(pipe.c_str(), {{"x", ones({2})}}); }, "pipe is no regular file");
  refused([&] { io::save("/dev/null", {{"x", ones({2})}}); }, "/dev/null is no regular file");
  refused([&] { io::load_tensors(pipe.c_str()); }, "pipe is no regular file");
  struct {
    std::string text = "four";
    WEFT_MEMBERS(text)
  } part;
  io::save(path.c_str(), {{"part", part}});
  part.text = "seven..";
  refused([&] { io::load(path.c_str(), {{"part", part}}); }, "part.text has 7 characters, the text in the file 4");
}

TEST_CASE("a process that is killed while it saves leaves the old file and no other") {
  const Folder folder;
  const std::string path = folder.file("x");
  io::save(path.c_str(), {{"x", ones({2})}});
  const std::string before = test::bytes_of(path);
  const pid_t child = fork();
  if (child == 0) {
    NewFile file("save", path.c_str(), Loc::current());
    file.write("half of it");
    std::raise(SIGKILL);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(test::bytes_of(path) == before);
  CHECK(folder.count() == 1);
}

TEST_CASE("a file says nothing of how a table is trained: what was dense is read as one whose gradient stays rows") {
  Folder folder;
  const nn::Embedding dense(9, 5);
  io::save(folder.file("x"), dense);
  nn::Embedding sparse(9, 5, {.sparse = true});
  io::load(folder.file("x"), sparse);
  CHECK(max(abs(sparse.weight - dense.weight)).item() == 0);
  CHECK(sparse.sparse_gradient);
}

TEST_CASE("what can't be saved is refused, and leaves the old file and no other") {
  const Folder folder;
  const std::string path = folder.file("x");
  Tensor value = ones({2});
  io::save(path.c_str(), {{"x", value}});
  const std::string before = test::bytes_of(path);
  refused([&] { io::save(path.c_str(), {{"x", value}, {"x", value}}); }, "two values have the name x");
  refused([&] { io::save(path.c_str(), value); }, "needs a name");
  refused([&] { io::save("", {{"x", value}}); }, "[save] the path is empty");
  refused([&] { io::load("", {{"x", value}}); }, "[load] the path is empty");
  refused([&] { io::save_npy("", value); }, "[save_npy] the path is empty");
  refused([&] { io::save(path.c_str(), {{"__metadata__", value}}); }, "the format keeps the name __metadata__");
  refused([&] { io::save(path.c_str(), {{"x", std::string("\xff")}}); }, "is not UTF-8");
  refused([&] { io::save(folder.file("none/x").c_str(), {{"x", value}}); }, "can't be written: No such file");
  auto inside = compile([](const Tensor& x) {
    io::save("x", {{"x", x}});
    return x;
  });
  CHECK_THROWS_WITH_AS(inside(value), doctest::Contains("inside a compiled function"), Error);
  // A full disk, as a limit on the size of files.
  struct rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = old;
  limit.rlim_cur = 100000;
  setrlimit(RLIMIT_FSIZE, &limit);
  Tensor large = ones({1000000});
  refused([&] { io::save(path.c_str(), {{"x", large}}); }, "can't be written: File too large");
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(test::bytes_of(path) == before);
  CHECK(folder.count() == 1);
}

}  // namespace
}  // namespace weft
