// Files. Descriptors; whole files, mapped for reading, and written so that they appear at once or not at all.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/error.hpp"

namespace weft {

// An open file descriptor, closed at the end of its life. -1 is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

bool write_all(int descriptor, std::string_view bytes);

// All of a regular file from its start; nothing when it can't be read or has more than `limit` bytes.
std::optional<std::string> read_all(int descriptor, std::size_t limit);

// A file's bytes, for reading. They stay while somebody holds the mapping, also when the name is given to another file.
// A process that writes into the file changes the mapped bytes. If the file becomes shorter, a read beyond its new end
// ends this process (SIGBUS).
class MappedFile {
 public:
  // How many bytes at the begin of a file are read into memory instead: who cuts the file off or writes into it
  // afterwards does not change those. Given those that are read so far, none at first, until it asks for no more.
  using HeadSize = std::uint64_t (*)(std::string_view begin);
  static std::uint64_t nothing(std::string_view) { return 0; }
  static std::uint64_t everything(std::string_view) { return UINT64_MAX; }

  // Throws Error that names the operation and the path.
  static std::shared_ptr<const MappedFile> open(const char* operation, const char* path, Loc loc,
                                                HeadSize head = nothing);
  // Bytes that somebody else has read.
  static std::shared_ptr<const MappedFile> of(std::string bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  const std::uint8_t* data_;
  std::size_t size_;
  std::string held_;  // what was not mapped
};

// A file in the making, in the folder of the path that it will have. It goes unless it is finished, where the file
// system can also when the process is killed. Its bytes are on their way to the disk while more are written, so that
// what finish() waits for is short. They are written in whole huge pages, in which the system may then keep the file.
class NewFile {
 public:
  // `operation`: of messages; empty: they name none.
  NewFile(const char* operation, const char* path, Loc loc);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  void write(std::span<const std::uint8_t> bytes);
  void write(std::string_view text) { write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}); }
  // Where the file lies before it has its name, for a library that opens it by a path.
  std::string temporary_path() const;
  // Flushes to the disk and gives the file its name. Without `flushes` a power failure may leave an empty file.
  void finish(bool flushes = true);

 private:
  [[noreturn]] void refuse(const char* what);
  void put(std::span<const std::uint8_t> bytes);
  std::string new_name() const;
  std::string own_path() const;  // that leads to the open file

  const char* operation_;
  std::string path_, temporary_;  // temporary: empty where it has no name yet
  Loc loc_;
  Descriptor descriptor_;
  std::int64_t written_ = 0, flushed_ = 0;  // bytes; flushed: the disk was asked to take them
  std::vector<std::uint8_t> begun_;         // of a huge page that is not written yet
};

// The folder of a path, "." where it names none.
std::string folder_of(const std::string& path);

// A name that no other process and no other call takes: "<prefix><pid>-<counter>-<clock>".
std::string unique_name(std::string_view prefix);

// Files that are in the making have names with this prefix.
inline constexpr std::string_view temporary_prefix = "tmp-";

}  // namespace weft
