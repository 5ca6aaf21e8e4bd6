#include "examples/models/unet.hpp"

#include "tests/models/support.hpp"

namespace models_test {
namespace {

const models::UNetConfig config{
    .channels = 2, .widths = {8, 16, 16}, .blocks = 1, .attention_level = 1, .groups = 4, .eps = 1e-6};

List images(std::int64_t batch, std::int64_t height, std::int64_t width) {
  return {values("images", {batch, 2, height, width}), values("noise", {batch, 2, height, width}),
          integers("steps", {batch}, 1000)};
}

TEST_CASE("U-Net of diffusion: the losses, noise and gradients of diffusers, for any number of images of any size") {
  const auto loss = [](models::UNet& model, const List& in) {
    models::Diffusion diffusion(1000, 1e-4, 0.02, DType::f64);
    nn::to(diffusion, in[0].device());
    const Tensor found = model(diffusion.add_noise(in[0], in[2], in[1]), in[2]);
    return std::pair{nn::mse_loss(found, in[1]), found};
  };
  check_model("unet", models::UNet(config), images(2, 8, 8), loss,
              {.renames = models::unet_names, .others = {images(3, 16, 12), images(5, 8, 20), images(4, 24, 8)}});
}

// A model that knows the image: the noise is what remains.
TEST_CASE("Diffusion: sampling with the true noise gives the image back, with one compilation for all steps") {
  const models::Diffusion diffusion(50);
  const Tensor image = cast(values("image", {2, 1, 4, 4}), DType::f32);
  auto denoise = compile([&](const models::Diffusion& d, const Tensor& image, const Tensor& x, const Index& t) {
    const auto model = [&](const Tensor& x, const Tensor& steps) {
      const Tensor keep = reshape(gather(d.kept, steps), {-1, 1, 1, 1});
      return (x - sqrt(keep) * image) / sqrt(1 - keep);
    };
    return d.denoise(model, x, t, normal(x.shape()));
  });
  Tensor x = normal(image.shape());
  for (std::int64_t t = 49; t >= 0; --t) x = denoise(diffusion, image, x, t);
  CHECK(amax(abs(x - image)).item() < 1e-4);
  CHECK(specialization_count(denoise) <= 2);
}

}  // namespace
}  // namespace models_test
