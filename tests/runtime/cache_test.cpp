#include "runtime/cache.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "tests/runtime/support.hpp"

using weft::Cache;
using weft::Digest;
using weft::test::CaptureLog;
using weft::test::Folder;
using weft::test::KeepOptions;
using weft::test::KeepVariable;
using weft::test::mounting;
using weft::test::needs;
using weft::test::root;

namespace {

const Digest key = weft::digest("key");
const Digest other_key = weft::digest("other");

std::string entry_path(const std::string& folder, const Digest& of = key) { return folder + "/" + hex(of) + ".weft"; }

std::string payload_of(const Cache& cache, const Digest& of = key) {
  const auto entry = cache.load(of);
  return entry ? entry->payload : "(miss)";
}

void age(const std::string& path, std::time_t seconds) {
  const timespec when{std::time(nullptr) - seconds, 0};
  const timespec times[] = {when, when};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

// A small file system of its own. Needs mounting.
struct SmallDisk {
  Folder folder;
  explicit SmallDisk(const char* options) {
    REQUIRE(mount("weft-test", folder.path().c_str(), "tmpfs", 0, options) == 0);
  }
  SmallDisk(const SmallDisk&) = delete;
  ~SmallDisk() { umount2(folder.path().c_str(), MNT_DETACH); }
};

std::string tracing() {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return "ptrace is not allowed here";
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return {};
}

}  // namespace

TEST_CASE("what was stored is loaded, byte for byte, and nothing else") {
  const Folder folder;
  Cache cache({folder.path()});
  const std::string payload("payload\0with zeros\n", 19);
  CHECK_FALSE(cache.load(key));
  CHECK(cache.store(key, "{\"a\": 1}", payload));
  const auto entry = cache.load(key);
  REQUIRE(entry);
  CHECK(entry->metadata == "{\"a\": 1}");
  CHECK(entry->payload == payload);
  CHECK_FALSE(cache.load(other_key));
  CHECK(payload_of(Cache({folder.path()})) == payload);  // another process's view
  CHECK(cache.store(key, "", "newer"));
  CHECK(payload_of(cache) == "newer");
  CHECK(cache.store(other_key, "", ""));
  CHECK(payload_of(cache, other_key).empty());
  CHECK(folder.names().size() == 2);  // no temporary file is left
}

TEST_CASE("every flipped bit is a miss") {
  const Folder folder;
  Cache cache({folder.path()});
  cache.store(key, "{}", std::string(200, 'p'));
  const std::string path = entry_path(folder.path());
  const std::string good = weft::test::read_file(path);
  const weft::Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    const off_t position = static_cast<off_t>(bit / 8);
    const char bad = static_cast<char>(good[bit / 8] ^ 1 << bit % 8);
    REQUIRE(pwrite(file.get(), &bad, 1, position) == 1);
    CAPTURE(bit);
    REQUIRE_FALSE(cache.load(key));
    REQUIRE(pwrite(file.get(), &good[bit / 8], 1, position) == 1);
  }
  CHECK(payload_of(cache) == std::string(200, 'p'));
}

TEST_CASE("every truncation, and anything appended, is a miss") {
  const Folder folder;
  Cache cache({folder.path()});
  cache.store(key, "{}", std::string(200, 'p'));
  const std::string path = entry_path(folder.path());
  const std::string good = weft::test::read_file(path);
  for (std::size_t size = good.size(); size-- > 0;) {
    REQUIRE(truncate(path.c_str(), static_cast<off_t>(size)) == 0);
    CAPTURE(size);
    REQUIRE_FALSE(cache.load(key));
  }
  weft::test::write_file(path, good + "x");
  CHECK_FALSE(cache.load(key));
}

TEST_CASE("swapped entries are misses, whole or in part") {
  const Folder folder;
  Cache cache({folder.path()});
  cache.store(key, "{\"of\": 1}", "first");
  cache.store(other_key, "{\"of\": 2}", "other");
  const std::string first = weft::test::read_file(entry_path(folder.path()));
  const std::string second = weft::test::read_file(entry_path(folder.path(), other_key));
  weft::test::write_file(entry_path(folder.path()), second);
  CHECK_FALSE(cache.load(key));
  weft::test::write_file(entry_path(folder.path()), first.substr(0, first.size() - 5) + "other");  // its metadata stays
  CHECK_FALSE(cache.load(key));
}

