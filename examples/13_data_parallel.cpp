// Data-parallel training: several processes train one network, each on its part of every batch. With one process it is
// the same program. Four on this machine, by either launcher:
//   examples/support/launch 4 build/release/examples/13_data_parallel
//   mpirun -np 4 build/release/examples/13_data_parallel
// One process a GPU, with --device cuda: torchrun --no-python --nproc-per-node 2 .../13_data_parallel --device cuda
#include <cstdio>
#include <string>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

using namespace weft;

struct Mlp {
  nn::Linear in{784, 128}, out{128, 10};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

// x and y are this process's rows of the batch. Every process updates its copy of the parameters by the same gradients.
Tensor train_step(Mlp& model, optim::Adam& optimizer, const Tensor& x, const Tensor& y) {
  auto [loss, gradients] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, model);
  optimizer.update(model, distributed::average(gradients));
  return distributed::all_reduce(loss, distributed::Reduction::mean);
}

int main(int count, char** arguments) try {
  bool quick = false, cuda = false;
  for (int i = 1; i < count; ++i) {
    quick = quick || arguments[i] == std::string("--quick");
    cuda = cuda || arguments[i] == std::string("cuda");
  }
  distributed::init();
  const int rank = distributed::rank(), size = distributed::size();
  const Device device = cuda ? Device::cuda(distributed::local_rank()) : Device::cpu();

  seed(1);
  Mlp model;
  nn::to(model, device);
  distributed::replicate(model);  // all begin with the parameters of rank 0
  optim::Adam optimizer(model, {.lr = 1e-3});

  // Of one seed all processes draw the same order, and each takes its rows of a batch.
  const std::int64_t rows = 64, own = rows / size;
  auto batches = data::fashion_mnist(data::Split::train) | data::take(quick ? 1280 : 60000) | data::shuffle() |
                 data::batch(rows, {.drop_last = true}) | data::to(device);
  const auto step = compile(train_step);
  Tensor loss;
  int steps = 0;
  for (const auto& [x, y] : batches) {
    loss = step(model, optimizer, slice(x, 0, rank * own, (rank + 1) * own), slice(y, 0, rank * own, (rank + 1) * own));
    if (++steps % 100 == 0 && rank == 0) std::printf("step %d, loss %.4f\n", steps, loss.item());
  }
  if (rank == 0) std::printf("%d processes, %d steps, loss %.4f\n", size, steps, loss.item());
} catch (const Error& error) {
  std::fprintf(stderr, "rank %d: %s\n", distributed::rank(), error.what());
  return 1;
}
