// Image files as tensors: planes of channels instead of pixels side by side.
#include "weft/data/image.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "data/codecs.hpp"
#include "io/file_values.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"

namespace weft::data {

void check_plausible(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t most) {
  const auto limit = static_cast<std::int64_t>(bytes) * most + (std::int64_t{1} << 16);
  if (height > limit / std::max<std::int64_t>(width, 1))
    throw BadImage(
        concat_text("is damaged: ", width, " x ", height, " pixels are more than ", bytes, " bytes can hold"));
}

namespace {

constexpr std::uint8_t png_start[] = {0x89, 'P', 'N', 'G'}, jpeg_start[] = {0xff, 0xd8, 0xff};
template <std::size_t count>
bool starts_with(std::span<const std::uint8_t> bytes, const std::uint8_t (&start)[count]) {
  return bytes.size() >= count && std::equal(start, start + count, bytes.begin());
}

Tensor tensor_of(std::int64_t channels, std::int64_t height, std::int64_t width, Loc loc) {
  const auto bytes = static_cast<std::size_t>(channels * height * width);
  return make_data(allocate(Device::cpu(), std::max<std::size_t>(bytes, 1)),
                   {DType::u8, false, {}, Shape::of(channels, height, width)}, loc);
}

Tensor decode(std::span<const std::uint8_t> bytes, ImageMode mode, Loc loc) {
  const auto wanted = static_cast<std::int64_t>(mode);
  Pixels pixels;
  if (starts_with(bytes, png_start))
    pixels = decode_png(bytes);
  else if (starts_with(bytes, jpeg_start))
    pixels = decode_jpeg(bytes, mode == ImageMode::gray || mode == ImageMode::gray_alpha);
  else
    throw BadImage("is no PNG and no JPEG file");
  const std::int64_t has = pixels.channels, channels = wanted ? wanted : has, count = pixels.height * pixels.width;
  const std::int64_t colours = (has - 1) / 2 * 2 + 1;  // 1 or 3; alpha follows
  Tensor result = tensor_of(channels, pixels.height, pixels.width, loc);
  auto* to = static_cast<std::uint8_t*>(storage_of(result)->data);
  for (std::int64_t c = 0; c < channels; ++c, to += count) {
    const std::uint8_t* from = pixels.bytes.data();
    const bool alpha = channels % 2 == 0 && c == channels - 1;
    if (alpha && has % 2 == 1) {
      std::memset(to, 255, static_cast<std::size_t>(count));
    } else if (!alpha && channels <= 2 && colours == 3) {  // ITU-R 601
      for (std::int64_t i = 0; i < count; ++i, from += has)
        to[i] = static_cast<std::uint8_t>((9798 * from[0] + 19235 * from[1] + 3735 * from[2] + 16384) >> 15);
    } else {
      from += alpha ? has - 1 : colours == 3 ? c : 0;
      for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * has];
    }
  }
  return result;
}

void refuse_trace(const char* operation, Loc loc) {
  if (recorder().trace()) fail(operation, loc, "images can't be read or written inside a compiled function");
}

// The file of an image, for one of the formats.
std::vector<std::uint8_t> encoded(const char* operation, const Tensor& image, bool jpeg, int quality, Loc loc) {
  refuse_trace(operation, loc);
  const Type type = type_of(resolve(At(image, loc), operation));
  const std::int64_t channels = type.shape.rank() == 3 ? type.shape[0].constant() : 0;
  const bool fits = type.dtype == DType::u8 && (jpeg ? channels == 1 || channels == 3 : channels >= 1 && channels <= 4);
  if (!fits)
    fail(operation, loc, "an image is u8[c,h,w] with ", jpeg ? "1 or 3" : "1 to 4", " channels, this one is ",
         to_string(type));
  const std::int64_t height = type.shape[1].constant(), width = type.shape[2].constant();
  const std::int64_t longest = jpeg ? 65535 : 1'000'000;
  if (std::min(height, width) < 1 || std::max(height, width) > longest)
    fail(operation, loc, "the sides of an image are 1 to ", longest, ", this one is ", to_string(type));
  if (quality < 1 || quality > 100) fail(operation, loc, "the quality is ", quality, ", not 1 to 100");
  const io::HostElements elements(image, loc);
  const std::int64_t plane = height * width;
  Pixels pixels{height, width, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(channels * plane))};
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::uint8_t* from = elements.bytes().data() + c * plane;
    for (std::int64_t i = 0; i < plane; ++i) pixels.bytes[static_cast<std::size_t>(i * channels + c)] = from[i];
  }
  try {
    return jpeg ? encode_jpeg(pixels, quality) : encode_png(pixels);
  } catch (const BadImage& reason) {
    fail(operation, loc, reason.what());
  }
}
Tensor bytes_tensor(const std::vector<std::uint8_t>& bytes, Loc loc) {
  return from_span(std::span<const std::uint8_t>(bytes), {static_cast<std::int64_t>(bytes.size())}, loc);
}
void write(const char* operation, const char* path, const std::vector<std::uint8_t>& bytes, Loc loc) {
  NewFile file(operation, path, loc);
  file.write(bytes);
  file.finish();
}

}  // namespace

Tensor read_image(const std::string& path, ImageMode mode, Loc loc) {
  Operation call("read_image", loc);
  refuse_trace("read_image", call.loc());
  const auto file = MappedFile::open("read_image", path.c_str(), call.loc());
  try {
    return decode(file->bytes(), mode, call.loc());
  } catch (const BadImage& reason) {
    fail("read_image", call.loc(), path.c_str(), " ", reason.what());
  }
}
Tensor decode_image(std::span<const std::uint8_t> bytes, ImageMode mode, Loc loc) {
  Operation call("decode_image", loc);
  refuse_trace("decode_image", call.loc());
  try {
    return decode(bytes, mode, call.loc());
  } catch (const BadImage& reason) {
    fail("decode_image", call.loc(), "the image ", reason.what());
  }
}

Tensor encode_png(const Tensor& image, Loc loc) {
  Operation call("encode_png", loc);
  return bytes_tensor(encoded("encode_png", image, false, 100, call.loc()), call.loc());
}
Tensor encode_jpeg(const Tensor& image, int quality, Loc loc) {
  Operation call("encode_jpeg", loc);
  return bytes_tensor(encoded("encode_jpeg", image, true, quality, call.loc()), call.loc());
}
void write_png(const Tensor& image, const std::string& path, Loc loc) {
  Operation call("write_png", loc);
  write("write_png", path.c_str(), encoded("write_png", image, false, 100, call.loc()), call.loc());
}
void write_jpeg(const Tensor& image, const std::string& path, int quality, Loc loc) {
  Operation call("write_jpeg", loc);
  write("write_jpeg", path.c_str(), encoded("write_jpeg", image, true, quality, call.loc()), call.loc());
}

}  // namespace weft::data
