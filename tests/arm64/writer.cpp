// writer FOLDER ISA...: writes NAME.weft, each with the function `f` for these instruction sets, the arguments of a
// call as NAME.INDEX.npy and what this machine gives for them as NAME.result.npy.
#include <iostream>

#include "examples/models/llama.hpp"
#include "examples/models/resnet.hpp"
#include "weft/fft.hpp"
#include "weft/io.hpp"
#include "weft/linalg.hpp"
#include "weft/package.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

struct Mlp {
  nn::Linear in{40, 64}, out{64, 10};
  Tensor operator()(const Tensor& x) const { return softmax(out(gelu(in(x))), -1); }
};

std::string folder;
std::vector<std::string> isas;

template <class F, class... A>
void write(const std::string& name, const F& f, const A&... argument) {
  package(folder + "/" + name + ".weft", {"f", {.weights = f.is_bound, .isa = isas}}, f.compiled, argument...);
  int index = 0;
  (io::save_npy(folder + "/" + name + "." + std::to_string(index++) + ".npy", argument), ...);
  io::save_npy(folder + "/" + name + ".result.npy", f.compiled(argument...));
}
template <class F>
struct Function {
  F compiled;
  bool is_bound;
};
template <class F, class... Bound>
auto function(F f, Bound... bound) {
  if constexpr (sizeof...(Bound) == 0)
    return Function{compile(f), false};
  else
    return Function{compile(f, bind(bound...)), true};
}

}  // namespace

int main(int count, char** arguments) try {
  folder = arguments[1];
  isas.assign(arguments + 2, arguments + count);
  seed(11);
  const Tensor x = normal({12, 40}), rows = x * 1;
  mark_dynamic(rows, 0);
  write("mlp", function([](const Mlp& model, const Tensor& x) { return model(x); }, Mlp()), rows);
  write("step", function([](const Tensor& weight, const Tensor& x, const Tensor& labels) {
          const auto loss = [&](const Tensor& w) { return nn::cross_entropy(matmul(x, w), labels); };
          return weight - 0.1 * value_and_grad(loss, weight).gradients;
        }),
        normal({40, 10}), x, randint({12}, 0, 10));
  const models::Llama llama(
      {.vocab_size = 50, .context = 16, .width = 32, .hidden = 64, .layers = 2, .heads = 4, .kv_heads = 2});
  write("llama", function([](const models::Llama& model, const Tensor& tokens) { return model(tokens); }, llama),
        reshape(randint({16}, 0, 50), {2, 8}));
  // Large enough for the libraries that this machine multiplies and convolves with.
  write("product", function([](const Tensor& a, const Tensor& b) { return matmul(a, b) * 0.01; }), normal({256, 1024}),
        normal({1024, 1024}));
  write("convolution", function([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {.padding = 1}); }),
        normal({2, 16, 28, 28}), normal({32, 16, 3, 3}));
  write("halves", function([](const Tensor& x) {
          return cast(matmul(cast(x, DType::bf16), cast(transpose(x, 0, 1), DType::bf16)), DType::f32) +
                 cast(sum(cast(x, DType::f16)), DType::f32);
        }),
        x);
  write("functions", function([](const Tensor& x) {
          const Tensor y = abs(x) + 0.5;
          return exp(-y) + log(y) + sin(x * 30) + tanh(x) + erf(x) + pow(y, 1.7) + atan2(x, y) + floor(x) + lgamma(y);
        }),
        x);
  write("loop", function([](const Tensor& x) {
          return scan([](const Tensor& state, const Tensor& row) { return tanh(state * 0.5 + row); }, x[0], x);
        }),
        x);
  write("order", function([](const Tensor& x) {
          return cumsum(sort(x, 1).values, 1) + scatter_add(zeros({12, 40}), 1, argsort(x, 1), x);
        }),
        x);
  write("algebra", function([](const Tensor& x) {
          const Tensor a = matmul(x, transpose(x, 0, 1)) + 5 * eye(12);
          return linalg::solve(a, x) + sum(square(fft::rfft(x).real)) * 0.01;
        }),
        x);
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
