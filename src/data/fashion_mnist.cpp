// The Fashion-MNIST loader. In: four IDX files of a folder. Out: normalized images and labels.
#include <unistd.h>

#include <cstdlib>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "weft/data.hpp"

namespace weft::data {
namespace {

constexpr const char* classes[] = {"T-shirt/top", "trouser", "pullover", "dress", "coat",
                                   "sandal",      "shirt",   "sneaker",  "bag",   "ankle boot"};

// Of the training images' pixels, as parts of 255.
constexpr double pixel_mean = 0.28604, pixel_deviation = 0.35302;

std::string path_of(const std::string& folder, const char* name, Loc loc) {
  std::string plain = folder + "/" + name;
  for (const std::string& path : {plain + ".gz", plain})
    if (access(path.c_str(), R_OK) == 0) return path;
  fail("fashion_mnist", loc, "there is no ", name, ".gz in ", folder,
       ": install Debian's package dataset-fashion-mnist, or name a folder by $WEFT_FASHION_MNIST");
}

}  // namespace

Dataset fashion_mnist(Split split, const char* folder, Loc loc) {
  LooseComposite call("fashion_mnist", loc);
  std::string where = folder ? folder : "";
  if (const char* named = std::getenv("WEFT_FASHION_MNIST"); where.empty() && named) where = named;
  if (where.empty()) where = "/usr/share/datasets/fashion-mnist";
  bool train = split == Split::train;
  std::string image_path = path_of(where, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", call.loc());
  std::string label_path = path_of(where, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", call.loc());
  Tensor images = read_idx(image_path.c_str(), loc), labels = read_idx(label_path.c_str(), loc);

  const Type it = type_of(images), lt = type_of(labels);
  bool fits = it.dtype == DType::u8 && it.shape.rank() == 3 && lt.dtype == DType::u8 && lt.shape.rank() == 1 &&
              it.shape[0] == lt.shape[0] && it.shape[1].same(Dim(28)) && it.shape[2].same(Dim(28));
  if (!fits) fail("fashion_mnist", call.loc(), where, " holds images ", to_string(it), " and labels ", to_string(lt));

  float table[256];
  for (int value = 0; value < 256; ++value)
    table[value] = static_cast<float>((value / 255.0 - pixel_mean) / pixel_deviation);
  View<const std::uint8_t> pixels = images.data<std::uint8_t>(), numbers = labels.data<std::uint8_t>();
  std::int64_t count = lt.shape[0].constant();
  Tensor x = make_data(allocate({}, pixels.size() * sizeof(float)), {DType::f32, false, {}, Shape::of(count, 784)},
                       call.loc());
  Tensor y = make_data(allocate({}, numbers.size() * sizeof(std::int64_t)), {DType::i64, false, {}, Shape::of(count)},
                       call.loc());
  auto* to_x = static_cast<float*>(storage_of(x)->data);
  auto* to_y = static_cast<std::int64_t*>(storage_of(y)->data);
  for (std::size_t i = 0; i < pixels.size(); ++i) to_x[i] = table[pixels[i]];
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= std::size(classes))
      fail("fashion_mnist", call.loc(), label_path, ": label ", i, " is ", int{numbers[i]});
    to_y[i] = numbers[i];
  }
  return {x, y};
}

const char* fashion_mnist_class(std::int64_t label) {
  return label >= 0 && label < static_cast<std::int64_t>(std::size(classes)) ? classes[label] : "?";
}

}  // namespace weft::data
