#include "base/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/fail.hpp"
#include "base/file_size_signal.hpp"

namespace weft {
namespace {

template <class... Parts>
[[noreturn]] void fail_with_reason(const char* operation, Loc loc, int reason, const Parts&... parts) {
  fail(operation, loc, parts..., ": ", std::strerror(reason));
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

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

bool write_all(int descriptor, std::string_view bytes) {
  const NoFileSizeSignal guard;
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::optional<std::string> read_all(int descriptor, std::size_t limit) {
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (static_cast<std::uint64_t>(status.st_size) > limit) return {};
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};  // it shrank meanwhile
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

std::shared_ptr<const MappedFile> MappedFile::open(const char* operation, const char* path, Loc loc, HeadSize head) {
  if (!*path) fail(operation, loc, "the path is empty");
  const Descriptor descriptor(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would be waited for
  if (!descriptor) fail_with_reason(operation, loc, errno, path, " can't be opened");
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0) fail_with_reason(operation, loc, errno, path, " can't be read");
  if (!S_ISREG(status.st_mode)) fail(operation, loc, path, " is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
  const auto require_mapped = [&](const void* at) {
    if (at == MAP_FAILED) fail_with_reason(operation, loc, errno, path, " can't be mapped");
  };
  const std::shared_ptr<MappedFile> file(new MappedFile(nullptr, size));
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require_mapped(data);
  file->data_ = static_cast<const std::uint8_t*>(data);
  char* const bytes = static_cast<char*>(data);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t done = 0;
  while (done < size) {
    const std::uint64_t wanted = head({bytes, done});
    if (wanted <= done) break;
    const std::size_t end = wanted < size ? std::min((wanted + page - 1) / page * page, size) : size;
    while (done < end) {
      const ssize_t count = pread(descriptor.get(), bytes + done, end - done, static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_with_reason(operation, loc, errno, path, " can't be read");
      if (count == 0) fail(operation, loc, path, " was cut off while it was read");
      done += static_cast<std::size_t>(count);
    }
  }
  if (done > 0) mprotect(data, done, PROT_READ);
  if (done < size)
    require_mapped(mmap(bytes + done, size - done, PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor.get(),
                        static_cast<off_t>(done)));
  return file;
}
std::shared_ptr<const MappedFile> MappedFile::of(std::string bytes) {
  const std::shared_ptr<MappedFile> made(new MappedFile(nullptr, bytes.size()));
  made->held_ = std::move(bytes);
  made->data_ = reinterpret_cast<const std::uint8_t*>(made->held_.data());
  return made;
}
MappedFile::~MappedFile() {
  if (data_ && size_ > 0 && held_.empty()) munmap(const_cast<std::uint8_t*>(data_), size_);
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
void NewFile::finish(bool flushes) {
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

std::string unique_name(std::string_view prefix) {
  static std::atomic<std::uint64_t> counter{0};
  return concat_text(prefix, getpid(), "-", counter.fetch_add(1), "-",
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace weft
