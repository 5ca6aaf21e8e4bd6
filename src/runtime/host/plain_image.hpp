// A shared object in memory of this process, without the system's loader: for systems where that has no path to open,
// since there is no /proc and no place to write. In: the bytes of an object that needs nothing: no relocation, no other
// library, no symbol that it does not define. Most kernels are such. Out: the addresses of its symbols.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

class PlainImage {
 public:
  // Null where it can't be, and why. No bytes make it read outside of them.
  static std::unique_ptr<PlainImage> map(std::string_view bytes, std::string& reason);
  PlainImage(const PlainImage&) = delete;
  ~PlainImage();
  void* find(std::string_view symbol) const;  // null: it has none of that name

 private:
  PlainImage() = default;
  std::string_view name_of(std::size_t symbol) const;

  unsigned char* memory_ = nullptr;
  std::size_t size_ = 0, symbols_at_ = 0, symbols_ = 0, names_at_ = 0, names_ = 0;
};

}  // namespace weft
