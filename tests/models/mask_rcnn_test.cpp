#include "examples/models/mask_rcnn.hpp"

#include <fstream>

#include "tests/models/support.hpp"

namespace models_test {
namespace {

const models::MaskRcnnConfig config{.channels = 8, .hidden = 10, .classes = 4, .anchor_sizes = {16, 32}};

// As mask_rcnn_golden.py says it: corners in the left upper part, and sides of 4 to 60.
Tensor boxes(const std::string& name, std::vector<std::int64_t> shape) {
  shape.push_back(4);
  const Tensor v = (values(name, shape) + 1) / 2;
  const Tensor corner = slice(v, -1, 0, 2) * cast(from_list({40.0, 20.0}), DType::f64);
  return concat({corner, corner + 4 + slice(v, -1, 2) * cast(from_list({50.0, 38.0}), DType::f64)}, -1);
}
List inputs(std::int64_t images, std::int64_t height, std::int64_t width, std::int64_t sampled, std::int64_t each) {
  const std::int64_t h = height / 4, w = width / 4, all = images * each;
  const Tensor image = repeat_interleave(arange(images), each, 0);
  const Tensor shown = integers("shown", {images, each}, 2);
  return {values("features0", {images, 8, h, w}),
          values("features1", {images, 8, h / 2, w / 2}),
          integers("places", {images, sampled}, h * w * 3 + (h / 2) * (w / 2) * 3),
          cast(integers("near", {images, sampled}, 2), DType::f64),
          boxes("near_boxes", {images, sampled}),
          concat({unsqueeze(cast(image, DType::f64), 1), reshape(boxes("proposals", {images, each}), {all, 4})}, 1),
          boxes("targets", {all}),
          integers("classes", {all}, 4),
          reshape(shown, {all}) + 2 * image,
          cast(reshape(values("masks", {images, 2, height, width}), {images * 2, height, width}) > 0, DType::f64)};
}

TEST_CASE("Mask R-CNN's heads: torchvision's losses, logits and gradients, for any number of images and boxes") {
  const auto loss = [](models::MaskRcnnHeads& model, const List& in) {
    const List features = {in[0], in[1]};
    const auto proposals = model.proposals(features);
    const auto found = model.boxes(features, in[5]);
    const Tensor loss = model.proposals.loss(proposals, in[2], in[3], in[4]) +
                        model.boxes.loss(found, in[5], in[7], in[6]) +
                        model.masks.loss(model.masks(features, in[5], in[7]), in[5], in[9], in[8]);
    return std::pair{loss, found.logits};
  };
  check_model("mask_rcnn", models::MaskRcnnHeads(config), inputs(2, 64, 96, 5, 3), loss,
              {.renames = models::mask_rcnn_names,
               .others = {inputs(3, 48, 80, 4, 5), inputs(4, 80, 56, 7, 2), inputs(5, 40, 64, 3, 4)},
               .rate = 0.01});
}

TEST_CASE("Mask R-CNN: torchvision's proposals and detections, compiled whole") {
  std::vector<double> proposals, detections;
  std::ifstream file(WEFT_SOURCE_DIR "/tests/models/mask_rcnn_detections.golden");
  int row = 0;
  for (std::string line; std::getline(file, line); ++row) {
    std::istringstream words(line);
    for (double number; words >> number;) (row < 12 ? proposals : detections).push_back(number);
  }
  REQUIRE(detections.size() == 8 * 6);
  models::MaskRcnnHeads model(config);
  nn::to(model, DType::f64);
  load_reference(Golden("mask_rcnn"), model, models::mask_rcnn_names);
  const List in = inputs(1, 64, 96, 1, 1);
  auto detect =
      compile([](const models::MaskRcnnHeads& m, const List& features, std::int64_t height, std::int64_t width) {
        const auto [boxes, scores] = m.proposals.propose(m.proposals(features), 0, height, width, 1440, 12);
        const Tensor rows = pad(boxes, {1, 0});  // of image 0
        return std::pair{boxes, m.boxes.detect(m.boxes(features, rows), rows, height, width, 36, 8)};
      });
  const auto [boxes, found] = detect(model, {in[0], in[1]}, 64, 96);
  const Tensor rows =
      concat({found.boxes, unsqueeze(cast(found.classes, DType::f64), 1), unsqueeze(found.scores, 1)}, 1);
  CHECK(amax(abs(boxes - from_span(proposals, {12, 4}))).item() < 1e-5);
  CHECK(amax(abs(rows - from_span(detections, {8, 6}))).item() < 1e-5);
}

}  // namespace
}  // namespace models_test
