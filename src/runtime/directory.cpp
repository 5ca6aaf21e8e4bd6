#include "runtime/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/fail.hpp"

namespace weft {

namespace {

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// Room below which a compilation is not tried: sources, objects and the library of a large plan.
constexpr std::uint64_t least_room = 4 << 20;

constexpr std::string_view work_prefix = "work-";  // of folders that are in the making
constexpr std::time_t leftover_age = 3600;         // seconds; longer than any publication or compilation takes

// "<prefix><digits>-<digits>-<digits>"
bool is_unique_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  for (int part = 0; part < 3; ++part) {
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0) return false;
    name.remove_prefix(digits);
    if (part < 2 && !name.starts_with('-')) return false;
    if (part < 2) name.remove_prefix(1);
  }
  return name.empty();
}

// Removes an entry, and what is in it when it is a folder (one level).
void remove_entry(int directory, const std::string& name) {
  if (unlinkat(directory, name.c_str(), 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  const Descriptor folder(openat(directory, name.c_str(), directory_flags | O_NOFOLLOW));
  if (!folder) return;
  for (const std::string& each : list_names(folder.get())) unlinkat(folder.get(), each.c_str(), 0);
  unlinkat(directory, name.c_str(), AT_REMOVEDIR);
}

constexpr const char* mark_name = ".weft-directory";

bool has_mark(int directory) {
  struct stat status;
  return fstatat(directory, mark_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == geteuid();
}

bool put_mark(int directory) {
  const Descriptor file(openat(directory, mark_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file)
    write_all(file.get(), "Weft keeps files here that it can make again, and removes them when they are old.\n");
  return static_cast<bool>(file);
}

PrivateDirectory open_checked(const std::string& path) {
  PrivateDirectory result;
  result.path = path;
  for (std::size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0700);  // mostly there already; what matters is whether the open succeeds
  }
  mkdir(path.c_str(), 0700);
  Descriptor opened(open(path.c_str(), directory_flags | O_NOFOLLOW));
  struct stat status;
  if (!opened || fstat(opened.get(), &status) != 0) {
    result.refusal = errno == ENOTDIR || errno == ELOOP ? "it is a link or no directory" : strerror(errno);
  } else if (status.st_uid != geteuid()) {
    result.refusal = concat_text("it is owned by user ", status.st_uid);
  } else if (status.st_mode & (S_IWGRP | S_IWOTH)) {
    result.refusal = "others may write into it";
  } else {
    result.descriptor = std::move(opened);
  }
  return result;
}

}  // namespace

PrivateDirectory open_private_directory(const std::string& path) {
  PrivateDirectory result = open_checked(path);
  if (!result.descriptor) return result;
  const int directory = result.descriptor.get();
  bool listed = false;
  // Before the mark is looked for: another process may be making it.
  const bool empty = list_names(directory, &listed).empty() && listed;
  result.ours = has_mark(directory) || (empty && put_mark(directory));
  return result.ours || empty ? std::move(result) : open_private_directory(path + "/weft");
}

bool is_directory(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<std::string> scratch_paths() {
  std::vector<std::string> paths;
  const char* chosen = std::getenv("TMPDIR");
  for (const char* parent : {chosen ? chosen : "", "/tmp", "/dev/shm"})
    if (parent[0] == '/' && is_directory(parent)) paths.push_back(concat_text(parent, "/weft-", geteuid()));
  return paths;
}

std::optional<WorkDirectory> WorkDirectory::make(const std::string& parent, std::string& reason) {
  PrivateDirectory opened = open_private_directory(parent);
  reason = opened.refusal;
  if (!opened.descriptor) return {};
  WorkDirectory work;
  work.parent_ = std::move(opened.descriptor);
  if (opened.ours) remove_leftovers(work.parent_.get());
  struct statvfs room;
  if (fstatvfs(work.parent_.get(), &room) == 0 && std::uint64_t{room.f_bavail} * room.f_frsize < least_room) {
    reason = strerror(ENOSPC);
    return {};
  }
  std::string name = unique_name(work_prefix);
  if (mkdirat(work.parent_.get(), name.c_str(), 0700) == 0) {
    work.path_ = opened.path + "/" + name;
    work.name_ = std::move(name);
    work.self_ = Descriptor(openat(work.parent_.get(), work.name_.c_str(), directory_flags | O_NOFOLLOW));
  }
  if (work.self_) return work;
  reason = strerror(errno);
  return {};
}

WorkDirectory::~WorkDirectory() {
  if (parent_ && !name_.empty()) remove_entry(parent_.get(), name_);
}

bool WorkDirectory::write(const std::string& name, std::string_view bytes) const {
  const Descriptor file(openat(self_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return file && write_all(file.get(), bytes);
}

std::optional<std::string> WorkDirectory::read(const std::string& name, std::size_t limit) const {
  const Descriptor file(openat(self_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return {};
  return read_all(file.get(), limit);
}

void remove_leftovers(int directory) {
  const std::time_t now = std::time(nullptr);
  for (const std::string& name : list_names(directory)) {
    if (!is_unique_name(name, temporary_prefix) && !is_unique_name(name, work_prefix)) continue;
    struct stat status;
    if (fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (now - status.st_mtime > leftover_age) remove_entry(directory, name);
  }
}

std::vector<std::string> list_names(int directory, bool* listed) {
  std::vector<std::string> names;
  // A stream of its own: reading through `directory` would move the offset that all users of it share.
  const int copy = openat(directory, ".", directory_flags);
  DIR* stream = copy >= 0 ? fdopendir(copy) : nullptr;
  if (listed) *listed = stream;
  if (!stream) {
    if (copy >= 0) close(copy);
    return names;
  }
  while (const dirent* entry = readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(stream);
  return names;
}

}  // namespace weft