TEST_CASE("links, folders, pipes and files that others may write are misses") {
  const Folder folder;
  Cache cache({folder.path()});
  cache.store(key, "", "payload");
  const std::string path = entry_path(folder.path());
  SUBCASE("symbolic link") {
    rename(path.c_str(), (folder / "elsewhere").c_str());
    REQUIRE(symlink("elsewhere", path.c_str()) == 0);
  }
  SUBCASE("hard link") { REQUIRE(link(path.c_str(), (folder / "elsewhere").c_str()) == 0); }
  SUBCASE("others may write") { chmod(path.c_str(), 0666); }
  SUBCASE("a folder") {
    unlink(path.c_str());
    mkdir(path.c_str(), 0700);
  }
  SUBCASE("a pipe that nobody writes into") {
    unlink(path.c_str());
    mkfifo(path.c_str(), 0600);
  }
  CHECK_FALSE(cache.load(key));
}

TEST_CASE("a file of another user is a miss" * needs(root)) {
  const Folder folder;
  Cache cache({folder.path()});
  cache.store(key, "", "payload");
  REQUIRE(chown(entry_path(folder.path()).c_str(), 12345, 12345) == 0);
  CHECK_FALSE(cache.load(key));
}

namespace {
// One warning, and a private folder among `folder`, that of temporary files, instead of the chosen one.
void check_refused(const Folder& folder, const std::string& chosen, const std::string& reason) {
  CaptureLog capture;
  const KeepOptions keep;
  const KeepVariable temporary("TMPDIR", folder.path().c_str());
  weft::options().cache_directory = chosen;
  for (int i = 0; i < 3; ++i) {
    weft::options().cache_directory = i == 1 ? folder / "fine" : chosen;  // opened again each time
    const auto cache = weft::disk_cache();
    if (i == 1) continue;
    CHECK(cache->path() == weft::concat_text(folder.path(), "/weft-", geteuid()));
    CHECK(cache->store(key, "", "payload"));
  }
  CHECK(capture.lines.size() == 1);
  CHECK(capture.count(chosen) == 1);
  CHECK(capture.count(reason) == 1);
}
}  // namespace

TEST_CASE("a folder that can't be trusted is refused with one warning, and a private one is used") {
  const Folder folder;
  const std::string chosen = folder / "cache";
  std::string reason;
  SUBCASE("a symbolic link") {
    mkdir((folder / "real").c_str(), 0700);
    REQUIRE(symlink("real", chosen.c_str()) == 0);
    reason = "link";
  }
  SUBCASE("world-writable") {
    mkdir(chosen.c_str(), 0700);
    chmod(chosen.c_str(), 0777);
    reason = "others may write";
  }
  SUBCASE("group-writable") {
    mkdir(chosen.c_str(), 0700);
    chmod(chosen.c_str(), 0770);
    reason = "others may write";
  }
  SUBCASE("a file") {
    weft::test::write_file(chosen, "");
    reason = "no directory";
  }
  check_refused(folder, chosen, reason);
}

TEST_CASE("a folder of another user is refused with one warning, and a private one is used" * needs(root)) {
  const Folder folder;
  const std::string chosen = folder / "cache";
  mkdir(chosen.c_str(), 0700);
  REQUIRE(chown(chosen.c_str(), 12345, 12345) == 0);
  check_refused(folder, chosen, "owned by user 12345");
}

TEST_CASE("the folder that was checked is the one that is used") {
  const Folder folder;
  Cache cache({folder / "cache"});
  rename((folder / "cache").c_str(), (folder / "moved").c_str());
  REQUIRE(symlink("/no/such/place", (folder / "cache").c_str()) == 0);
  CHECK(cache.store(key, "", "payload"));
  CHECK(payload_of(cache) == "payload");
  CHECK(std::filesystem::exists(entry_path(folder / "moved")));
}

TEST_CASE("where the cache lies follows the environment, and no HOME is fine") {
  const Folder folder;
  const KeepOptions keep;
  const KeepVariable temporary("TMPDIR", folder.path().c_str());
  weft::options().cache_directory.clear();
  {
    const KeepVariable shared("XDG_CACHE_HOME", (folder / "xdg").c_str());
    CHECK(weft::disk_cache()->path() == folder / "xdg/weft");
  }
  const KeepVariable shared("XDG_CACHE_HOME", nullptr);
  {
    const KeepVariable home("HOME", (folder / "home").c_str());
    CaptureLog capture;
    CHECK(weft::disk_cache()->path() == weft::concat_text(folder.path(), "/weft-", geteuid()));
    CHECK_FALSE(std::filesystem::exists(folder / "home"));
    mkdir((folder / "home").c_str(), 0700);
    CHECK(weft::disk_cache()->path() == folder / "home/.cache/weft");
    CHECK(capture.lines.empty());
  }
  {
    const KeepVariable home("HOME", nullptr);
    CaptureLog capture;
    CHECK(weft::disk_cache()->path() == weft::concat_text(folder.path(), "/weft-", geteuid()));
    CHECK(capture.lines.empty());
  }
  weft::options().cache = false;
  CHECK(weft::disk_cache()->path().empty());
  CHECK_FALSE(weft::disk_cache()->store(key, "", "payload"));
  CHECK_FALSE(weft::disk_cache()->load(key));
}

