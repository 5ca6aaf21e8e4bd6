// Packages that hold what is bound to a function: mapped, shared between functions, replaced, read by the user.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "base/options.hpp"
#include "io/safetensors.hpp"
#include "package/support.hpp"
#include "runtime/package_file.hpp"
#include "runtime/steps.hpp"
#include "tests/needs_compiler.hpp"

using namespace package_test;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

Tensor forward(const Mlp& model, const Tensor& x) { return softmax(model(x), -1); }
Tensor hidden(const Mlp& model, const Tensor& x) { return relu(model.in(x)); }
using OfTensor = Tensor(const Tensor&);

struct Counted {
  nn::Linear layer{6, 4};
  Buffer calls = Buffer(zeros({}));
  std::string kind = "relu";
};
Tensor count(Counted& model, const Tensor& x) {
  model.calls = Buffer(model.calls.tensor() + 1);
  return model.layer(x);
}
Tensor plain(const Counted& model, const Tensor& x) {
  return model.kind == "relu" ? relu(model.layer(x)) : model.layer(x);
}

// Matrices of a size that products pack, and a convolution.
struct Wide {
  nn::Conv2d convolution{4, 32, 3, {.padding = 1}};
  nn::Linear in{32 * 6 * 6, 96}, out{96, 40};
};
Tensor through_image(const Wide& model, const Tensor& x) {
  return model.out(relu(model.in(reshape(relu(model.convolution(x)), {x.size(0), 32 * 6 * 6}))));
}
Tensor first_product(const Wide& model, const Tensor& x) { return model.in(x); }

