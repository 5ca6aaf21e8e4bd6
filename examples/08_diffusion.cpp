// Train a U-Net to take noise out of images of clothes, and let it make some from noise alone: a grid of 64, as a PNG.
#include "examples/models/unet.hpp"
#include "examples/support/run.hpp"

using namespace weft;

models::UNetConfig sizes() {
  return {.channels = 1, .widths = {16, 32, 64}, .blocks = 1, .attention_level = 2, .groups = 8};
}

struct State {  // all that a checkpoint holds
  State(Device device, std::int64_t seed)
      : model(sizes()), average(model), optimizer(model), draws(static_cast<std::uint64_t>(seed)) {
    nn::to(model, device), nn::to(average, device), nn::to(optimizer, device);
  }
  models::UNet model, average;  // images are made with the average of the weights over the last hundred steps or so
  optim::AdamW optimizer;
  Generator draws;
  std::int64_t step = 0;
  WEFT_MEMBERS(model, average, optimizer, draws, step)
};

struct Settings {
  std::int64_t batch = 64, noises = 200;
  double steps = 0;
  DType dtype = DType::f32;
};
Tensor train_step(models::UNet& model, models::UNet& average, optim::AdamW& optimizer, Generator& draws,
                  const models::Diffusion& diffusion, const Tensor& images, const Settings& s) {
  const Device device = images.device();
  const Tensor some = gather(images, randint({s.batch}, 0, std::int64_t(images.size(0)), draws, {.device = device}));
  const Tensor times = randint({s.batch}, 0, s.noises, draws, {.device = device});
  const Tensor noise = to(normal(some.shape(), 0, 1, draws), device);
  auto [loss, gradients] = value_and_grad(
      [&](models::UNet& m) {
        return support::in_dtype(m, s.dtype, [&](auto& m) {
          const Tensor noisy = diffusion.add_noise(some, times, noise);
          return nn::mse_loss(cast(m(cast(noisy, s.dtype), times), DType::f32), noise);
        });
      },
      model);
  nn::clip_grad_norm(gradients, 1.0);
  optimizer.lr = optim::one_cycle_lr(2e-3, optimizer.steps, s.steps);
  optimizer.update(model, gradients);
  tree::for_each(average, model, [](Param& a, const Param& now) { a = lerp(a, now, 0.02); });
  return loss;
}

int main(int count, char** arguments) {
  return support::guarded([&] {
    support::Training run;
    std::string folder, picture = "diffusion.png";
    std::int64_t steps = 1500;
    const support::Given given = support::parse(count, arguments, run,
                                                {{"--data", folder, "FOLDER: with Fashion-MNIST's four files"},
                                                 {"--steps", steps, "N: of training"},
                                                 {"--picture", picture, "FILE: the grid of images"}});
    Settings settings{.dtype = run.dtype()};
    if (run.quick) given.set_unless_given<std::int64_t>("--steps", steps, 4), settings.batch = 8, settings.noises = 4;
    settings.steps = static_cast<double>(steps);
    const auto clothes = data::fashion_mnist(data::Split::train, folder.empty() ? nullptr : folder.c_str());
    const Tensor darkest = amin(clothes.x), lightest = amax(clothes.x);
    const Tensor images =
        to(reshape((clothes.x - darkest) / (lightest - darkest) * 2 - 1, {-1, 1, 28, 28}), run.device());
    images.eval();
    // The usual thousand steps, in fewer and larger ones.
    const double larger = 1000.0 / static_cast<double>(settings.noises);
    models::Diffusion diffusion(settings.noises, std::min(1e-4 * larger, 0.5), std::min(0.02 * larger, 0.9));
    nn::to(diffusion, run.device());

    State state(run.device(), run.seed);
    auto step = compile(train_step);
    const bool whole = support::train(
        run, state, steps,
        [&] { return step(state.model, state.average, state.optimizer, state.draws, diffusion, images, settings); },
        200);
    if (!whole) return;

    auto denoise = compile([](const models::UNet& model, const models::Diffusion& diffusion, const Tensor& x,
                              const Index& t, Generator& draws) {
      return diffusion.denoise(model, x, t, to(normal(x.shape(), 0, 1, draws), x.device()));
    });
    Generator draws(static_cast<std::uint64_t>(run.seed));
    const std::int64_t side = run.quick ? 2 : 8;
    Tensor x = to(normal({side * side, 1, 28, 28}, 0, 1, draws), run.device());
    {
      Progress progress("sampling", settings.noises);
      for (std::int64_t t = settings.noises - 1; t >= 0; --t, progress.tick())
        x = denoise(state.average, diffusion, x, t, draws).eval();
    }
    const Tensor bytes = cast(round((clamp(x, -1, 1) + 1) * 127.5), DType::u8);  // of the images, row by row
    const Tensor grid = permute(reshape(bytes, {side, side, 28, 28}), {0, 2, 1, 3});
    data::write_png(to(reshape(grid, {1, side * 28, side * 28}), Device::cpu()), picture);
    std::printf("%lld images are in %s\n", static_cast<long long>(side * side), picture.c_str());
  });
}
