// The bytes of image files and their pixels. The libraries are known to png.cpp and jpeg.cpp alone.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace weft::data {

// Why an image can't be read or made; whoever has the path makes it an Error.
struct BadImage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Rows of pixels, whose channels lie side by side.
struct Pixels {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> bytes = {};
};

// With the channels of the file. `gray`: a JPEG's luminance alone.
Pixels decode_png(std::span<const std::uint8_t> file);
Pixels decode_jpeg(std::span<const std::uint8_t> file, bool gray);
std::vector<std::uint8_t> encode_png(const Pixels& image);
std::vector<std::uint8_t> encode_jpeg(const Pixels& image, int quality);

// Memory is taken for no more pixels than so many bytes can hold. `most`: pixels of a byte.
void check_plausible(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t most);

}  // namespace weft::data