struct Many {
  std::vector<Param> parts;
};
Tensor joined(const Many& model, const Tensor& x) {
  std::vector<Tensor> parts;
  for (const Param& each : model.parts) parts.push_back(each.tensor());
  return concat(parts, 0) * x;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("what is bound lies in the package, and is no argument of the function there" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor x = normal({5, 6});
  mark_dynamic(x, 0);
  const std::string file = folder.file("f.weft");
  package(file, {"forward", {.weights = true}}, compile(forward, bind(model)), x);
  const Package loaded = load_package(file);
  CHECK(loaded.weights() == std::vector<std::string>{"in.weight", "in.bias", "out.weight", "out.bias"});
  const auto f = loaded.function<OfTensor>("forward");
  const auto here = compile(forward);
  for (const std::int64_t rows : {5, 2, 64}) {
    const Tensor other = normal({rows, 6});
    CHECK(bits_of(f(other)) == bits_of(here(model, other)));
  }
  CHECK(loaded.describe() ==
        "forward\n  argument 0: f32[s0,6]\n  holds in.weight: f32[16,6]\n  holds in.bias: f32[16]\n"
        "  holds out.weight: f32[3,16]\n  holds out.bias: f32[3]\n  s0 >= 2\n  the result: f32[s0,3]\n");
  CHECK(has(message_of([&] {
              f(normal({5, 7}));
            }),
            "[forward of f.weft] argument 0: size of dimension 1 is 7, the package holds 6"));
  CHECK(has(message_of([&] { loaded.function<Tensor(const Mlp&, const Tensor&)>("forward"); }),
            "the package has argument 0: Tensor; the program has argument 0: struct"));
  // The model may change or go: the file has what it was.
  model = Mlp();
  CHECK(bits_of(f(x)) != bits_of(here(model, x)));
  // Any program reads the weights.
  const std::string bytes = read(file);
  const runtime::PackageFile parsed = runtime::parse_package(bytes, runtime::read_step);
  CHECK(parsed.libraries.at(0).bytes.size() > 1000);  // nothing was loaded
  const auto first = static_cast<std::size_t>(parsed.weights[0].bytes.data() - bytes.data());
  for (std::size_t at = 0; at < bytes.size(); at += 4096) {
    if (at > first || first - at >= 4096) continue;
    const std::string section = bytes.substr(at);
    const io::SafetensorsHeader header =
        io::read_safetensors(std::span(reinterpret_cast<const std::uint8_t*>(section.data()), section.size()));
    CHECK(header.entries.size() == 4);
    CHECK(header.data_begin == first - at);
  }
}

TEST_CASE("functions of one file share their weights, which can be replaced" * needs(a_compiler)) {
  const Folder folder;
  Mlp model, other;
  const Tensor x = normal({5, 6});
  PackageWriter writer;
  writer.add({"forward", {.weights = true}}, compile(forward, bind(model)), x);
  writer.add({"hidden", {.weights = true}}, compile(hidden, bind(model)), x);
  writer.add({"another", {.weights = true}}, compile(hidden, bind(other)), x);
  writer.add("plain", compile(forward), model, x);
  writer.write(folder.file("f.weft"));
  Package loaded = load_package(folder.file("f.weft"));
  std::string names;
  for (const std::string& name : loaded.weights()) names += name + " ";
  CHECK(names ==
        "in.weight in.bias out.weight out.bias another.in.weight another.in.bias another.out.weight another.out.bias ");
  const auto f = loaded.function<OfTensor>("forward"), g = loaded.function<OfTensor>("hidden"),
             h = loaded.function<OfTensor>("another");
  const auto is_of = [&](const Mlp& model) {
    return bits_of(f(x)) == bits_of(compile(forward)(model, x)) && bits_of(g(x)) == bits_of(compile(hidden)(model, x));
  };
  CHECK(is_of(model));
  CHECK(bits_of(h(x)) == bits_of(compile(hidden)(other, x)));
  CHECK(bits_of(loaded.function<Tensor(const Mlp&, const Tensor&)>("plain")(other, x)) ==
        bits_of(compile(forward)(other, x)));
  Package copy = loaded;
  copy.update_constants({{"in.weight", other.in.weight.tensor()},
                         {"in.bias", other.in.bias.tensor()},
                         {"out.weight", other.out.weight.tensor()}});
  loaded.update_constants("out.bias", other.out.bias.tensor());
  CHECK(is_of(other));
  CHECK(bits_of(h(x)) == bits_of(compile(hidden)(other, x)));
  const auto says = [&](const auto& update, const char* text) {
    const std::string message = message_of(update);
    CAPTURE(message);
    CHECK(message.starts_with(std::string("[update_constants] ") + text));
    CHECK(is_of(other));
  };
  says([&] { loaded.update_constants("weight", x); }, "f.weft holds no weight \"weight\", at weights_test.cpp:");
  says([&] { loaded.update_constants("in.bias", zeros({15})); }, "in.bias is f32[15], f.weft holds f32[16], at ");
  says([&] { loaded.update_constants("in.bias", cast(zeros({16}), DType::f64)); },
       "in.bias is f64[16], f.weft holds f32[16], at ");
  says([&] { loaded.update_constants("in.bias", Tensor()); }, "in.bias is undefined, f.weft holds f32[16], at ");
  says(
      [&] {
        loaded.update_constants({{"in.bias", zeros({16})}, {"in.weight", zeros({16})}});
      },
      "in.weight is f32[16]");
  // Elements in another order, and a value that is not computed yet.
  loaded.update_constants("out.weight", transpose(transpose(other.out.weight.tensor(), 0, 1) * 1.0, 0, 1));
  CHECK(is_of(other));
}

TEST_CASE("layers that began as copies of one are replaced each for itself" * needs(a_compiler)) {
  const Folder folder;
  Many model;
  model.parts.assign(3, Param(normal({2})));  // one tensor under three names
  const Tensor x = normal({6});
  PackageWriter writer;
  const auto last = [](const Many& model, const Tensor& x) { return model.parts[2] * slice(x, 0, 4, 6); };
  writer.add({"joined", {.weights = true}}, compile(joined, bind(model)), x);
  writer.add({"last", {.weights = true}}, compile(last, bind(model)), x);
  writer.write(folder.file("f.weft"));
  Package loaded = load_package(folder.file("f.weft"));
  CHECK(loaded.weights() == std::vector<std::string>{"parts.0", "parts.1", "parts.2"});
  const auto f = loaded.function<OfTensor>("joined"), g = loaded.function<OfTensor>("last");
  CHECK(bits_of(f(x)) == bits_of(joined(model, x)));
  const Tensor other = normal({2});
  loaded.update_constants("parts.0", other);
  model.parts[0] = Param(other);
  CHECK(bits_of(f(x)) == bits_of(joined(model, x)));
  CHECK(bits_of(g(x)) == bits_of(last(model, x)));
  loaded.update_constants("parts.2", other * 2);
  model.parts[2] = Param(other * 2);
  CHECK(bits_of(f(x)) == bits_of(joined(model, x)));
  CHECK(bits_of(g(x)) == bits_of(last(model, x)));
}

TEST_CASE("weights that calls have packed: the same bits in each call, and others are seen at once" *
          needs(a_compiler)) {
  const Folder folder;
  Wide written, other;
  const Tensor x = normal({16, 4, 6, 6}), y = normal({5, 32 * 6 * 6});
  mark_dynamic(x, 0);
  PackageWriter writer;
  writer.add({"through_image", {.weights = true}}, compile(through_image, bind(written)), x);
  writer.add({"first_product", {.weights = true}}, compile(first_product, bind(written)), y);
  writer.write(folder.file("f.weft"));
  const auto here = compile(through_image), part = compile(first_product);
  for (const bool packs : {true, false}) {
    Package loaded = load_package(folder.file("f.weft"), {.pack_weights = packs});
    const auto f = loaded.function<OfTensor>("through_image"), g = loaded.function<OfTensor>("first_product");
    const auto call = [&] { f(x), g(y); };
    call();
    const MemoryMeter meter;
    call();
    call();
    // Both functions read one of the matrices. What the convolution keeps is small.
    constexpr std::int64_t shared = 4 * 96 * 32 * 6 * 6, matrices = shared + 4 * 40 * 96;
    CAPTURE(meter.in_use());
    CHECK((meter.in_use() >= matrices) == packs);
    CHECK(meter.in_use() < 3 * shared / 2);
    Wide model = written;
    const auto is_right = [&] {
      bool right = bits_of(g(y)) == bits_of(part(model, y));
      for (const std::int64_t rows : {3, 2, 16}) {
        const Tensor some = normal({rows, 4, 6, 6});
        right = right && bits_of(f(some)) == bits_of(here(model, some));
      }
      return right;
    };
    for (int i = 0; i < 3; ++i) CHECK(is_right());
    const std::int64_t before = meter.in_use();
    loaded.update_constants("in.weight", other.in.weight.tensor());
    model.in.weight = other.in.weight;
    for (int i = 0; i < 3; ++i) CHECK(is_right());
    loaded.update_constants(
        {{"out.weight", other.out.weight.tensor()}, {"convolution.weight", other.convolution.weight.tensor()}});
    model.out.weight = other.out.weight, model.convolution.weight = other.convolution.weight;
    for (int i = 0; i < 3; ++i) CHECK(is_right());
    // The new values, which lie in no file, are held. Of those that were replaced nothing is kept.
    CAPTURE(before);
    CHECK(meter.in_use() - before < 3 * shared / 2);
  }
}

TEST_CASE("threads that call while weights are packed and replaced" * needs(a_compiler)) {
  const Folder folder;
  Wide model;
  const Tensor x = normal({3, 4, 6, 6});
  package(folder.file("f.weft"), {"through_image", {.weights = true}}, compile(through_image, bind(model)), x);
  Package loaded = load_package(folder.file("f.weft"));
  const auto f = loaded.function<OfTensor>("through_image");
  const Tensor weights[] = {model.in.weight.tensor(), Wide().in.weight.tensor()};
  const std::string first = bits_of(compile(through_image)(model, x));
  model.in.weight = weights[1];
  const std::string second = bits_of(compile(through_image)(model, x));
  CHECK(first != second);
  std::atomic<int> wrong = 0, calls = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (; !done; ++calls) {
        const std::string is = bits_of(f(x));
        wrong += is != first && is != second;
      }
    });
  for (int i = 0; i < 40; ++i) {
    for (const int until = calls + 12; calls < until;) std::this_thread::yield();
    loaded.update_constants("in.weight", weights[(i + 1) % 2]);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(bits_of(f(x)) == first);
}

