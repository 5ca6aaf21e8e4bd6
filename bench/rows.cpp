// rows CASE compiled|eager: rows and elements at positions that are data, and other functions whose shape decides their
// speed, taking turns (support.hpp). The first cases update a table of 128 MB that is state, or train it as an
// embedding whose gradient stays rows.
#include <cstring>
#include <string_view>

#include "support.hpp"

using weft::Tensor;

namespace {

bool eager = false;

template <class F, class... Arguments>
void measure(F f, const Arguments&... argument) {
  auto compiled = weft::compile(f);
  Tensor result;
  bench::take_turns([&] { (result = eager ? f(argument...) : compiled(argument...)).eval(); });
}

Tensor normal(weft::Sizes sizes) { return bench::random_normal(sizes, 1); }

struct Table {
  Tensor rows;
};
template <class F>
void update(F f) {
  constexpr std::int64_t rows = 1 << 18, width = 128, count = 256;
  Table table{weft::zeros({rows, width}).eval()};
  const Tensor index = bench::random_labels(count, rows, 2), updates = normal({count, width});
  auto compiled = weft::compile(f);
  bench::take_turns([&] {
    eager ? f(table, index, updates) : compiled(table, index, updates);
    table.rows.eval();
  });
}
void index_add() {
  update([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_add(t.rows, 0, at, u); });
}
void index_put() {
  update([](Table& t, const Tensor& at, const Tensor& u) { t.rows = index_put(t.rows, {at}, u); });
}
void set_rows() {
  update([](Table& t, const Tensor& at, const Tensor& u) { t.rows = set_rows(t.rows, at, u); });
}

template <class Make>
void train(Make make) {
  constexpr std::int64_t rows = 1 << 18, width = 128, count = 256;
  weft::nn::Embedding table(rows, width, {.sparse = true});
  auto optimizer = make(table);
  const Tensor index = bench::random_labels(count, rows, 2), target = normal({count, width});
  const auto step = [](weft::nn::Embedding& table, decltype(optimizer)& optimizer, const Tensor& index,
                       const Tensor& target) {
    auto [loss, gradients] =
        weft::value_and_grad([&](const weft::nn::Embedding& m) { return weft::nn::mse_loss(m(index), target); }, table);
    optimizer.update(table, gradients);
    return loss;
  };
  auto compiled = weft::compile(step);
  bench::take_turns(
      [&] { (eager ? step(table, optimizer, index, target) : compiled(table, optimizer, index, target)).eval(); });
}
void sparse_sgd() {
  train([](const auto& m) { return weft::optim::SGD(m, {.lr = 0.1}); });
}
void sparse_adam() {
  train([](const auto& m) { return weft::optim::Adam(m); });
}

void scatter_amax() {
  constexpr auto f = [](const Tensor& x, const Tensor& index, const Tensor& updates) {
    return scatter_reduce(x, 0, expand(unsqueeze(index, 1), {100000, 64}), updates, weft::ScatterReduction::amax);
  };
  measure(f, normal({1000, 64}), bench::random_labels(100000, 1000, 2), normal({100000, 64}));
}
void roll_flat() {
  measure([](const Tensor& x) { return roll(x, 37); }, normal({1 << 20}));
}
void roll_windows() {
  measure([](const Tensor& x) { return roll(roll(x, -3, 1), -3, 2) * 2; }, normal({8, 56, 56, 96}));
}

constexpr struct {
  std::string_view name;
  void (*run)();
} cases[] = {{"index-add", index_add},   {"index-put", index_put},      {"set-rows", set_rows},
             {"sparse-sgd", sparse_sgd}, {"sparse-adam", sparse_adam},  {"scatter-amax", scatter_amax},
             {"roll-flat", roll_flat},   {"roll-windows", roll_windows}};

}  // namespace

int main(int count, char** arguments) {
  eager = count > 2 && !std::strcmp(arguments[2], "eager");
  for (const auto& one : cases)
    if (count > 1 && one.name == arguments[1]) return one.run(), 0;
  std::fputs("rows: no such case\n", stderr);
  return 2;
}
