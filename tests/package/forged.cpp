#include "package/forged.hpp"

#include "weft/fft.hpp"
#include "weft/linalg.hpp"

// Memory that a forged size asks for is refused, not given.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=4096:detect_leaks=0:handle_abort=1";
}

namespace package_test {

namespace {

Tensor forward(const Mlp& model, const Tensor& x) { return softmax(model(x), -1); }
Tensor train_step(Mlp& model, optim::Adam& opt, const Tensor& x, const Tensor& y) {
  auto [loss, grads] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, model);
  opt.update(model, grads);
  return loss;
}
Tensor products(const Tensor& a, const Tensor& b) { return matmul(matmul(a, b), matmul(transpose(b, 1, 2), b)); }
Tensor scanned(const Tensor& x) {
  return scan([](const Tensor& h, const Tensor& row) { return tanh(matmul(unsqueeze(h, 0), outer(row, row)))[0]; },
              zeros({3}), x);
}
Tensor halved(const Tensor& x) {
  return while_loop([](const Tensor& y) { return sum(y) > 1; }, [](const Tensor& y) { return y * 0.5; }, x);
}
Tensor chosen(const Tensor& x) {
  return cond(
      sum(x) > 0, [](const Tensor& x) { return matmul(x, transpose(x, 0, 1)); },
      [](const Tensor& x) { return matmul(x, transpose(x, 0, 1)) * 2; }, x);
}
std::pair<Tensor, Tensor> sorted(const Tensor& x) {
  const Tensor order = argsort(x, -1);
  return {order, gather(x, 1, order)};
}
Tensor looked_up(const Tensor& table, const Tensor& index) {
  return grad([&](const Tensor& table) { return sum(square(gather(table, index))); }, table);
}
Tensor replaced(const Tensor& x, const Tensor& part, const Index& at) { return update_slice(x, part, 0, at); }
std::vector<Tensor> factored(const Tensor& a) {
  const auto [q, r] = linalg::qr(a);
  return {q, r, linalg::solve(matmul(a, transpose(a, 0, 1)) + eye(4), a), linalg::svdvals(a)};
}
Tensor transformed(const Tensor& x) {
  const auto [real, imaginary] = fft::rfft(x);
  return square(real) + square(imaginary);
}
Tensor convolved(const Tensor& image, const Tensor& kernels) { return nn::conv2d(image, kernels); }
Tensor convolved_by_channel(const Tensor& image, const Tensor& kernels) {
  return nn::conv2d(image, kernels, {.groups = 3});
}
Tensor drawn(const Tensor& x) { return x + uniform({3}); }

}  // namespace

std::vector<Forgeable> forgeables(const Folder& folder) {
  seed(5);
  Mlp mlp;
  optim::Adam adam(mlp, {.lr = 1e-2});
  const Tensor x = normal({5, 6}), y = from_list<std::int64_t>({0, 2, 1, 1, 0}), rows = normal({4, 3});
  const Tensor index = from_list<std::int64_t>({3, 0, 3, 1});
  std::vector<Forgeable> all;
  const CompileOptions dynamic{.dynamic = true};
  all.push_back(forgeable(folder, "forward", forward, {}, mlp, x));
  all.push_back(forgeable(folder, "forward of any size", forward, dynamic, mlp, x));
  all.push_back(forgeable(folder, "a training step", train_step, {}, mlp, adam, x, y));
  all.push_back(forgeable(folder, "products", products, dynamic, normal({2, 5, 7}), normal({2, 7, 9})));
  all.push_back(forgeable(folder, "scan", scanned, dynamic, rows));
  all.push_back(forgeable(folder, "while_loop", halved, {}, abs(rows)));
  all.push_back(forgeable(folder, "cond", chosen, {}, rows));
  all.push_back(forgeable(folder, "argsort", sorted, dynamic, rows));
  all.push_back(forgeable(folder, "rows", looked_up, dynamic, normal({40, 8}), index));
  all.push_back(forgeable(folder, "slices", replaced, {}, normal({64, 64}), normal({3, 64}), Index(2)));
  all.push_back(forgeable(folder, "factorizations", factored, {}, normal({4, 3})));
  all.push_back(forgeable(folder, "transforms", transformed, {}, normal({3, 8})));
  all.push_back(forgeable(folder, "convolution", convolved, {}, normal({2, 3, 9, 9}), normal({8, 3, 3, 3})));
  all.push_back(
      forgeable(folder, "convolution of one image", convolved, {}, normal({1, 3, 9, 9}), normal({8, 3, 3, 3})));
  all.push_back(
      forgeable(folder, "depthwise convolution", convolved_by_channel, {}, normal({2, 3, 9, 9}), normal({3, 1, 3, 3})));
  all.push_back(forgeable(folder, "draws", drawn, {}, rows));
  return all;
}

}  // namespace package_test