TEST_CASE("a call beside update_constants sees all weights of one update" * needs(a_compiler)) {
  const Folder folder;
  Many model;
  for (int i = 0; i < 32; ++i) model.parts.emplace_back(zeros({1}));
  const Tensor x = ones({1});
  package(folder.file("f.weft"), {"joined", {.weights = true}}, compile(joined, bind(model)), x);
  Package loaded = load_package(folder.file("f.weft"));
  std::map<std::string, Tensor> weights[2];  // all 0, and all 1
  for (const std::string& name : loaded.weights()) weights[0][name] = zeros({1}), weights[1][name] = ones({1});
  REQUIRE(weights[0].size() == model.parts.size());
  const auto f = loaded.function<OfTensor>("joined");
  std::atomic<int> calls = 0, mixed = 0;
  std::atomic<bool> done = false;
  const auto run = [&] {
    for (; !done; ++calls) {
      const Tensor result = f(x);
      const auto elements = result.data<float>();
      if (std::ranges::count(elements, elements[0]) != static_cast<std::ptrdiff_t>(model.parts.size())) ++mixed;
    }
  };
  std::thread threads[] = {std::thread(run), std::thread(run)};
  for (int i = 0; i < 200 || calls < 1000; ++i) loaded.update_constants(weights[i % 2]);
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(mixed.load() == 0);
}

