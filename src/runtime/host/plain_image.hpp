// A shared object in memory of this process, without the system's loader: for systems where that has no path to open,
// since there is no /proc and no place to write, and for programs that have no loader (-static). In: the bytes of an
// object that calls nothing but memcpy and the like, as generated kernels are. Out: the addresses of its symbols.
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
  void* address_of(std::size_t symbol) const;  // null: it is not defined here
  // Addresses are put where the object wants them. Returns why that can't be; empty where it is done.
  std::string relocate(std::size_t at, std::size_t bytes);

  unsigned char* memory_ = nullptr;
  std::size_t size_ = 0, symbols_at_ = 0, symbols_ = 0, names_at_ = 0, names_ = 0;
};

}  // namespace weft
