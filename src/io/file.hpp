// Files whole: mapped for reading, and written so that they appear at once or not at all.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/node.hpp"
#include "runtime/directory.hpp"

namespace weft::io {

// A file's bytes, for reading. They stay while somebody holds the mapping, also when the name is given to another file.
class MappedFile {
 public:
  // Throws Error that names the operation and the path.
  static std::shared_ptr<const MappedFile> open(const char* operation, const char* path, Loc loc);
  // Bytes that somebody else has read.
  static std::shared_ptr<const MappedFile> of(std::string bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  const std::uint8_t* data_;
  std::size_t size_;
  std::string held_;  // what was not mapped
};

// A tensor over bytes of a mapped file, which hold the elements of `type`, a host's, in row-major order. They are
// copied only where they are not aligned for an element.
Tensor tensor_over(const std::shared_ptr<const MappedFile>& file, const std::uint8_t* bytes, const Type& type, Loc loc);
// Elements in row-major order on the host, for writing. The bytes live as long as the object.
class HostElements {
 public:
  HostElements(const Tensor& value, Loc loc);
  HostElements(HostElements&& other) noexcept;
  ~HostElements();
  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  Tensor value_;
  Storage* storage_ = nullptr;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

// A file in the making, in the folder of the path that it will have. It goes unless it is finished, where the file
// system can also when the process is killed. Its bytes are on their way to
// the disk while more are written, so that what finish() waits for is short.
class NewFile {
 public:
  NewFile(const char* operation, const char* path, Loc loc);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  void write(std::span<const std::uint8_t> bytes);
  void write(std::string_view text) { write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}); }
  // Where it lies till then, for a writer of its own.
  std::string temporary_path() const;
  // Flushes to the disk and gives the file its name.
  void finish();

 private:
  [[noreturn]] void refuse(const char* what);
  std::string new_name() const;
  std::string own_path() const;  // that leads to the open file

  const char* operation_;
  std::string path_, temporary_;  // temporary: empty where it has no name yet
  Loc loc_;
  Descriptor descriptor_;
  std::int64_t written_ = 0, flushed_ = 0;  // bytes; flushed: the disk was asked to take them
};

// The folder of a path, "." where it names none.
std::string folder_of(const std::string& path);

}  // namespace weft::io
