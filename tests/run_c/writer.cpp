// writer FOLDER: writes a package of an MLP and of its training step, and what its calls take and give: the four
// parameters, x, what the MLP gives for x, labels, the losses of three steps, and the parameters after those. The same
// in the files that weft_run reads and writes.
#include <fstream>
#include <iostream>

#include "weft/grad.hpp"
#include "weft/io.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"
#include "weft/package.hpp"
#include "weft/random.hpp"

using namespace weft;

namespace {

struct Mlp {
  nn::Linear in{8, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

template <class T>
void write(std::ofstream& to, const Tensor& value) {
  const auto elements = value.data<T>();
  to.write(reinterpret_cast<const char*>(elements.data()), static_cast<std::streamsize>(elements.size() * sizeof(T)));
}
void write(std::ofstream& to, const Mlp& model) {
  write<float>(to, model.in.weight), write<float>(to, model.in.bias);
  write<float>(to, model.out.weight), write<float>(to, model.out.bias);
}

}  // namespace

int main(int, char** arguments) try {
  const std::string folder = arguments[1];
  Mlp model;
  const Tensor x = uniform({4, 8}), any_rows = x * 1, labels = from_list<std::int64_t>({0, 1, 2, 1});
  mark_dynamic(any_rows, 0);
  const auto forward = compile([](const Mlp& model, const Tensor& x) { return softmax(model(x), -1); });
  const auto step = compile([](Mlp& model, const Tensor& x, const Tensor& labels) {
    const auto [loss, gradients] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), labels); }, model);
    optim::SGD sgd(model, {.lr = 0.1});
    sgd.update(model, gradients);
    return loss;
  });
  PackageWriter writer;
  writer.add("forward", forward, model, any_rows);
  writer.write(folder + "/forward.weft");
  writer.add("step", step, model, x, labels);
  writer.write(folder + "/mlp.weft");
  package(folder + "/held.weft", {"forward", {.weights = true}},
          compile([](const Mlp& model, const Tensor& x) { return softmax(model(x), -1); }, bind(model)), x);

  std::ofstream to(folder + "/mlp.values", std::ios::binary);
  write(to, model);
  write<float>(to, x);
  write<float>(to, forward(model, any_rows));
  write<std::int64_t>(to, labels);
  io::save(folder + "/model.safetensors", {{"model", model}});
  io::save_npy(folder + "/x.npy", x);
  io::save_npy(folder + "/labels.npy", labels);
  io::save_npy(folder + "/y.npy", forward(model, any_rows));
  // x again, its elements column by column; the header says so.
  io::save_npy(folder + "/x_of_columns.npy", reshape(transpose(x, 0, 1), {4, 8}));
  std::fstream columns(folder + "/x_of_columns.npy", std::ios::binary | std::ios::in | std::ios::out);
  std::string header(128, ' ');
  columns.read(header.data(), 128);
  columns.seekp(static_cast<std::streamoff>(header.find("False")));
  columns << "True ";
  columns.close();
  for (int i = 0; i < 3; ++i) write<float>(to, step(model, x, labels));
  write(to, model);
  io::save_npy(folder + "/y_after.npy", forward(model, any_rows));
  return to.flush() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
