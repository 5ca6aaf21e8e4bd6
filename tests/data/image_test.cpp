// Images in and out, folders of them, and files that are none.
#include "weft/data/image.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "data/support.hpp"
#include "io/support.hpp"
#include "weft/data.hpp"

namespace weft {
namespace {

using test::error_of, test::holds;

using data::ImageMode;

std::string golden(const char* name) { return std::string(WEFT_SOURCE_DIR "/tests/data/golden/") + name; }
std::vector<std::uint8_t> bytes(const Tensor& tensor) {
  View<const std::uint8_t> view = tensor.data<std::uint8_t>();
  return {view.begin(), view.end()};
}
// What golden.py says, for so many channels.
std::vector<std::uint8_t> expected(int channels) {
  std::vector<std::uint8_t> values;
  for (int c = 0; c < channels; ++c)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 5; ++x) values.push_back(static_cast<std::uint8_t>(40 * c + 50 * y + 9 * x + 3));
  return values;
}
// A smooth image, as photographs are.
Tensor smooth(int channels, int height, int width) {
  std::vector<std::uint8_t> values;
  for (int c = 0; c < channels; ++c)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        values.push_back(static_cast<std::uint8_t>(127 + 100 * std::sin(0.05 * x + 0.08 * y + c)));
  return from_span(std::span<const std::uint8_t>(values), {channels, height, width});
}
int largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(cast(a, DType::i32) - cast(b, DType::i32))).item<int>();
}

TEST_CASE("PNG files of every kind") {
  const struct {
    const char* name;
    int channels;
  } files[] = {{"gray.png", 1},  {"gray_alpha.png", 2}, {"rgb.png", 3},       {"rgba.png", 4},
               {"rgb16.png", 3}, {"palette.png", 3},    {"interlaced.png", 3}};
  for (const auto& [name, channels] : files) {
    CAPTURE(name);
    const Tensor image = data::read_image(golden(name).c_str());
    CHECK(image.shape().same(Shape::of(channels, 4, 5)));
    CHECK(bytes(image) == expected(channels));
    const std::string file = test::bytes_of(golden(name));
    const std::span whole(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
    CHECK(bytes(data::decode_image(whole)) == expected(channels));
  }
  const std::vector<std::uint8_t> bits = bytes(data::read_image(golden("bits.png").c_str()));
  for (std::size_t i = 0; i < 20; ++i) CHECK(bits[i] == (i / 5 + i % 5) % 2 * 255);
}

TEST_CASE("channels that are wanted") {
  const auto read = [](const char* name, ImageMode mode) {
    return bytes(data::read_image(golden(name).c_str(), mode));
  };
  CHECK(read("rgba.png", ImageMode::rgb) == expected(3));  // alpha is left away
  CHECK(read("gray_alpha.png", ImageMode::gray) == expected(1));
  std::vector<std::uint8_t> opaque = expected(3);
  opaque.insert(opaque.end(), 20, 255);
  CHECK(read("rgb.png", ImageMode::rgb_alpha) == opaque);
  const std::vector<std::uint8_t> colours = expected(3), gray = read("rgb.png", ImageMode::gray),
                                  gray_alpha = read("rgba.png", ImageMode::gray_alpha), all = expected(4);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(std::abs(gray[i] - (0.299 * colours[i] + 0.587 * colours[20 + i] + 0.114 * colours[40 + i])) <= 0.51);
    CHECK(gray_alpha[i] == gray[i]);
    CHECK(gray_alpha[20 + i] == all[60 + i]);
  }
  const std::vector<std::uint8_t> three = read("gray.png", ImageMode::rgb);
  for (std::size_t i = 0; i < 60; ++i) CHECK(three[i] == expected(1)[i % 20]);
}

TEST_CASE("written images are read again") {
  const test::Folder folder;
  const std::string png = folder.file("x.png"), jpeg = folder.file("x.jpg");
  for (int channels : {1, 2, 3, 4}) {
    const Tensor image = smooth(channels, 33, 47);
    data::write_png(image, png.c_str());
    CHECK(bytes(data::read_image(png.c_str())) == bytes(image));
    CHECK(bytes(data::decode_image(bytes(data::encode_png(image)))) == bytes(image));
    if (channels % 2 == 0) continue;
    data::write_jpeg(image, jpeg.c_str(), 95);
    const Tensor again = data::read_image(jpeg.c_str());
    CHECK(again.shape().same(image.shape()));
    CHECK(largest_difference(again, image) <= (channels == 1 ? 3 : 12));
    const Tensor small = data::encode_jpeg(image, 20);
    CHECK(bytes(small).size() < test::bytes_of(jpeg).size());
    CHECK(bytes(data::decode_image(bytes(small), ImageMode::rgb_alpha)).size() == 4 * 33 * 47);
    if (channels == 1) continue;
    const std::vector<std::uint8_t> colours = bytes(again),
                                    gray = bytes(data::read_image(jpeg.c_str(), ImageMode::gray));
    const std::size_t count = gray.size();
    for (std::size_t i = 0; i < count; ++i)
      CHECK(std::abs(gray[i] - (0.299 * colours[i] + 0.587 * colours[count + i] + 0.114 * colours[2 * count + i])) < 4);
  }
  const Tensor black = full({3, 2000, 1500}, std::int64_t{0}, {DType::u8});  // as small as files are
  CHECK(bytes(data::decode_image(bytes(data::encode_png(black)))) == bytes(black));
  CHECK(bytes(data::decode_image(bytes(data::encode_jpeg(black, 50)))) == bytes(black));
  const Tensor view = transpose(smooth(3, 8, 9), 1, 2);  // not as it lies in memory
  CHECK(bytes(data::decode_image(bytes(data::encode_png(view)))) == bytes(view));
  CHECK(folder.count() == 2);
}

