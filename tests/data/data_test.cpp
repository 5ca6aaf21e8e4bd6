// Files, batches and the progress bar.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "data/support.hpp"
#include "weft/data.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace {

using test::error_of, test::holds;

struct Folder {
  std::string path = "/tmp/weft_data_XXXXXX";
  Folder() { REQUIRE(mkdtemp(path.data())); }
  ~Folder() {
    for (const std::string& file : files) unlink(file.c_str());
    rmdir(path.c_str());
  }
  std::string write(const std::string& name, const std::string& bytes, bool compress) {
    std::string file = path + "/" + name;
    gzFile out = gzopen(file.c_str(), compress ? "wb" : "wbT");
    gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(out);
    files.insert(file);
    return file;
  }
  std::string write_raw(const std::string& name, const std::string& bytes) {
    std::string file = path + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    files.insert(file);
    return file;
  }
  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::set<std::string> files;
};

std::string bytes(std::initializer_list<int> list) {
  std::string text;
  for (int byte : list) text += static_cast<char>(byte);
  return text;
}
template <class T>
std::vector<T> values(const Tensor& tensor) {
  View<const T> view = tensor.data<T>();
  return {view.begin(), view.end()};
}

TEST_CASE("IDX files of every element type, compressed and not") {
  Folder folder;
  for (bool compress : {false, true}) {
    auto read = [&](const std::string& text) { return data::read_idx(folder.write("a", text, compress).c_str()); };
    Tensor u8 = read(bytes({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255}));
    CHECK(u8.shape().same(Shape::of(2, 3)));
    CHECK(values<std::uint8_t>(u8) == std::vector<std::uint8_t>{1, 2, 3, 4, 5, 255});
    CHECK(values<std::int32_t>(read(bytes({0, 0, 9, 1, 0, 0, 0, 2, 5, 0xfe}))) == std::vector<std::int32_t>{5, -2});
    CHECK(values<std::int32_t>(read(bytes({0, 0, 11, 1, 0, 0, 0, 2, 1, 2, 0xff, 0xfd}))) ==
          std::vector<std::int32_t>{258, -3});
    CHECK(values<std::int32_t>(read(bytes({0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfc}))) ==
          std::vector<std::int32_t>{258, -4});
    CHECK(values<float>(read(bytes({0, 0, 13, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0}))) == std::vector<float>{1.5f});
    CHECK(values<double>(read(bytes({0, 0, 14, 1, 0, 0, 0, 1, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0}))) ==
          std::vector<double>{-1.5});
    CHECK(read(bytes({0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 3})).shape().same(Shape::of(0, 3)));
  }
}

TEST_CASE("files that are missing, foreign, shortened, lengthened or damaged") {
  Folder folder;
  std::string header = bytes({0, 0, 8, 1, 0, 0, 0x10, 0}), content(4096, 'x');
  for (int i = 0; i < 4096; ++i) content[static_cast<std::size_t>(i)] = static_cast<char>(i * 37 ^ i >> 3);
  auto error = [](const std::string& file) { return error_of([&] { data::read_idx(file.c_str()); }); };
  CHECK(holds(error(folder.path + "/none"), "[read_idx] " + folder.path + "/none cannot be opened: No such file"));
  CHECK(holds(error(folder.path), "is damaged"));  // a folder
  CHECK(holds(error(folder.write("a", "", false)), "is truncated"));
  CHECK(holds(error(folder.write("a", "hello, this is text", false)), "is no IDX file"));
  CHECK(holds(error(folder.write("a", bytes({0, 0, 7, 1, 0, 0, 0, 0}), false)), "unknown type, 7"));
  CHECK(holds(error(folder.write("a", bytes({0, 0, 8, 9}), false)), "is no IDX file"));
  for (bool compress : {false, true}) {
    CHECK(
        holds(error(folder.write("a", header + content.substr(1), compress)), "is truncated: it ends within u8[4096]"));
    CHECK(holds(error(folder.write("a", header + content + "y", compress)), "is longer than u8[4096]"));
    CHECK(holds(error(folder.write("a", header.substr(0, 6), compress)), "it ends within its header"));
  }
  // Sizes that nobody can hold: refused or found short, and no memory is taken for them.
  std::string huge = bytes({0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255});
  CHECK(holds(error(folder.write("a", huge, false)), "more elements than there can be"));
  CHECK(holds(error(folder.write("a", bytes({0, 0, 8, 1, 255, 255, 255, 255}) + "abc", false)), "is truncated"));
  std::string packed = Folder::read(folder.write("a", header + content, true));
  CHECK(values<std::uint8_t>(data::read_idx(folder.write_raw("a", packed).c_str())).size() == 4096);
  CHECK(holds(error(folder.write_raw("a", packed.substr(0, packed.size() / 2))), "is truncated"));
  for (std::size_t at : {packed.size() / 2, packed.size() - 6}) {  // within the content, and in the checksum
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    CHECK(error(folder.write_raw("a", damaged)) != "no error");
  }
}

