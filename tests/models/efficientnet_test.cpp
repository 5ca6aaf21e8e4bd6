#include "examples/models/efficientnet.hpp"

#include "tests/models/support.hpp"

namespace models_test {
namespace {

List images(std::int64_t batch, std::int64_t height, std::int64_t width) {
  return {values("images", {batch, 3, height, width}), integers("labels", {batch}, 7)};
}

TEST_CASE("EfficientNet: torchvision's losses, logits and gradients, for any number of images of any size") {
  const models::EfficientNetConfig config{.stem = 16,
                                          .stages = {{1, 3, 1, 8, 1}, {6, 3, 2, 16, 2}, {4, 5, 2, 24, 2}},
                                          .head = 40,
                                          .classes = 7,
                                          .dropout = 0,
                                          .skip = 0};
  const auto loss = [](models::EfficientNet& model, const List& in) {
    const Tensor logits = model(in[0]);
    return std::pair{nn::cross_entropy(logits, in[1]), logits};
  };
  Renames names = models::efficientnet_names;
  names.insert(names.begin(), {"head.*", "features.4.*"});
  check_model("efficientnet", models::EfficientNet(config), images(4, 32, 32), loss,
              {.renames = names, .others = {images(3, 40, 36), images(6, 56, 33), images(5, 34, 49)}, .rate = 0.005});
}

TEST_CASE("EfficientNet-B0 has torchvision's number of parameters; blocks are left out of samples in training alone") {
  models::EfficientNet model;
  CHECK(nn::num_parameters(model) == 5288548);
  nn::eval(model);
  const Tensor x = values("images", {2, 3, 32, 32});
  CHECK(amax(abs(model(cast(x, DType::f32)) - model(cast(x, DType::f32)))).item() == 0);
}

}  // namespace
}  // namespace models_test
