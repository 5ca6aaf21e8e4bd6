// A user's program outside the project: a training step that runs eagerly and compiled and must give the same numbers,
// and an error that crosses the library's boundary. Exit status 0 only when all of it held.
#include <cmath>
#include <cstdio>
#include <cstring>

#include <weft/weft.hpp>

using namespace weft;

struct Network {
  nn::Linear in{8, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

Tensor train(Network& network, optim::Adam& optimizer, const Tensor& x, const Tensor& y) {
  auto [loss, gradients] = value_and_grad([&](const Network& n) { return nn::cross_entropy(n(x), y); }, network);
  optimizer.update(network, gradients);
  return loss;
}

bool fails(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  return false;
}

bool trains_the_same() {
  seed(1);
  Network eager, compiled = eager;
  optim::Adam eager_optimizer(eager, {.lr = 0.01}), compiled_optimizer = eager_optimizer;
  auto step = compile(train, {.on_compile_error = OnFailure::raise});
  Tensor x = normal({32, 8}), y = cast(sum(x, 1) > 0, DType::i64);
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    double expected = train(eager, eager_optimizer, x, y).item();
    last = step(compiled, compiled_optimizer, x, y).item();
    if (i == 0) first = last;
    if (!(std::abs(last - expected) <= 1e-4 * expected)) return fails("the compiled loss is not the eager one");
  }
  if (!(last < 0.8 * first)) return fails("the loss did not fall");
  Tensor apart = amax(abs(eager.in.weight - compiled.in.weight));
  if (!(apart.item() < 1e-3)) return fails("the parameters are not the same");
  if (explain(step, compiled, compiled_optimizer, x, y).kernels.empty()) return fails("no kernel was compiled");
  std::printf("loss %.4f to %.4f, %zu specialization\n", first, last, specialization_count(step));
  return true;
}

bool keeps_values() {  // in a zip archive too, whose library a program gets with weft
  Tensor x = normal({3, 2});
  io::save("consumer.safetensors", {{"x", x}});
  Tensor y = zeros({3, 2});
  io::load("consumer.safetensors", {{"x", y}});
  io::save_npz("consumer.npz", {{"x", y}});
  const Tensor z = io::load_npz("consumer.npz")[0].value;
  std::remove("consumer.safetensors");
  std::remove("consumer.npz");
  return all(x == z).item<bool>() || fails("a value that was saved is not what is loaded");
}

bool reads_images() {  // by libraries that a program gets with weft, where they are installed
  const Tensor image = cast(reshape(arange(3 * 4 * 5), {3, 4, 5}), DType::u8);
  try {
    for (const Tensor& file : {data::encode_png(image), data::encode_jpeg(image)}) {
      const Tensor again = data::decode_image(file.data<std::uint8_t>());
      if (again.size(2) != 5) return fails("an image that was written is not what is read");
    }
  } catch (const Error& error) {
    return std::strstr(error.what(), "was built without") || fails(error.what());
  }
  return true;
}

bool catches_errors() {
  try {
    matmul(ones({2, 3}), ones({2, 3}));
  } catch (const Error& error) {
    if (std::strstr(error.what(), "[matmul] inner sizes differ: f32[2,3] x f32[2,3], at main.cpp:")) return true;
    return fails(error.what());
  }
  return fails("nothing was thrown");
}

int main() {
  try {
    return trains_the_same() && keeps_values() && reads_images() && catches_errors() ? 0 : 1;
  } catch (const Exception& error) {
    return fails(error.what()) ? 0 : 1;
  }
}
