// NumPy's files: those that golden.py wrote, and our own, read back.
#include <doctest/doctest.h>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "io/support.hpp"
#include "record/evaluate.hpp"
#include "record/refused.hpp"
#include "weft/io.hpp"

namespace weft {
namespace {

using test::numbers;
using test::refused;

std::string golden(const char* name) { return std::string(WEFT_SOURCE_DIR "/tests/io/golden/") + name; }
const std::vector<double> expected = {-1.5, -0.5, 0.5, 1.5, 2.5, 3.5};

TEST_CASE("arrays that NumPy wrote") {
  for (const std::string name : {"rows.npy", "columns.npy", "big_endian.npy"}) {
    CAPTURE(name);
    Tensor x = io::load_npy(golden(name.c_str()).c_str());
    CHECK(x.dtype() == DType::f32);
    CHECK(x.shape() == Shape::of(2, 3));
    CHECK(numbers(x) == expected);
  }
  const Tensor mapped = io::load_npy(golden("rows.npy").c_str());
  CHECK(storage_of(mapped)->borrowed);
  Tensor nothing = io::load_npy(golden("nothing.npy").c_str());
  CHECK(nothing.shape() == Shape::of(0, 3));
  CHECK(nothing.dtype() == DType::i64);
  Tensor number = io::load_npy(golden("number.npy").c_str());
  CHECK(number.rank() == 0);
  CHECK(number.item() == 2.5);
  refused([] { io::load_npy(golden("text.npy").c_str()); }, "has elements of dtype '<U1', which Weft has not");
  refused([] { io::load_npy(golden("object.npy").c_str()); }, "which Weft has not");
}

TEST_CASE("archives that NumPy wrote, stored and deflated") {
  for (const std::string name : {"stored.npz", "deflated.npz"}) {
    CAPTURE(name);
    const std::vector<io::NamedTensor> all = io::load_npz(golden(name.c_str()).c_str());
    REQUIRE(all.size() == 5);
    CHECK(all[0].name == "a");
    CHECK(numbers(all[0].value) == expected);
    CHECK(all[1].name == "b/c");
    CHECK(all[1].value.dtype() == DType::boolean);
    CHECK(numbers(all[1].value) == std::vector<double>{1, 0, 1});
    CHECK(all[2].value.dtype() == DType::f16);
    CHECK(numbers(all[2].value) == std::vector<double>{0.5, -2});
    CHECK(all[3].value.size(0) == 1000);
    CHECK(numbers(all[3].value)[999] == 999 % 7);
    CHECK(all[4].value.dtype() == DType::f64);
    CHECK(numbers(all[4].value) == expected);
  }
}

TEST_CASE("what is written is read back") {
  const test::Folder folder;
  const std::string npy = folder.file("x.npy"), npz = folder.file("x.npz");
  const Tensor values[] = {transpose(reshape(arange(6), {2, 3})),
                           from_list<bool>({true, false}),
                           ones({}, {DType::f64}),
                           zeros({0, 4}),
                           cast(arange(5), DType::f16),
                           cast(arange(5), DType::u8),
                           cast(arange(100000), DType::f32) * 0.5};
  std::vector<io::NamedTensor> all;
  for (const Tensor& value : values) {
    io::save_npy(npy.c_str(), value);
    Tensor loaded = io::load_npy(npy.c_str());
    CHECK(loaded.dtype() == value.dtype());
    CHECK(loaded.shape() == value.shape());
    CHECK(numbers(loaded) == numbers(value));
    all.push_back({"value " + std::to_string(all.size()), value});
  }
  io::save_npz(npz.c_str(), all);
  const std::string bytes = test::bytes_of(npz);
  const std::vector<io::NamedTensor> found = io::load_npz(npz.c_str());
  REQUIRE(found.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(found[i].name == all[i].name);
    CHECK(found[i].value.dtype() == all[i].value.dtype());
    CHECK(found[i].value.shape() == all[i].value.shape());
    CHECK(numbers(found[i].value) == numbers(all[i].value));
  }
  io::save_npz(npz.c_str(), all);
  CHECK(test::bytes_of(npz) == bytes);
  CHECK(folder.count() == 2);
  io::save_npz(npz.c_str(), {{"x", ones({2})}});
  CHECK(io::load_npz(npz.c_str()).size() == 1);
}

TEST_CASE("what NumPy has not, and damaged files, are refused") {
  const test::Folder folder;
  const std::string path = folder.file("x");
  refused([&] { io::save_npy(path.c_str(), ones({2}, {DType::bf16})); }, "NumPy has no bf16: cast the tensor to f32");
  refused([&] { io::save_npy(path.c_str(), ones({2}, {DType::f8e4m3})); }, "NumPy has no f8e4m3: cast the tensor");
  refused([&] { io::save_npz(path.c_str(), {{"x", ones({2})}, {"x", ones({2})}}); }, "two values have the name x");
  refused([&] { io::save_npz(path.c_str(), {{"", ones({2})}}); }, "value 0 needs a name");
  CHECK(folder.count() == 0);
  const auto damaged = [&](const std::string& bytes, const char* words, Loc loc = Loc::current()) {
    test::write_bytes(path, bytes);
    refused([&] { io::load_npy(path.c_str(), loc); }, words, loc);
  };
  const auto npy = [](const std::string& header, std::size_t bytes) {
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size() & 0xff) +
           static_cast<char>(header.size() >> 8) + header + std::string(bytes, '\1');
  };
  damaged("", "is no NPY file");
  damaged("\x93NUMPY\1", "is no NPY file");
  damaged(std::string("\x93NUMPY\7\0\1\0      ", 16), "of version 7");
  damaged(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "has a header of 4294967295 bytes");
  damaged(npy("{'descr'", 0).substr(0, 14), "truncated");
  damaged(npy("{}  ", 0), "does not say descr, fortran_order and shape");
  damaged(npy("{'descr': '<f4', 'fortran_order': False, }", 0), "does not say");
  damaged(npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}", 4), "does not say");
  damaged(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}", 4), "does not say");
  damaged(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)} x", 4), "does not say");
  damaged(npy("{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': (1,)}", 4), "does not say");
  damaged(npy("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", 8),
          "dtype '<c8' (complex64), which Weft has not");
  damaged(npy("{'descr': '<u8', 'fortran_order': False, 'shape': ()}", 8), "dtype '<u8' (uint64), which Weft has not");
  damaged(npy("{'descr': '<f16', 'fortran_order': False, 'shape': ()}", 16), "dtype '<f16' (float128), which");
  damaged(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 4),
          "has 4 bytes of elements where f32[2] has 8");
  damaged(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", 4),
          "more than");
  damaged(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999,99999999999999999)}", 4),
          "more elements than there can be");
  const auto broken = [&](std::string bytes, const char* words, Loc loc = Loc::current()) {
    test::write_bytes(path, bytes);
    refused([&] { io::load_npz(path.c_str(), loc); }, words, loc);
  };
  broken("", "is no NPZ file");
  broken(test::bytes_of(golden("rows.npy")), "is no NPZ file");
  std::string archive = test::bytes_of(golden("stored.npz"));
  const std::size_t number = archive.find("NUMPY") + 130;  // in the elements of the first member
  archive[number] = static_cast<char>(archive[number] ^ 1);
  broken(archive, "checksum is wrong");
  refused([&] { io::load_npz(folder.file("none").c_str()); }, "can't be opened");
}

}  // namespace
}  // namespace weft