TEST_CASE("Fashion-MNIST") {
  data::Dataset test = data::fashion_mnist(data::Split::test);
  CHECK(test.x.shape().same(Shape::of(10000, 784)));
  CHECK(test.x.dtype() == DType::f32);
  CHECK(test.y.dtype() == DType::i64);
  CHECK(std::abs(mean(test.x).item()) < 0.02);
  CHECK(std::abs(std::sqrt(var(test.x).item()) - 1) < 0.02);
  CHECK(sum(cast(test.y == 9, DType::i64)).item<int>() == 1000);
  CHECK(std::string(data::fashion_mnist_class(test.y.data<std::int64_t>()[0])) == "ankle boot");
  CHECK(std::string(data::fashion_mnist_class(10)) == "?");
}

TEST_CASE("Fashion-MNIST elsewhere, missing, and of other sizes") {
  Folder folder;
  auto load = [&](const char* path) { return error_of([&] { data::fashion_mnist(data::Split::test, path); }); };
  CHECK(holds(load(folder.path.c_str()), "there is no t10k-images-idx3-ubyte.gz in " + folder.path));
  std::string image = bytes({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28}) + std::string(784, '\x80');
  folder.write("t10k-images-idx3-ubyte", image, false);
  folder.write("t10k-labels-idx1-ubyte.gz", bytes({0, 0, 8, 1, 0, 0, 0, 1, 3}), true);
  setenv("WEFT_FASHION_MNIST", folder.path.c_str(), 1);
  data::Dataset one = data::fashion_mnist(data::Split::test);
  unsetenv("WEFT_FASHION_MNIST");
  CHECK(one.y.item<int>() == 3);
  CHECK(values<float>(one.x)[5] == doctest::Approx((128 / 255.0 - 0.28604) / 0.35302));
  folder.write("t10k-labels-idx1-ubyte.gz", bytes({0, 0, 8, 1, 0, 0, 0, 1, 10}), true);
  CHECK(holds(load(folder.path.c_str()), "label 0 is 10"));
  folder.write("t10k-labels-idx1-ubyte.gz", bytes({0, 0, 8, 1, 0, 0, 0, 2, 1, 1}), true);
  CHECK(holds(load(folder.path.c_str()), "holds images u8[1,28,28] and labels u8[2]"));
}

TEST_CASE("progress writes plain lines where there is no terminal") {
  Folder folder;
  std::string file = folder.path + "/log";
  folder.files.insert(file);
  std::fflush(stderr);
  int saved = dup(STDERR_FILENO);
  REQUIRE(freopen(file.c_str(), "w", stderr));
  {
    Progress progress("epoch 1", 100);
    for (int i = 0; i < 100; ++i) progress.tick(full({}, 0.25));
    const auto rows = arange(20) | data::batch(1);
    for (auto epoch = weft::progress(rows, "epoch 2"); const Tensor& row : epoch) epoch.show(row + 0.5);
    for (const Tensor& row : weft::progress(arange(20) | data::batch(2), "epoch 3"))
      if (row.data<std::int64_t>()[0] == 4) break;
  }
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::string text = Folder::read(file);
  CAPTURE(text);
  CHECK(std::count(text.begin(), text.end(), '\n') == 10 + 10 + 2);
  CHECK(holds(text, "epoch 1  10/100"));
  CHECK(holds(text, "epoch 1  100/100"));
  CHECK(holds(text, "0.2500"));
  CHECK(holds(text, "epoch 2  2/20"));
  CHECK(holds(text, "  1.5000\n"));  // of the second step
  CHECK(holds(text, "epoch 3  2/10"));
  CHECK(text.find("epoch 3  3/10") == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
}

TEST_CASE("progress draws one line again and again on a terminal") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(grantpt(terminal) == 0);
  REQUIRE(unlockpt(terminal) == 0);
  const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const winsize size{24, 60, 0, 0};
  REQUIRE(ioctl(other_end, TIOCSWINSZ, &size) == 0);
  std::fflush(stderr);
  const int saved = dup(STDERR_FILENO);
  dup2(other_end, STDERR_FILENO);
  {
    Progress progress("epoch 1", 4);
    for (int i = 0; i < 4; ++i) {
      progress.tick(full({}, 0.25));
      std::this_thread::sleep_for(std::chrono::milliseconds(110));
    }
  }
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::string text;  // up to the line's end: a terminal hands over what it has at the time
  for (char bytes[512]; !holds(text, "\n");) {
    const ssize_t count = read(terminal, bytes, sizeof bytes);
    REQUIRE(count > 0);
    text.append(bytes, static_cast<std::size_t>(count));
  }
  close(other_end);
  close(terminal);
  CAPTURE(text);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(text.ends_with("\n"));
  for (const char* part : {"\r\033[Kepoch 1 [####", "....] 1/4  ", " s left  0.2500", "####] 4/4  "})
    CHECK(holds(text, part));
  for (std::size_t from = text.find('\r'), to; (to = text.find('\r', from + 1)) != text.npos; from = to)
    CHECK(to - from <= 60 + 4);  // a line of the terminal, and the bytes that clear it
}

}  // namespace
}  // namespace weft