TEST_CASE("a package is read by the user's own reader" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor x = normal({5, 6});
  const std::string file = folder.file("f.weft");
  package(file, {"forward", {.weights = true}}, compile(forward, bind(model)), x);
  const auto turned = [](std::string bytes) {
    for (char& byte : bytes) byte = static_cast<char>(byte ^ 0x5a);
    return bytes;
  };
  write(file, turned(read(file)));
  CHECK(has(message_of([&] { load_package(file); }), "is no package of Weft"));
  const Package loaded = load_package(file, {.reader = [&](const std::string& path) { return turned(read(path)); }});
  std::filesystem::remove(file);
  CHECK(bits_of(loaded.function<OfTensor>("forward")(x)) == bits_of(compile(forward)(model, x)));
  CHECK(has(message_of([&] {
              load_package(file, {.reader = [](const std::string&) -> std::string { throw Error("[key] is wrong"); }});
            }),
            "[key] is wrong"));
}

TEST_CASE("a package that is replaced by a new file stays what it was where it is loaded" * needs(a_compiler)) {
  const Folder folder;
  Mlp model, other;
  const Tensor x = normal({5, 6});
  const std::string file = folder.file("f.weft");
  const auto write_package = [&](const Mlp& from) {
    package(file, {"forward", {.weights = true}}, compile(forward, bind(from)), x);
  };
  write_package(model);
  const auto before = load_package(file).function<OfTensor>("forward");  // no page of its weights was read
  write_package(other);
  const auto after = load_package(file).function<OfTensor>("forward");
  CHECK(bits_of(before(x)) == bits_of(compile(forward)(model, x)));
  CHECK(bits_of(after(x)) == bits_of(compile(forward)(other, x)));
}

TEST_CASE("what becomes of a file whose weights were read does not matter" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor x = normal({5, 6});
  const std::string file = folder.file("f.weft");
  package(file, {"forward", {.weights = true}}, compile(forward, bind(model)), x);
  const std::string bytes = read(file);
  const std::string expected = bits_of(compile(forward)(model, x));
  const Package loaded = load_package(file, {.map_weights = false});
  std::filesystem::resize_file(file, 0);
  const auto function = loaded.function<OfTensor>("forward");
  for (int i = 0; i < 3; ++i) CHECK(bits_of(function(x)) == expected);

  // Of one that is mapped all but the weights.
  write(file, bytes);
  Package mapped = load_package(file);
  const std::string description = mapped.describe();
  std::filesystem::resize_file(file, 0);
  CHECK(mapped.describe() == description);
  mapped.update_constants({{"in.weight", model.in.weight.tensor()},
                           {"in.bias", model.in.bias.tensor()},
                           {"out.weight", model.out.weight.tensor()},
                           {"out.bias", model.out.bias.tensor()}});
  CHECK(bits_of(mapped.function<OfTensor>("forward")(x)) == expected);
}

