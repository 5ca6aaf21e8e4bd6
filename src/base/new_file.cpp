// A file in the making. Apart from file.cpp: a program that runs packages writes none.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/fail.hpp"
#include "base/file.hpp"
#include "base/host_memory.hpp"

namespace weft {
namespace {

// After so many bytes the disk is asked to take them.
constexpr std::int64_t flush_bytes = std::int64_t{8} << 20;

// Closes the last descriptor of a file that has no name any more. The kernel then frees the file's memory and its place
// on the disk, which takes 90 ms for 500 MB. A thread does this, so that the caller does not wait.
void close_in_background(Descriptor descriptor) {
  struct stat status;
  if (!descriptor || fstat(descriptor.get(), &status) != 0 || status.st_size < flush_bytes) return;
  try {
    std::thread([held = std::move(descriptor)] {}).detach();
  } catch (const std::system_error&) {  // no thread to be had: closed here
  }
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

NewFile::NewFile(const char* operation, const char* path, Loc loc) : operation_(operation), path_(path), loc_(loc) {
  if (!*path) fail(operation, loc, "the path is empty");
  struct stat before;
  const bool exists = stat(path, &before) == 0;
  if (exists && !S_ISREG(before.st_mode)) fail(operation, loc, path, " is no regular file");
  if (exists)  // the file that a link leads to is replaced, not the link
    if (char* const target = realpath(path, nullptr)) {
      path_ = target;
      std::free(target);
    }
  // Without a name, so that nothing is left of it where the process is killed; not every file system can.
  descriptor_ = Descriptor(::open(folder_of(path_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  if (!descriptor_) {
    temporary_ = new_name();
    descriptor_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  }
  if (!descriptor_) {
    temporary_.clear();
    refuse("can't be written");
  }
  if (exists) fchmod(descriptor_.get(), before.st_mode & 07777);
}
std::string NewFile::new_name() const { return path_ + "." + unique_name(temporary_prefix); }
std::string NewFile::own_path() const { return "/proc/self/fd/" + std::to_string(descriptor_.get()); }
std::string NewFile::temporary_path() const { return temporary_.empty() ? own_path() : temporary_; }
NewFile::~NewFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}
void NewFile::refuse(const char* what) {
  const int reason = errno;
  fail(operation_, loc_, path_, " ", what, ": ", std::strerror(reason));
}

void NewFile::write(std::span<const std::uint8_t> bytes) {
  if (begun_.empty() && bytes.size() >= huge_page) {
    const auto whole = bytes.first(bytes.size() / huge_page * huge_page);
    put(whole);
    bytes = bytes.subspan(whole.size());
  }
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), huge_page - begun_.size()));
    begun_.insert(begun_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (begun_.size() < huge_page) continue;
    put(begun_);
    begun_.clear();
    return write(bytes);
  }
}
void NewFile::put(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(flushed_ + flush_bytes - written_)));
    if (!write_all(descriptor_.get(), {reinterpret_cast<const char*>(part.data()), part.size()}))
      refuse("can't be written");
    written_ += static_cast<std::int64_t>(part.size());
    bytes = bytes.subspan(part.size());
    if (written_ - flushed_ < flush_bytes) continue;
    // A hint: fsync reports what goes wrong.
    sync_file_range(descriptor_.get(), flushed_, written_ - flushed_, SYNC_FILE_RANGE_WRITE);
    flushed_ = written_;
  }
}
void NewFile::finish(bool flushes) {
  put(begun_);
  if (flushes && fsync(descriptor_.get()) != 0) refuse("can't be written");
  if (temporary_.empty()) {
    const std::string name = new_name();
    if (linkat(AT_FDCWD, own_path().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      refuse("can't be given its name");
    temporary_ = name;
  }
  Descriptor replaced(::open(path_.c_str(), O_PATH | O_CLOEXEC));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) refuse("can't be given its name");
  temporary_.clear();
  // The name is on the disk when its folder is.
  const Descriptor folder(flushes ? ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
  if (folder) fsync(folder.get());
  close_in_background(std::move(replaced));
}

}  // namespace weft
