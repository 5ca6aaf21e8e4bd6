#include "examples/models/vit.hpp"

#include "examples/models/clip.hpp"
#include "tests/models/support.hpp"

namespace models_test {
namespace {

constexpr models::VitConfig config{.image_size = 12, .patch = 4, .width = 16, .layers = 2, .heads = 4, .hidden = 24};

List images(std::int64_t batch) { return {values("images", {batch, 3, 12, 12}), integers("labels", {batch}, 7)}; }

TEST_CASE("ViT: Hugging Face's losses, logits and gradients, for any number of images") {
  const auto loss = [](models::VitClassifier& model, const List& in) {
    const Tensor logits = model(in[0]);
    return std::pair{nn::cross_entropy(logits, in[1]), logits};
  };
  check_model("vit", models::VitClassifier(config, 7), images(3), loss,
              {.renames = models::vit_names, .others = {images(5), images(2), images(8)}});
}

TEST_CASE("DINOv2 with registers: Hugging Face's losses, tokens and gradients") {
  const auto loss = [](models::Vit& model, const List& in) {
    const Tensor tokens = model(in[0]);
    return std::pair{mean(square(tokens - reshape(in[1], tokens.shape()))), tokens};
  };
  models::VitConfig dino = config;
  dino.hidden = 32, dino.registers = 2, dino.layer_scale = true;
  const auto inputs = [](std::int64_t batch) { return List{images(batch)[0], values("target", {batch, 12, 16})}; };
  check_model("dinov2", models::Vit(dino), inputs(3), loss,
              {.renames = models::dinov2_names, .others = {inputs(5), inputs(2), inputs(8)}});
}

TEST_CASE("CLIP: Hugging Face's losses, logits and gradients, for any number of pairs and texts of any length") {
  const auto loss = [](models::Clip& model, const List& in) {
    const Tensor logits = model(in[0], in[1]);
    return std::pair{models::Clip::loss(logits), logits};
  };
  models::ClipConfig clip;
  clip.image = config, clip.image.clip = true, clip.image.eps = 1e-5;
  clip.text.width = 12, clip.text.layers = 2, clip.text.heads = 2, clip.text.hidden = 20;
  clip.vocab_size = 19, clip.context = 10, clip.end_token = 18, clip.dimension = 10;
  const auto inputs = [](std::int64_t batch, std::int64_t length) {
    const Tensor text = integers("tokens", {batch, length}, 18);
    return List{images(batch)[0], where(arange(length) == 5, 18, text)};
  };
  check_model("clip", models::Clip(clip), inputs(3, 8), loss,
              {.renames = models::clip_names, .others = {inputs(5, 6), inputs(2, 9), inputs(8, 10)}, .rate = 0.02});
}

TEST_CASE("ViT refuses images of another size in one sentence") {
  const models::Vit model(config);
  CHECK_THROWS_WITH_AS(model(zeros({1, 3, 12, 16})), "Vit takes images of 12 pixels, not of 16", Error);
}

}  // namespace
}  // namespace models_test