TEST_CASE("a folder of images is a source") {
  const test::Folder folder;
  const std::string root = folder.file("train");
  for (const char* name : {"dog", "cat", "cat/deep"}) std::filesystem::create_directories(root + "/" + name);
  for (const char* name : {"/cat/b.PNG", "/cat/a.jpg", "/cat/deep/c.png", "/dog/d.jpeg"}) {
    const Tensor image = full({3, 6, 7}, static_cast<std::int64_t>(name[5] * 2), {DType::u8});
    const bool is_png = std::string(name).ends_with("c.png") || std::string(name).ends_with("PNG");
    is_png ? data::write_png(image, (root + name).c_str()) : data::write_jpeg(image, (root + name).c_str());
  }
  test::write_bytes(root + "/cat/notes.txt", "no image");
  const data::ImageFolder images(root.c_str());
  CHECK(images.classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(images.size() == 4);
  CHECK(holds(images.path(0), "cat/a.jpg"));
  CHECK(images.label(3) == 1);
  const auto halved = [](data::LabeledImage sample) {
    return data::LabeledImage{cast(sample.x, DType::f32) / 2, sample.y};
  };
  int batches = 0;
  for (auto [x, y] : images | data::map(halved, {.workers = 3}) | data::batch(2) | data::prefetch(2)) {
    CHECK(x.shape().same(Shape::of(2, 3, 6, 7)));
    const View<const float> pixels = x.data<float>();
    CHECK(std::abs(pixels[0] - (batches ? 'd' : 'a')) <= 1);
    CHECK(y.data<std::int64_t>()[1] == batches);
    ++batches;
  }
  CHECK(batches == 2);
  // A damaged file among them.
  test::write_bytes(root + "/dog/d.jpeg", "\xff\xd8\xff and nothing else");
  const auto all = [&] {
    for (auto [x, y] : images | data::map(halved, {.workers = 2})) x.eval();
  };
  CHECK(holds(error_of(all), "dog/d.jpeg is a damaged JPEG file"));
  std::filesystem::create_directory(root + "/empty");
  CHECK(holds(error_of([&] { data::ImageFolder(root.c_str()); }), "train/empty holds no .png, .jpg or .jpeg file"));
  CHECK(holds(error_of([&] { data::ImageFolder(folder.file("none").c_str()); }), "none can't be read: No such file"));
  CHECK(holds(error_of([&] { data::ImageFolder((root + "/empty").c_str()); }), "holds no folder"));
}

TEST_CASE("what is no image, and what no image can be, is refused") {
  const test::Folder folder;
  const std::string path = folder.file("x");
  const auto error = [&](const std::string& content) {
    test::write_bytes(path, content);
    return error_of([&] { data::read_image(path.c_str()); });
  };
  CHECK(holds(error_of([&] { data::read_image(folder.file("none").c_str()); }), "[read_image] " + folder.file("none")));
  CHECK(holds(error(""), path + " is no PNG and no JPEG file"));
  CHECK(holds(error("GIF89a"), "is no PNG and no JPEG file"));
  const std::string png = test::bytes_of(golden("rgb.png"));
  for (std::size_t size : {std::size_t{4}, std::size_t{20}, png.size() / 2, png.size() - 14})
    CHECK(holds(error(png.substr(0, size)), path + " is a damaged PNG file: "));
  std::string flipped = png;
  flipped[45] = static_cast<char>(flipped[45] ^ 4);
  CHECK(holds(error(flipped), "is a damaged PNG file: "));
  // A header of 65280 x 65280 pixels with almost nothing after it takes no memory.
  std::string jpeg;
  for (std::uint8_t byte : bytes(data::encode_jpeg(smooth(3, 64, 64)))) jpeg += static_cast<char>(byte);
  for (std::size_t size : {std::size_t{3}, std::size_t{30}, jpeg.size() / 2, jpeg.size() - 4})
    CHECK(holds(error(jpeg.substr(0, size)), path + " is a damaged JPEG file: "));
  const std::size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  CHECK(holds(error(jpeg.replace(frame + 5, 4, std::string("\xff\0\xff\0", 4))), "65280 x 65280 pixels are more than"));

  const auto write = [&](const Tensor& image, int quality = 75) {
    return error_of([&] { data::write_jpeg(image, path.c_str(), quality); });
  };
  CHECK(holds(write(ones({3, 4, 4})), "an image is u8[c,h,w] with 1 or 3 channels, this one is f32[3,4,4]"));
  CHECK(holds(write(smooth(4, 4, 4)), "u8[4,4,4]"));
  CHECK(holds(write(smooth(3, 4, 4), 0), "the quality is 0"));
  CHECK(holds(error_of([&] {
                data::encode_png(full({3, 0, 4}, std::int64_t{1}, {DType::u8}));
              }),
              "the sides of an image"));
  CHECK(
      holds(error_of([&] { data::write_png(smooth(3, 4, 4), "/nowhere/x.png"); }), "/nowhere/x.png can't be written"));
}

}  // namespace
}  // namespace weft
