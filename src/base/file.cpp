#include "base/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/fail.hpp"
#include "base/file_size_signal.hpp"
#include "base/host_memory.hpp"

namespace weft {
namespace {

template <class... Parts>
[[noreturn]] void fail_with_reason(const char* operation, Loc loc, int reason, const Parts&... parts) {
  fail(operation, loc, parts..., ": ", std::strerror(reason));
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
    if (!at || at == MAP_FAILED) fail_with_reason(operation, loc, errno, path, " can't be mapped");
  };
  const std::shared_ptr<MappedFile> file(new MappedFile(nullptr, size));
  void* const data = map_at_huge_page(size);  // where the system has the file in huge pages, it maps those
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

std::string unique_name(std::string_view prefix) {
  static std::atomic<std::uint64_t> counter{0};
  return concat_text(prefix, getpid(), "-", counter.fetch_add(1), "-",
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace weft
