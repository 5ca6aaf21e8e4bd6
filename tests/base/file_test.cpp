// Files that are mapped, and that somebody else writes meanwhile.
#include "base/file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/host_memory.hpp"
#include "tests/message_of.hpp"

using namespace weft;

namespace {

struct File {
  std::string path = std::filesystem::temp_directory_path() / unique_name("weft-file-");
  explicit File(const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  ~File() { std::filesystem::remove(path); }
};

// Of a file of many pages.
std::string bytes_of_pages() {
  std::string bytes;
  for (int i = 0; bytes.size() < 300000; ++i) bytes += std::to_string(i) + ' ';
  return bytes;
}

std::string cut_off_meanwhile;  // the path

}  // namespace

TEST_CASE("the head of a file is in memory, the rest is mapped, and both are its bytes") {
  const std::string bytes = bytes_of_pages();
  const File file(bytes);
  const auto mapped = MappedFile::open("test", file.path.c_str(), {});
  CHECK(mapped->text() == bytes);
  CHECK(MappedFile::open("test", file.path.c_str(), {}, MappedFile::everything)->text() == bytes);
  // Asked again when it has what it asked for.
  const auto some = MappedFile::open("test", file.path.c_str(), {}, [](std::string_view begin) {
    return begin.empty() ? std::uint64_t{3} : std::uint64_t{150000};
  });
  CHECK(some->text() == bytes);
  std::filesystem::resize_file(file.path, 1);
  CHECK(some->text().substr(0, 150000) == bytes.substr(0, 150000));
}

TEST_CASE("what was read into memory stays where the file is cut off or written over") {
  const std::string bytes = bytes_of_pages();
  const File file(bytes);
  const auto read = MappedFile::open("test", file.path.c_str(), {}, MappedFile::everything);
  std::ofstream(file.path, std::ios::binary) << "another";
  CHECK(read->text() == bytes);
}

TEST_CASE("a file that is cut off while it is read is a sentence") {
  const File file(bytes_of_pages());
  cut_off_meanwhile = file.path;
  CHECK(test::message_of([&] {
          MappedFile::open("test", file.path.c_str(), {}, [](std::string_view) -> std::uint64_t {
            std::filesystem::resize_file(cut_off_meanwhile, 5000);
            return UINT64_MAX;
          });
        }) == "[test] " + file.path + " was cut off while it was read");
}

TEST_CASE("a file is mapped as far from a huge page as it is from its begin") {
  const File file(bytes_of_pages());
  for (const auto head : {MappedFile::nothing, MappedFile::everything})
    CHECK(reinterpret_cast<std::uintptr_t>(MappedFile::open("test", file.path.c_str(), {}, head)->bytes().data()) %
              huge_page ==
          0);
}

TEST_CASE("a new file has the bytes that were written, in whatever pieces") {
  const File file("before");
  std::string all;
  NewFile next("test", file.path.c_str(), {});
  for (const std::size_t size : {std::size_t{5}, huge_page - 5, huge_page, std::size_t{0}, 3 * huge_page + 1, huge_page,
                                 std::size_t{77}, 9 * huge_page}) {
    std::string piece(size, static_cast<char>('a' + all.size() % 26));
    if (size > 0) piece.front() = '<', piece.back() = '>';
    next.write(piece);
    all += piece;
  }
  next.finish();
  CHECK(MappedFile::open("test", file.path.c_str(), {})->text() == all);
}

TEST_CASE("a new file takes the name from one that is mapped, which stays") {
  const std::string bytes = bytes_of_pages();
  const File file(bytes);
  const auto mapped = MappedFile::open("test", file.path.c_str(), {});
  NewFile next("test", file.path.c_str(), {});
  next.write("another");
  next.finish();
  CHECK(mapped->text() == bytes);
  CHECK(MappedFile::open("test", file.path.c_str(), {})->text() == "another");
}
