#include "io/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/record.hpp"

namespace weft::io {
namespace {

template <class... Parts>
[[noreturn]] void fail_with_reason(const char* operation, Loc loc, int reason, const Parts&... parts) {
  fail(operation, loc, parts..., ": ", std::strerror(reason));
}

// Memory that belongs to a mapping.
struct MappedStorage : Storage {
  std::shared_ptr<const MappedFile> file;
};

Storage* storage_in(const std::shared_ptr<const MappedFile>& file, const std::uint8_t* bytes, std::size_t size) {
  auto* storage = new MappedStorage;
  storage->device = Device::cpu();
  storage->borrowed = true;
  storage->data = const_cast<std::uint8_t*>(bytes);
  storage->bytes = size;
  storage->file = file;
  storage->free = [](Storage* self) { delete static_cast<MappedStorage*>(self); };
  return storage;
}

// After so many bytes the disk is asked to take them.
constexpr std::int64_t flush_bytes = std::int64_t{8} << 20;

// Closes the last descriptor of a file that has no name any more. Its memory and its place on the disk are freed by
// that, which takes 90 ms for 500 MB; a thread of its own does it, which touches nothing of the process.
void close_in_background(Descriptor descriptor) {
  struct stat status;
  if (!descriptor || fstat(descriptor.get(), &status) != 0 || status.st_size < flush_bytes) return;
  try {
    std::thread([held = std::move(descriptor)] {}).detach();
  } catch (const std::system_error&) {  // no thread to be had: closed here
  }
}

std::int64_t count_of(const Type& type) { return static_cast<std::int64_t>(type.shape.element_count()); }

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const char* operation, const char* path, Loc loc) {
  if (!*path) fail(operation, loc, "the path is empty");
  const Descriptor descriptor(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would be waited for
  if (!descriptor) fail_with_reason(operation, loc, errno, path, " can't be opened");
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0) fail_with_reason(operation, loc, errno, path, " can't be read");
  if (!S_ISREG(status.st_mode)) fail(operation, loc, path, " is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (data == MAP_FAILED) fail_with_reason(operation, loc, errno, path, " can't be mapped");
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::uint8_t*>(data), size));
}
std::shared_ptr<const MappedFile> MappedFile::of(std::string bytes) {
  const std::shared_ptr<MappedFile> made(new MappedFile(nullptr, bytes.size()));
  made->held_ = std::move(bytes);
  made->data_ = reinterpret_cast<const std::uint8_t*>(made->held_.data());
  return made;
}
MappedFile::~MappedFile() {
  if (data_ && held_.empty()) munmap(const_cast<std::uint8_t*>(data_), size_);
}

Tensor tensor_over(const std::shared_ptr<const MappedFile>& file, const std::uint8_t* bytes, const Type& type,
                   Loc loc) {
  const std::size_t size = storage_bytes(type.dtype, count_of(type));
  if (size > 0 && reinterpret_cast<std::uintptr_t>(bytes) % storage_bytes(type.dtype, 1) == 0)
    return make_data(storage_in(file, bytes, size), type, loc);
  Storage* copy = allocate(Device::cpu(), std::max<std::size_t>(size, 1));
  if (size) std::memcpy(copy->data, bytes, size);
  return make_data(copy, type, loc);
}

HostElements::HostElements(const Tensor& value, Loc loc) : value_(value) {
  const Type type = type_of(value);
  if (type.device != Device::cpu()) value_ = to(value, Device::cpu(), loc);
  const Contiguous elements = contiguous(value_, loc);
  storage_ = elements.storage;
  size_ = storage_bytes(type.dtype, count_of(type));
  data_ = static_cast<const std::uint8_t*>(storage_->data) + storage_bytes(type.dtype, elements.offset);
}
HostElements::HostElements(HostElements&& other) noexcept
    : value_(std::move(other.value_)),
      storage_(std::exchange(other.storage_, nullptr)),
      data_(other.data_),
      size_(other.size_) {}
HostElements::~HostElements() {
  if (storage_) release(storage_);
}

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
void NewFile::refuse(const char* what) { fail_with_reason(operation_, loc_, errno, path_, " ", what); }

void NewFile::write(std::span<const std::uint8_t> bytes) {
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
void NewFile::finish() {
  if (fsync(descriptor_.get()) != 0) refuse("can't be written");
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
  const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) fsync(folder.get());
  close_in_background(std::move(replaced));
}

}  // namespace weft::io
