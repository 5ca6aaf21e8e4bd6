#include "runtime/host/library.hpp"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cstddef>

#include "runtime/host/compiler.hpp"
#include "tests/runtime/support.hpp"

using weft::Library;
using weft::test::answer;

namespace {

std::string compiled(const std::string& unit, const weft::Digest& key) {
  return weft::compile_units(weft::host_compiler(), {unit}, weft::host_isa(), key);
}

// Runs a function in a child that ends with its result; the child's status.
template <class Function>
int in_child(Function function) noexcept {
  const pid_t child = fork();
  if (child == 0) _exit(function() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("symbols are found, and what is not there is null or an internal error") {
  const weft::Digest key{1, 2};
  const auto library = Library::load(compiled(weft::test::unit_answering(42), key), key, 1);
  CHECK(answer(*library) == 42);
  CHECK(library->find("no_such") == nullptr);
  CHECK_THROWS_AS(library->function<int()>("no_such"), weft::InternalError);
}

TEST_CASE("two libraries are alive at once, and a descriptor's number that comes again brings new code") {
  const weft::Digest key{1, 2};
  const std::string one = compiled(weft::test::unit_answering(1), key),
                    two = compiled(weft::test::unit_answering(2), key);
  const std::size_t before = weft::test::open_descriptors();
  {
    const auto first = Library::load(one, key, 1), second = Library::load(two, key, 1),
               again = Library::load(one, key, 1);
    CHECK(answer(*first) == 1);
    CHECK(answer(*second) == 2);
    CHECK(answer(*again) == 1);
  }
  for (int i = 0; i < 100; ++i) CHECK(answer(*Library::load(i % 2 ? one : two, key, 1)) == (i % 2 ? 1 : 2));
  CHECK(weft::test::open_descriptors() == before);
  // A host that closes descriptors which are not its own, as daemons do: the same number while the old code is alive.
  CHECK(in_child([&] {
          const auto old = Library::load(one, key, 1);
          for (int i = 3; i < 100; ++i) close(i);
          const auto now = Library::load(two, key, 1);
          return answer(*old) == 1 && answer(*now) == 2;
        }) == 0);
}

TEST_CASE("libraries in use hold no descriptor") {
  const weft::Digest key{1, 2};
  const std::string bytes[] = {compiled(weft::test::unit_answering(1), key),
                               compiled(weft::test::unit_answering(2), key)};
  CHECK(in_child([&] {
          const rlimit few{32, 32};
          if (setrlimit(RLIMIT_NOFILE, &few) != 0) return false;
          const std::size_t before = weft::test::open_descriptors();
          std::vector<std::shared_ptr<Library>> all;
          for (int i = 0; i < 200; ++i) all.push_back(Library::load(bytes[i % 2], key, 1));  // one number, many files
          bool right = weft::test::open_descriptors() == before;
          for (int i = 0; i < 200; ++i) right = right && answer(*all[static_cast<std::size_t>(i)]) == i % 2 + 1;
          return right;
        }) == 0);
}

TEST_CASE("what is no library, or one of another key, is refused") {
  const weft::Digest key{1, 2};
  const std::string bytes = compiled(weft::test::unit_answering(1), key);
  CHECK(weft::test::compile_error([&] {
          Library::load(bytes, {3, 4}, 1);
        }).find("not those that were asked for") != std::string::npos);
  CHECK(weft::test::compile_error([&] { Library::load(bytes, key, 2); }).find("not those") != std::string::npos);
  CHECK(weft::test::compile_error([&] { Library::load("no ELF", key, 1); }).find("can't be loaded") !=
        std::string::npos);
  CHECK(answer(*Library::load(bytes, key, 1)) == 1);
}

TEST_CASE("loading and running leave the rounding and denormal modes of the CPU alone") {
  const weft::Digest key{1, 2};
  const std::string bytes =
      compiled("extern \"C\" __attribute__((visibility(\"default\"))) float half(float x) { return x * 0.5f; }\n", key);
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
#endif
  const auto library = Library::load(bytes, key, 1);
  volatile float smallest_normal = 0x1p-126f;
  CHECK(library->function<float(float)>("half")(smallest_normal) == 0x1p-127f);
#if defined(__x86_64__)
  constexpr unsigned modes = 0xffc0;  // all but the sticky exception flags
  CHECK((_mm_getcsr() & modes) == (before & modes));
#endif
}

TEST_CASE("where memory can't be run as a library, a private file is") {
  const weft::Digest key{1, 2};
  const std::string bytes = compiled(weft::test::unit_answering(7), key);
  const weft::test::Folder folder;
  const weft::test::KeepVariable temporary("TMPDIR", folder.path().c_str());
  CHECK(in_child([&] {
          // From here on memfd_create is refused, as hardened systems do.
          const auto call = static_cast<unsigned>(offsetof(seccomp_data, nr));
          sock_filter rules[] = {
              BPF_STMT(BPF_LD | BPF_W | BPF_ABS, call), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
          sock_fprog program{4, rules};
          prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
          if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return true;  // can't be tried here
          const auto library = Library::load(bytes, key, 1), again = Library::load(bytes, key, 1);
          return answer(*library) == 7 && answer(*again) == 7;
        }) == 0);
  for (const std::string& name : folder.names()) {  // the file is gone while its code is in use
    CHECK(weft::test::is_empty(folder / name));
  }
}
