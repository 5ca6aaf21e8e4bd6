// writer FOLDER: writes a package of an MLP and of its training step, and what its calls take and give: the four
// parameters, x, what the MLP gives for x, labels, the losses of three steps, and the parameters after those. The same
// in the files that weft_run reads and writes, and a step with an optimizer.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "weft/grad.hpp"
#include "weft/io.hpp"
#include "weft/linalg.hpp"
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

// An argument's name is the end of another one's.
struct Around {
  Param weight = Param(ones({2}));
  nn::Linear in{2, 2};
};
struct Counter {
  Buffer weight = Buffer(zeros({2}));
};
struct MayShift {
  std::optional<Tensor> offset;
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

  package(folder + "/linalg.weft", "f", compile([](const Tensor& x) { return linalg::cholesky(x); }), eye(3));

  Mlp trained;
  optim::AdamW adam(trained, {.lr = 1e-2});
  const auto adam_step = compile([](Mlp& model, optim::AdamW& adam, const Tensor& x, const Tensor& labels) {
    const auto [loss, gradients] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), labels); }, model);
    adam.update(model, gradients);
    return loss;
  });
  package(folder + "/adam.weft", "step", adam_step, trained, adam, x, labels);
  io::save(folder + "/adam.safetensors", {{"model", trained}, {"adam", adam}});
  Tensor adam_loss;
  for (int i = 0; i < 3; ++i) adam_loss = adam_step(trained, adam, x, labels);
  io::save_npy(folder + "/adam_loss.npy", adam_loss);

  const Tensor two = from_list({1.f, 2.f});
  PackageWriter named;
  named.add("around", compile([](const Around& model, const Tensor& x) { return x * model.weight + model.in.bias; }),
            Around{}, two);
  Counter first, second;
  named.add("count", compile([](Counter& a, Counter& b, const Tensor& x) {
              a.weight = Buffer(a.weight.tensor() + x);
              b.weight = Buffer(b.weight.tensor() - x);
            }),
            first, second, two);
  const auto shifted = compile([](const MayShift& by, const Tensor& x) { return by.offset ? x + *by.offset : x * 2; });
  named.add("shifted", shifted, MayShift{}, two);
  named.add("shifted", shifted, MayShift{two}, two);
  named.write(folder + "/named.weft");
  const Tensor weight = from_list({10.f, 20.f}), bias = from_list({3.f, 4.f}), matrix = zeros({2, 2});
  io::save(folder + "/around.safetensors",
           {{"model.weight", weight}, {"model.in.weight", matrix}, {"model.in.bias", bias}});
  io::save(folder + "/exact.safetensors", {{"weight", weight}, {"in.weight", matrix}, {"in.bias", bias}});
  io::save(folder + "/one.safetensors", {{"weight", weight}});
  io::save(folder + "/counts.safetensors", {{"argument 0 (weight)", weight}, {"argument 1 (weight)", bias}});
  io::save_npy(folder + "/two.npy", two);

  std::ofstream to(folder + "/mlp.values", std::ios::binary);
  write(to, model);
  write<float>(to, x);
  write<float>(to, forward(model, any_rows));
  write<std::int64_t>(to, labels);
  io::save(folder + "/model.safetensors", {{"model", model}});
  io::save(folder + "/gap.safetensors", {{"in.weight", model.in.weight}, {"out", model.out}});
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
  // And the bytes of each element the other way round.
  std::ofstream big_endian(folder + "/x_big_endian.npy", std::ios::binary);
  std::ifstream little_endian(folder + "/x.npy", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(little_endian), {}};
  bytes[bytes.find('<')] = '>';
  for (std::size_t at = 128; at < bytes.size(); at += sizeof(float))
    std::reverse(&bytes[at], &bytes[at] + sizeof(float));
  big_endian << bytes;
  for (int i = 0; i < 3; ++i) write<float>(to, step(model, x, labels));
  write(to, model);
  io::save_npy(folder + "/y_after.npy", forward(model, any_rows));
  return to.flush() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
