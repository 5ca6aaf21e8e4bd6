// load open|read|save FOLDER: 500 MB of weights in 40 tensors, taking turns (support.hpp). open: io::load. read: the
// same, and every element is read. save: io::save over the file that is there.
#include <cstdio>
#include <cstring>
#include <string>

#include "support.hpp"

namespace {

using namespace weft;

struct Model {
  std::vector<Tensor> weights;
};
Model zeroed() {
  Model model;
  for (int i = 0; i < 40; ++i) model.weights.push_back(zeros({3125, 1000}));
  bench::eval_all(model);
  return model;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fputs("usage: load open|read|save FOLDER\n", stderr), 2;
  const std::string path = std::string(arguments[2]) + "/weft.safetensors";
  const auto asked = [&](const char* what) { return !std::strcmp(arguments[1], what); };
  if (asked("save")) {
    Model model;
    for (unsigned i = 0; i < 40; ++i) model.weights.push_back(bench::random_normal({3125, 1000}, i));
    bench::take_turns([&] { io::save(path.c_str(), model); });
    return 0;
  }
  Model model = zeroed();
  io::save(path.c_str(), model);
  bench::take_turns([&] {
    io::load(path.c_str(), model);
    if (asked("read"))
      for (const Tensor& weight : model.weights) sum(weight).eval();
  });
}
