// JPEG by libjpeg-turbo's TurboJPEG interface.
#include "data/codecs.hpp"

#if WEFT_JPEG
#include <turbojpeg.h>

#include <memory>
#include <string>

namespace weft::data {
namespace {

struct Handle {
  explicit Handle(tjhandle handle) : handle(handle) {
    if (!handle) throw BadImage("no memory for a JPEG file");
  }
  ~Handle() { tjDestroy(handle); }
  Handle(const Handle&) = delete;
  tjhandle handle;
};
[[noreturn]] void refuse(const Handle& handle) {
  throw BadImage(std::string("is a damaged JPEG file: ") + tjGetErrorStr2(handle.handle));
}

}  // namespace

Pixels decode_jpeg(std::span<const std::uint8_t> file, bool gray) {
  const Handle handle(tjInitDecompress());
  int width = 0, height = 0, sampling = 0, space = 0;
  if (tjDecompressHeader3(handle.handle, file.data(), file.size(), &width, &height, &sampling, &space) != 0)
    refuse(handle);
  // A block of 8 x 8 pixels takes a bit at least (arithmetic coding, which nobody writes, could take less).
  check_plausible(height, width, file.size(), 8 * 64);
  gray = gray || space == TJCS_GRAY;
  Pixels result{height, width, gray ? 1 : 3};
  result.bytes.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * (gray ? 1 : 3));
  if (tjDecompress2(handle.handle, file.data(), file.size(), result.bytes.data(), width, 0, height,
                    gray ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT) != 0) {
    // Warnings about data besides the image are usual; one about its end means that a part of it is not there.
    const std::string_view reason = tjGetErrorStr2(handle.handle);
    if (tjGetErrorCode(handle.handle) != TJERR_WARNING || reason.find("remature end") != reason.npos) refuse(handle);
  }
  return result;
}

std::vector<std::uint8_t> encode_jpeg(const Pixels& image, int quality) {
  const Handle handle(tjInitCompress());
  const bool gray = image.channels == 1;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int failed = tjCompress2(handle.handle, image.bytes.data(), static_cast<int>(image.width), 0,
                                 static_cast<int>(image.height), gray ? TJPF_GRAY : TJPF_RGB, &bytes, &size,
                                 gray ? TJSAMP_GRAY : TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> held(bytes, tjFree);
  if (failed) throw BadImage(std::string("no JPEG can be made of it: ") + tjGetErrorStr2(handle.handle));
  return {bytes, bytes + size};
}

}  // namespace weft::data
#else
namespace weft::data {
namespace {
[[noreturn]] void refuse() {
  throw BadImage("Weft was built without libjpeg-turbo: install libturbojpeg0-dev and build it again");
}
}  // namespace
Pixels decode_jpeg(std::span<const std::uint8_t>, bool) { refuse(); }
std::vector<std::uint8_t> encode_jpeg(const Pixels&, int) { refuse(); }
}  // namespace weft::data
#endif