TEST_CASE("a full disk: nothing is stored, nothing is left, one warning" * needs(mounting)) {
  const SmallDisk disk("size=64k");
  CaptureLog capture;
  Cache cache({disk.folder / "cache"});
  CHECK(cache.store(other_key, "", "small"));
  for (int i = 0; i < 3; ++i) CHECK_FALSE(cache.store(key, "", std::string(100000, 'x')));
  CHECK_FALSE(cache.load(key));
  CHECK(payload_of(cache, other_key) == "small");
  CHECK(std::distance(std::filesystem::directory_iterator(disk.folder / "cache"), {}) == 2);  // and the mark
  CHECK(capture.count("No space left on device") == 1);
}

TEST_CASE("a read-only disk: what is there is loaded, nothing is stored, one warning" * needs(mounting)) {
  const SmallDisk disk("");
  const std::string folder = disk.folder / "cache";
  Cache({folder}).store(key, "", "payload");
  REQUIRE(mount("weft-test", disk.folder.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0);
  CaptureLog capture;
  Cache cache({folder});
  CHECK(payload_of(cache) == "payload");
  for (int i = 0; i < 3; ++i) CHECK_FALSE(cache.store(other_key, "", "payload"));
  CHECK(capture.count("Read-only file system") == 1);
  CHECK(Cache({disk.folder / "absent"}).path().empty());
}

TEST_CASE("without descriptors every load is a miss and every store is refused") {
  const Folder folder;
  Cache cache({folder.path()});
  cache.store(key, "", "payload");
  std::vector<weft::Descriptor> all;
  while (true) {
    weft::Descriptor each(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!each) break;
    all.push_back(std::move(each));
  }
  CaptureLog capture;
  const bool loaded = cache.load(key).has_value(), stored = cache.store(key, "", "new");
  all.clear();
  CHECK_FALSE(loaded);
  CHECK_FALSE(stored);
  CHECK(payload_of(cache) == "payload");
}

TEST_CASE("killed at any system call of a publication: the next start is right, leftovers are collected" *
          needs(tracing)) {
  const Folder folder;
  Cache cache({folder.path()});
  const std::string before(50000, 'b'), after(50000, 'a');
  int system_calls = 0;
  for (bool ended = false; !ended; ++system_calls) {
    cache.store(key, "", before);
    const pid_t child = fork();
    if (child == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
      raise(SIGSTOP);
      cache.store(key, "", after);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSTOPPED(status));
    // Two stops a call, one when it begins and one when it ends.
    for (int i = 0; i <= system_calls && !ended; ++i) {
      ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
      waitpid(child, &status, 0);
      ended = WIFEXITED(status);
    }
    if (!ended) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    Cache next({folder.path()});
    const std::string found = payload_of(next);
    CAPTURE(system_calls);
    REQUIRE((found == before || found == after));
    REQUIRE((!ended || found == after));
  }
  CHECK(system_calls > 8);
  const auto left = folder.names_with("tmp-");
  CHECK_FALSE(left.empty());
  cache.collect();
  CHECK(folder.names_with("tmp-").size() == left.size());  // they may be in the making
  for (const std::string& name : left) age(folder / name, 7200);
  cache.collect();
  CHECK(folder.names_with("tmp-").empty());
  CHECK(payload_of(cache) != "(miss)");
}

TEST_CASE("many processes that store and load at once never see a part") {
  const Folder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      Cache cache({folder.path()});
      bool right = true;
      for (int round = 0; round < 100; ++round) {
        right = right && cache.store(key, "", std::string(20000 + 1000 * static_cast<std::size_t>(i), 'a' + i));
        const std::string found = payload_of(cache);
        right = right && found.size() >= 20000 && found == std::string(found.size(), found[0]) &&
                found.size() == 20000 + 1000 * static_cast<std::size_t>(found[0] - 'a');
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(folder.names().size() == 1);
}

TEST_CASE("the total is bounded: what was used last stays, with the texts beside it") {
  const Folder folder;
  Cache cache({folder.path()}, 100000);
  const auto key_number = [](int i) { return weft::digest(std::to_string(i)); };
  for (int i = 0; i < 20; ++i) {
    cache.store(key_number(i), "", std::string(10000, 'x'));
    cache.keep_text(key_number(i), ".cpp", "source");
    age(entry_path(folder.path(), key_number(i)), 10000 - i * 100);
    age(folder / (hex(key_number(i)) + ".cpp"), 10000 - i * 100);
  }
  weft::test::write_file(folder / "notes.txt", std::string(1000, 'n'));  // not ours: neither counted nor removed
  CHECK(cache.load(key_number(0)));                                      // used now
  cache.collect();
  CHECK(cache.load(key_number(0)));
  CHECK(cache.load(key_number(19)));
  CHECK_FALSE(cache.load(key_number(1)));
  CHECK_FALSE(std::filesystem::exists(folder / (hex(key_number(1)) + ".cpp")));
  CHECK(std::filesystem::exists(folder / (hex(key_number(19)) + ".cpp")));
  CHECK(std::filesystem::exists(folder / "notes.txt"));
  CHECK(folder.names_with(".weft").size() == 8);  // 90% of the limit
}

TEST_CASE("only names that are ours are removed, and where the folder bears our mark") {
  const Folder folder;
  const std::string digest = hex(key), upper = "ABCDEF0123456789ABCDEF0123456789";
  const std::vector<std::string> theirs = {digest + ".jpg",
                                           digest + ".weft.bak",
                                           digest + ".tar.gz",
                                           upper + ".weft",
                                           "x" + digest + ".cpp",
                                           "12345678901234567890123456789012.txt",
                                           "a file of thirty-two characters..weft"};
  const auto all_there = [&](const std::string& path) {
    return std::ranges::all_of(theirs,
                               [&](const std::string& name) { return std::filesystem::exists(path + "/" + name); });
  };
  SUBCASE("in a folder that Weft made") {
    Cache cache({folder / "made"}, 1000);
    cache.store(key, "", std::string(5000, 'x'));
    for (const std::string& name : theirs) weft::test::write_file(folder / ("made/" + name), std::string(5000, 't'));
    weft::test::write_file(folder / "made/tmp-notes", "");
    mkdir((folder / "made/work-2024").c_str(), 0700);
    weft::test::write_file(folder / "made/work-2024/thesis", "");
    for (const char* name : {"made/tmp-notes", "made/work-2024"}) age(folder / name, 1000000);
    cache.collect();
    CHECK_FALSE(cache.load(key));
    CHECK(all_there(folder / "made"));
    CHECK(std::filesystem::exists(folder / "made/tmp-notes"));
    CHECK(std::filesystem::exists(folder / "made/work-2024/thesis"));
  }
  SUBCASE("in a folder that has other files") {
    for (const std::string& name : theirs) weft::test::write_file(folder / name, std::string(5000, 't'));
    weft::test::write_file(entry_path(folder.path()), std::string(5000, 't'));
    weft::test::write_file(folder / (digest + ".cpp"), std::string(5000, 't'));
    for (int round = 0; round < 2; ++round) {  // the second finds the folder that the first made
      Cache cache({folder.path()}, 1000);
      CHECK(cache.path() == folder / "weft");
      CHECK(cache.store(other_key, "", std::string(5000, 'x')));
      cache.collect();
      CHECK_FALSE(cache.load(other_key));
      std::string reason;
      CHECK(weft::WorkDirectory::make(folder.path(), reason)->path().starts_with(folder / "weft/work-"));
    }
    CHECK(all_there(folder.path()));
    CHECK(std::filesystem::exists(entry_path(folder.path())));
    CHECK(std::filesystem::exists(folder / (digest + ".cpp")));
  }
}

TEST_CASE("folders of temporary files that are not there are not made") {
  const Folder folder;
  const KeepVariable temporary("TMPDIR", (folder / "absent").c_str());
  for (const std::string& path : weft::scratch_paths()) CHECK_FALSE(path.starts_with(folder.path()));
  CHECK_FALSE(weft::scratch_paths().empty());
}

TEST_CASE("a limit on the size of files ends no process: what does not fit is not stored") {
  const Folder folder;
  Cache cache({folder.path()});
  const std::string log = folder / "log";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{4096, 4096};
    const int errors = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (setrlimit(RLIMIT_FSIZE, &small) != 0 || dup2(errors, STDERR_FILENO) < 0) _exit(1);
    const bool stored = cache.store(key, "", std::string(100000, 'x')), small_one = cache.store(other_key, "", "small");
    for (int i = 0; i < 3; ++i) weft::logging::warn_once(std::to_string(i) + std::string(3000, 'w'));
    sigset_t pending;
    sigpending(&pending);
    _exit(!stored && small_one && !sigismember(&pending, SIGXFSZ) ? 0 : 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(payload_of(cache) == "(miss)");
  CHECK(payload_of(cache, other_key) == "small");
  CHECK(folder.names_with("tmp-").empty());
}

TEST_CASE("a text is kept once, beside the entry") {
  const Folder folder;
  Cache cache({folder.path()});
  const std::string path = cache.keep_text(key, ".cpp", "source");
  CHECK(weft::test::read_file(path) == "source");
  CHECK(cache.keep_text(key, ".cpp", "source") == path);
  CHECK(Cache({}).keep_text(key, ".cpp", "source").empty());
}
