// PNG by libpng's simplified interface.
#include "data/codecs.hpp"

#if WEFT_PNG
#include <png.h>

#include <string>

namespace weft::data {
namespace {

// Of 1 to 4 channels.
constexpr png_uint_32 formats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};

struct Image : png_image {
  Image() : png_image() { version = PNG_IMAGE_VERSION; }
  ~Image() { png_image_free(this); }
  Image(const Image&) = delete;
  void check(int worked) const {
    if (!worked || warning_or_error > 1) throw BadImage(std::string("is a damaged PNG file: ") + message);
  }
};

}  // namespace

Pixels decode_png(std::span<const std::uint8_t> file) {
  Image image;
  image.check(png_image_begin_read_from_memory(&image, file.data(), file.size()));
  // Deflate makes at most 1032 bytes of one, which hold eight pixels each.
  check_plausible(image.height, image.width, file.size(), 1032 * 8);
  image.format &= PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits without a gamma mean what 8 bits do
  Pixels result{image.height, image.width, PNG_IMAGE_SAMPLE_CHANNELS(image.format)};
  result.bytes.resize(PNG_IMAGE_SIZE(image));
  image.check(png_image_finish_read(&image, nullptr, result.bytes.data(), 0, nullptr));
  return result;
}

std::vector<std::uint8_t> encode_png(const Pixels& pixels) {
  Image image;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = formats[pixels.channels - 1];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::uint8_t> result(size);
  if (!png_image_write_to_memory(&image, result.data(), &size, 0, pixels.bytes.data(), 0, nullptr))
    throw BadImage(std::string("no PNG can be made of it: ") + image.message);
  result.resize(size);
  return result;
}

}  // namespace weft::data
#else
namespace weft::data {
namespace {
[[noreturn]] void refuse() { throw BadImage("Weft was built without libpng: install libpng-dev and build it again"); }
}  // namespace
Pixels decode_png(std::span<const std::uint8_t>) { refuse(); }
std::vector<std::uint8_t> encode_png(const Pixels&) { refuse(); }
}  // namespace weft::data
#endif
