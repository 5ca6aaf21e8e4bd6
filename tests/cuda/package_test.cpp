// Packages for a device: functions packaged and called here, and called in another process, which loads no compiler.
#include <fstream>

#include "package/support.hpp"
#include "tests/cuda/support.hpp"
#include "weft/cuda.hpp"

using namespace weft;
using namespace package_test;
using cuda_test::sample;

namespace {

struct Layers {
  nn::Linear in{6, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
  WEFT_MEMBERS(in, out)
};

Tensor pointwise(const Tensor& x, const Tensor& y) { return tanh(x) * y + 0.5; }
Tensor reduced(const Tensor& x) { return sum(square(x), {1}) + amax(x, {1}); }
Tensor normalized(const Tensor& x) { return softmax(x * 2, -1); }
Tensor forward(const Layers& model, const Tensor& x) { return softmax(model(x), -1); }
Tensor train_step(Layers& model, optim::Adam& opt, const Tensor& x, const Tensor& y) {
  auto [loss, grads] = value_and_grad([&](const Layers& m) { return nn::cross_entropy(m(x), y); }, model);
  opt.update(model, grads);
  return loss;
}
Tensor products(const Tensor& a, const Tensor& b) { return matmul(matmul(a, b), matmul(transpose(b, 1, 2), b)); }
Tensor looked_up(const Tensor& table, const Tensor& index) {
  return grad([&](const Tensor& table) { return sum(square(gather(table, index))); }, table);
}
Tensor attended(const Tensor& query, const Tensor& keys, const Tensor& mask) {
  return nn::scaled_dot_product_attention(query, keys, keys, {.attn_mask = mask, .enable_gqa = true});
}
std::pair<Tensor, Tensor> sorted(const Tensor& x) {
  const Tensor order = argsort(x, -1);
  return {order, gather(x, 1, order)};
}
Tensor scanned(const Tensor& x) {
  return scan([](const Tensor& h, const Tensor& row) { return tanh(h * 0.5 + row); }, x[0], x);
}

// To the bit, of values that are copied from the device: no kernel is made for that.
template <class T>
std::string host_bits(T& value) {
  detail::LeafList list;
  detail::flatten(value, list);
  std::string text;
  for (const detail::Leaf& leaf : list.leaves) {
    if (!detail::holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    const Tensor here = to(leaf.tensor(), Device::cpu());
    text += here.dtype() == DType::i64 ? bits_of(here) : bits_of(cast(here, DType::f64));
  }
  return text;
}
// All tensors of it there, but numbers.
template <class T>
T there(T value) {
  detail::LeafList list;
  detail::flatten(value, list);
  for (const detail::Leaf& leaf : list.leaves) {
    const bool is_number = leaf.kind == detail::LeafKind::scalar || leaf.kind == detail::LeafKind::index;
    if (detail::holds_tensor(leaf.kind) && leaf.tensor().defined() && !is_number)
      leaf.tensor() = to(leaf.tensor(), Device::cuda());
  }
  return value;
}

bool nvrtc_is_loaded() {
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  return all.find("libnvrtc") != std::string::npos;
}

struct Way {
  std::string folder;
  bool writes;
};

// Where it writes: packages f for these arguments, calls it and writes down what it gives. Else loads it, and holds
// what it gives against that.
template <class R, class... P>
void hold(const Way& way, const std::string& name, R (*f)(P...), const CompileOptions& options, const EntryOptions& how,
          const std::remove_cvref_t<P>&... given) {
  CAPTURE(name);
  const std::string file = way.folder + "/" + name + ".weft", results = way.folder + "/" + name + ".results";
  const auto bits = [&](const auto& call) {
    std::tuple<std::remove_cvref_t<P>...> arguments{there(given)...};
    return std::apply(
        [&](auto&... argument) {
          std::string text;
          for (int i = 0; i < 4; ++i) {  // the third call is recorded
            R result = call(argument...);
            text += host_bits(result);
          }
          ((text += host_bits(argument)), ...);
          return text;
        },
        arguments);
  };
  if (way.writes) {
    const auto compiled = compile(f, options);
    std::tuple<std::remove_cvref_t<P>...> arguments{there(given)...};
    std::apply([&](auto&... argument) { package(file, {"f", how}, compiled, argument...); }, arguments);
    write(results, bits(compiled));
    const auto packaged = load_package(file).template function<R(P...)>("f");
    const bool same_here = bits(packaged) == read(results);
    CHECK(same_here);
  } else {
    const auto packaged = load_package(file).template function<R(P...)>("f");
    const bool same = bits(packaged) == read(results);
    CHECK(same);
  }
}

void all(const Way& way) {
  seed(3);
  const Layers model;
  const optim::Adam adam(model, {.lr = 1e-2});
  const Tensor x = sample({5, 6}, 1), y = from_list<std::int64_t>({0, 2, 1, 1, 0});
  const Tensor wide = sample({64, 1000}, 2), index = from_list<std::int64_t>({3, 0, 3, 1});
  const CompileOptions dynamic{.dynamic = true};
  const EntryOptions text{.devices = {"compute_80"}}, any{};
  hold(way, "pointwise", pointwise, {}, any, wide, wide);
  hold(way, "pointwise of any size", pointwise, dynamic, any, wide, wide);
  hold(way, "PTX", pointwise, {}, text, wide, wide);
  hold(way, "reduction", reduced, {}, any, wide);
  hold(way, "softmax", normalized, {}, any, wide);
  hold(way, "MLP", forward, {}, any, model, x);
  hold(way, "MLP of any size", forward, dynamic, any, model, x);
  hold(way, "training step", train_step, {}, any, model, adam, x, y);
  hold(way, "products", products, dynamic, any, sample({2, 5, 7}, 4), sample({2, 7, 9}, 5));
  hold(way, "rows", looked_up, {}, any, sample({40, 8}, 6), index);
  hold(way, "sort", sorted, {}, any, wide);
  hold(way, "loop", scanned, {}, any, x);
  hold(way, "attention of one query", attended, {}, any, cast(sample({2, 4, 1, 64}, 7), DType::bf16),
       cast(sample({2, 2, 300, 64}, 8), DType::bf16), sample({1, 300}, 9));
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(cuda_test::a_device));

TEST_CASE("cuda: packaged functions give what they gave, here and in a process that loads no compiler") {
  const Folder folder;
  all({folder.path, true});
  const std::string program = std::filesystem::read_symlink("/proc/self/exe"), log = folder.file("log");
  const std::string command = "WEFT_PACKAGES='" + folder.path.string() + "' WEFT_CXX=/nowhere WEFT_CACHE_DIR='" +
                              folder.file("empty") + "' '" + program +
                              "' --no-intro --test-case='cuda: packaged functions there' > '" + log + "' 2>&1";
  const int status = std::system(command.c_str());
  INFO(read(log));
  CHECK(status == 0);
  CHECK(read(log).find(" 1 passed | 0 failed") != std::string::npos);
}
TEST_CASE("cuda: packaged functions there") {
  const char* const folder = std::getenv("WEFT_PACKAGES");
  if (!folder) return;
  all({folder, false});
  CHECK_FALSE(nvrtc_is_loaded());
}

TEST_CASE("cuda: a package made from arguments on the host runs on the device, with its weights") {
  const Folder folder;
  const Layers model;
  const Tensor x = sample({5, 6}, 1);
  const std::string path = folder.file("f.weft");
  package(path, {"f", {.weights = true, .devices = {"sm_80", "sm_90a", "compute_80"}}}, compile(forward, bind(model)),
          x);
  const auto f = load_package(path).function<Tensor(const Tensor&)>("f");
  const Tensor found = to(f(there(x)), Device::cpu()), wanted = forward(model, x);
  CHECK(amax(abs(found - wanted)).item() < 1e-5);
  const std::string text = message_of([&] { f(x); });
  CHECK_MESSAGE(text.find("device is cpu, the package holds cuda:0") != std::string::npos, text);
}

TEST_CASE("cuda: a weight that two functions read lies on the device once, also after it was replaced") {
  const Folder folder;
  constexpr std::int64_t n = 1024, bytes = 4 * n * n;
  const nn::Linear wide(n, n);
  const Tensor x = sample({5, n}, 1), other = sample({n, n}, 2);
  PackageWriter writer;
  const EntryOptions how{.weights = true, .devices = {"compute_80"}};
  writer.add({"once", how}, compile([](const nn::Linear& m, const Tensor& x) { return m(x); }, bind(wide)), x);
  writer.add({"twice", how}, compile([](const nn::Linear& m, const Tensor& x) { return m(m(x)); }, bind(wide)), x);
  writer.write(folder.file("f.weft"));
  const std::int64_t before = cuda::memory_stats().in_use;
  Package loaded = load_package(folder.file("f.weft"));
  CHECK(cuda::memory_stats().in_use - before < 2 * bytes);
  loaded.update_constants("weight", other);
  CHECK(cuda::memory_stats().in_use - before < 2 * bytes);
  const Tensor found = to(loaded.function<Tensor(const Tensor&)>("once")(there(x)), Device::cpu());
  nn::Linear changed = wide;
  changed.weight = Param(other);
  CHECK(amax(abs(found - changed(x))).item() < 1e-3);
}

TEST_CASE("cuda: a check of a packaged function says what failed") {
  const Folder folder;
  const auto rows_of = [](const Tensor& table, const Tensor& index) { return gather(table, index) * 2; };
  const std::string path = folder.file("f.weft");
  const Tensor table = there(ones({4, 3})), good = there(from_list<std::int64_t>({0, 3})),
               bad = there(from_list<std::int64_t>({0, 4}));
  package(path, "f", compile(rows_of), table, good);
  const auto f = load_package(path).function<Tensor(const Tensor&, const Tensor&)>("f");
  const auto first = [&](const Tensor& index) {
    const Tensor here = to(f(table, index), Device::cpu());
    return here.data<float>()[0];
  };
  CHECK(first(good) == 2);
  const std::string text = message_of([&] { first(bad); });
  CHECK_MESSAGE(text.find("out of range [0, 4)") != std::string::npos, text);
  CHECK(first(good) == 2);
}

TEST_SUITE_END();