TEST_CASE("of a package all but the elements of weights is its head" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor x = normal({5, 6});
  const std::string file = folder.file("f.weft");
  package(file, {"forward", {.weights = true}}, compile(forward, bind(model)), x);
  std::string bytes = read(file);
  const auto head_of = [](std::string_view bytes) {
    std::uint64_t size = 0, wanted = 0;
    while (size < bytes.size() && (wanted = runtime::package_head(bytes.substr(0, size))) > size)
      size = std::min<std::uint64_t>(wanted, bytes.size());
    return size;
  };
  const std::size_t elements = (6 * 16 + 16 + 16 * 3 + 3) * sizeof(float);
  CHECK(head_of(bytes) == bytes.size() - elements);
  package(file, "forward", compile(forward), model, x);
  CHECK(head_of(read(file)) == read(file).size());
  // What is cut off or says too much is asked for no further than there is.
  for (std::size_t size = 0; size < bytes.size(); size += size < 1000 ? 1 : 100)
    CHECK(head_of(std::string_view(bytes).substr(0, size)) <= size);
  for (std::size_t at = 16; at < 16 + 8 * 16; ++at) {
    bytes[at] = static_cast<char>(~bytes[at]);
    CHECK(head_of(bytes) <= bytes.size());
    bytes[at] = static_cast<char>(~bytes[at]);
  }
  CHECK(runtime::package_head("no package, and long enough") == 0);
}

TEST_CASE("bytes of weights that are others are found where they are looked for, and a file that ends early" *
          needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor x = normal({5, 6});
  const std::string file = folder.file("f.weft");
  package(file, {"forward", {.weights = true}}, compile(forward, bind(model)), x);
  CHECK(message_of([&] { load_package(file, {.check_weights = true}); }) == "(nothing thrown)");
  std::string bytes = read(file);
  const std::string whole = bytes;
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write(file, bytes);
  CHECK(message_of([&] { load_package(file); }) == "(nothing thrown)");
  CHECK(has(message_of([&] { load_package(file, {.check_weights = true}); }),
            "is damaged: the bytes of out.bias are not those that were written"));
  write(file, whole.substr(0, whole.size() - 4));
  CHECK(has(message_of([&] { load_package(file); }), "was cut off or damaged"));
  write(file, whole + "1234");
  CHECK(has(message_of([&] { load_package(file); }), "was cut off or damaged"));
}

TEST_CASE("what is bound and changes, or varies in its sizes, is refused" * needs(a_compiler)) {
  const Folder folder;
  const Tensor x = normal({5, 6});
  Counted model;
  PackageWriter writer;
  const auto says = [&](const auto& f, const char* text) {
    const std::string message = message_of([&] { writer.add({"f", {.weights = true}}, f, x); });
    CAPTURE(message);
    CHECK(message.starts_with(std::string("[package] \"f\" ") + text));
  };
  says(compile(count, bind(model)), "changes calls, which is bound to it: a package holds what is bound as it is");
  says(compile([](const Tensor& x) { return x + 1; }), "has nothing bound to it: compile(f, bind(model)) has");
  says(compile(plain, bind(model), {.dynamic = true}),
       "has a size of layer.weight that may vary, which is bound to it");
  writer.add({"f", {.weights = true}}, compile(plain, bind(model)), x);  // with the text that it has
  writer.write(folder.file("f.weft"));
  CHECK(bits_of(load_package(folder.file("f.weft")).function<OfTensor>("f")(x)) == bits_of(compile(plain)(model, x)));
}
