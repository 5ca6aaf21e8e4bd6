// A folder of images for each class.
#include <algorithm>
#include <filesystem>

#include "base/fail.hpp"
#include "record/record.hpp"
#include "weft/data/image.hpp"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& letter : ending)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

}  // namespace

ImageFolder::ImageFolder(const std::string& path, ImageMode mode, Loc loc) : mode_(mode), loc_(loc) {
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(path.c_str()))
      if (entry.is_directory()) classes_.push_back(entry.path().filename().string());
    std::sort(classes_.begin(), classes_.end());
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      const std::size_t first = files_.size();
      for (const fs::directory_entry& entry :
           fs::recursive_directory_iterator(fs::path(path.c_str()) / classes_[label]))
        if (entry.is_regular_file() && is_image(entry.path()))
          files_.push_back({entry.path().string(), static_cast<std::int64_t>(label)});
      std::sort(files_.begin() + static_cast<std::ptrdiff_t>(first), files_.end(),
                [](const File& a, const File& b) { return a.path < b.path; });
      if (files_.size() == first)
        fail("ImageFolder", loc, path.c_str(), "/", classes_[label], " holds no .png, .jpg or .jpeg file");
    }
  } catch (const fs::filesystem_error& reason) {
    fail("ImageFolder", loc, reason.path1().string(), " can't be read: ", reason.code().message());
  }
  if (classes_.empty()) fail("ImageFolder", loc, path.c_str(), " holds no folder: there is one for each class");
}

LabeledImage ImageFolder::operator[](std::size_t i) const {
  return {read_image(files_[i].path.c_str(), mode_, loc_),
          from_span(std::span<const std::int64_t>(&files_[i].label, 1), {}, loc_)};
}

}  // namespace weft::data
