// engine_call BACKEND FILE.onnx: ResNet-50 of one image by a backend, taking turns (support.hpp). Writes the model to
// the file before, where it is not there, for a peer that runs the engine by itself.
#include <filesystem>

#include "examples/models/resnet.hpp"
#include "support.hpp"
#include "weft/onnx.hpp"

int main(int count, char** arguments) {
  if (count != 3) return 1;
  auto model = models::resnet50();
  weft::nn::eval(model);
  const weft::Tensor images = bench::random_normal({1, 3, 224, 224}, 1);
  const auto forward = [](decltype(model)& m, const weft::Tensor& x) { return m(x); };
  if (!std::filesystem::exists(arguments[2])) weft::onnx::save(arguments[2], weft::compile(forward), model, images);
  const auto infer = weft::compile(forward, {.backend = arguments[1], .constant_parameters = true});
  bench::take_turns([&] { infer(model, images).eval(); });
}
