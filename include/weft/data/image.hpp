// Images: PNG (libpng) and JPEG (libjpeg-turbo), as u8[channels,height,width], and folders of them.
//   auto train = data::ImageFolder("train") | data::map(resized, {.workers = 4}) | data::batch(64) | data::prefetch(2);
// Names and values are torchvision's. Where Weft was built without one of the libraries, the functions throw Error with
// the name of its package.
#pragma once
#include <string>
#include <vector>

#include "weft/tensor.hpp"

namespace weft::data {

// The channels that are wanted; unchanged: those of the file, where a palette counts as its colours. Colours become
// gray by their luminance (ITU-R 601), and alpha that a file has not is 255.
enum class ImageMode : std::uint8_t { unchanged, gray, gray_alpha, rgb, rgb_alpha };

// u8[c,h,w] with c = 1 to 4. PNGs of 16 bits are rounded to 8, and a gamma that a PNG states is applied. The
// orientation that a camera noted is not applied. Throws Error with the path: no such file, no image, one that is
// damaged or truncated, or says that it is larger than its bytes can hold.
Tensor read_image(const std::string& path, ImageMode mode = ImageMode::unchanged, Loc loc = Loc::current());
// The same for the bytes of a file.
Tensor decode_image(std::span<const std::uint8_t> bytes, ImageMode mode = ImageMode::unchanged,
                    Loc loc = Loc::current());

// The bytes of a file, u8[n]; of u8[c,h,w] with c = 1 to 4 for PNG, and 1 or 3 for JPEG, whose quality is 1 to 100.
// Throw Error on other tensors.
Tensor encode_png(const Tensor& image, Loc loc = Loc::current());
Tensor encode_jpeg(const Tensor& image, int quality = 75, Loc loc = Loc::current());
// The same to a file, which appears whole.
void write_png(const Tensor& image, const std::string& path, Loc loc = Loc::current());
void write_jpeg(const Tensor& image, const std::string& path, int quality = 75, Loc loc = Loc::current());

struct LabeledImage {  // a sample of an ImageFolder
  Tensor x;            // u8[c,h,w]
  Tensor y;            // i64[], the position of its class
};
// Images in a folder for each class, at any depth below it: a source of a pipeline. Classes and files are in the order
// of their names; files that end in .png, .jpg or .jpeg count, in any case.
class ImageFolder {
 public:
  // Throws Error where the folder can't be read, holds no folder, or a class has no image.
  explicit ImageFolder(const std::string& path, ImageMode mode = ImageMode::rgb, Loc loc = Loc::current());

  const std::vector<std::string>& classes() const { return classes_; }     // names of the folders, in their order
  std::size_t size() const { return files_.size(); }                       // images
  const std::string& path(std::size_t i) const { return files_[i].path; }  // of image i, which is not checked
  std::int64_t label(std::size_t i) const { return files_[i].label; }  // the position of its class; i is not checked
  LabeledImage operator[](std::size_t i) const;                        // reads the file

 private:
  struct File {
    std::string path;
    std::int64_t label;
  };
  std::vector<std::string> classes_;
  std::vector<File> files_;
  ImageMode mode_;
  Loc loc_;
};

}  // namespace weft::data
