#include "examples/models/resnet.hpp"

#include "tests/models/support.hpp"

namespace models_test {
namespace {

List images(std::int64_t batch, std::int64_t height, std::int64_t width) {
  return {values("images", {batch, 3, height, width}), integers("labels", {batch}, 7)};
}
template <class Block>
void check_resnet(const char* family, std::array<int, 4> blocks, const std::vector<List>& others) {
  const auto loss = [](models::ResNet<Block>& model, const List& in) {
    const Tensor logits = model(in[0]);
    return std::pair{nn::cross_entropy(logits, in[1]), logits};
  };
  check_model(family, models::ResNet<Block>(blocks, 7), images(4, 40, 40), loss, {.others = others, .rate = 0.005});
}

TEST_CASE("ResNet-18: torchvision's losses, logits and gradients") {
  check_resnet<models::BasicBlock>("resnet18", {2, 2, 2, 2}, {});
}
TEST_CASE("ResNet-50's blocks: the same, for any number of images of any size") {
  check_resnet<models::Bottleneck>("resnet50", {1, 1, 2, 1}, {images(3, 48, 44), images(6, 64, 33), images(5, 34, 65)});
}

}  // namespace
}  // namespace models_test
