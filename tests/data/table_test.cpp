// Tables and lines of text: what is read, what is missing, what is refused, and how fast.
#include "weft/data/table.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <tuple>

#include "data/support.hpp"
#include "io/support.hpp"
#include "weft/data.hpp"

namespace weft {
namespace {

using test::error_of, test::holds;

using test::numbers;

struct Written {
  test::Folder folder;
  std::string path = folder.file("x.csv");
  data::Table table(const std::string& text, const data::TableOptions& options = {}) {
    test::write_bytes(path, text);
    return data::read_table(path.c_str(), options);
  }
};

TEST_CASE("columns of numbers and words") {
  Written written;
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const data::Table table =
        written.table("\xef\xbb\xbfname,size,\"a, b\",on" + end + "x,1,2.5,true" + end + end +
                      "\"y \"\"z\"\"\"\", w\", -2 ,+4e2,0" + end + "\"multi" + end + "line\",3,-1e-3,False");
    CHECK(table.rows() == 3);
    CHECK(table.names() == std::vector<std::string>{"name", "size", "a, b", "on"});
    CHECK(table.column("size").dtype() == DType::f32);
    for (const DType dtype :
         {DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64}) {
      const Tensor size = table.column("size", {.dtype = dtype});
      CHECK(size.dtype() == dtype);
      CHECK(numbers(size) == std::vector<double>{1, -2, 3});
    }
    CHECK(numbers(table.column("a, b", {.dtype = DType::f64})) == std::vector<double>{2.5, 400, -1e-3});
    CHECK(numbers(table.column("on", {.dtype = DType::boolean})) == std::vector<double>{1, 0, 0});
    CHECK(table.text("name") == std::vector<std::string>{"x", "y \"z\"\", w", "multi" + end + "line"});
    const Tensor both = table.columns({"a, b", "size"});
    CHECK(both.shape().same(Shape::of(3, 2)));
    CHECK(numbers(both)[2] == 400);
    CHECK(numbers(both)[3] == -2);
  }
}

TEST_CASE("separators, headers and extreme numbers") {
  Written written;
  CHECK(numbers(written.table("a\tb\n1\t2,5\n", {.separator = '\t'}).column("a"))[0] == 1);
  CHECK(written.table("a\tb\n1\t2\n").names() == std::vector<std::string>{"a", "b"});
  CHECK(written.table("a;b\n1;2\n", {.separator = ';'}).text("b")[0] == "2");
  const data::Table plain = written.table("1,2\n3,4\n", {.header = false});
  CHECK(plain.rows() == 2);
  CHECK(numbers(plain.column("1")) == std::vector<double>{2, 4});
  CHECK(written.table("a,b\n").rows() == 0);
  CHECK(written.table("a,b\n").column("b").shape().same(Shape::of(0)));
  const data::Table extreme = written.table("x\n1e999\n-1e999\n1e-999\ninf\n0.1\n");
  const std::vector<double> values = numbers(extreme.column("x", {.dtype = DType::f64}));
  CHECK(values == std::vector<double>{HUGE_VAL, -HUGE_VAL, 0, HUGE_VAL, 0.1});
}

TEST_CASE("values that are missing") {
  Written written;
  const data::Table table = written.table("a,b\n1,x\nNA,y\n,\"\"\n4,NA\n");
  const std::vector<double> holes = numbers(table.column("a"));
  CHECK(holes[0] == 1);
  CHECK(std::isnan(holes[1]));
  CHECK(std::isnan(holes[2]));
  CHECK(numbers(table.column("a", {.missing = -1})) == std::vector<double>{1, -1, -1, 4});
  CHECK(numbers(table.column("a", {.dtype = DType::i64, .missing = 7})) == std::vector<double>{1, 7, 7, 4});
  CHECK(
      holds(error_of([&] { table.column("a", {.dtype = DType::i32}); }), "x.csv:3: a is missing, and i32 has no NaN"));
  const auto misfit = [&](const data::ColumnOptions& options) { return error_of([&] { table.column("a", options); }); };
  CHECK(holds(misfit({.dtype = DType::u8, .missing = 300}),
              "x.csv:3: a is missing, and .missing is 300, which does not fit in u8"));
  CHECK(holds(misfit({.dtype = DType::u8, .missing = -1}), ".missing is -1, which does not fit in u8"));
  CHECK(holds(misfit({.dtype = DType::i64, .missing = 0.5}), ".missing is 0.5, which does not fit in i64"));
  const data::Categories words = table.categories("b");
  CHECK(words.names == std::vector<std::string>{"", "x", "y"});  // "" in quotes is a word
  CHECK(numbers(words.values) == std::vector<double>{1, 2, 0, -1});
  CHECK(std::isnan(numbers(written.table("a\n?\n", {.missing = {"?"}}).column("a"))[0]));
}

TEST_CASE("what is wrong is said with its line") {
  Written written;
  const auto error = [&](const std::string& text) { return error_of([&] { written.table(text); }); };
  CHECK(holds(error_of([&] { data::read_table(written.folder.file("none").c_str()); }), "none can't be opened"));
  CHECK(holds(error(""), "x.csv is empty"));
  CHECK(holds(error("\n\n"), "x.csv is empty"));
  CHECK(holds(error("a,b\n1,2\n1,2,3\n"), "x.csv:3: 3 fields where the first line has 2"));
  CHECK(holds(error("a,b\n1\n"), "x.csv:2: 1 field where the first line has 2"));
  CHECK(holds(error("a,b\n1,\"2\n3,4\n"), "x.csv:2: a quoted field does not end"));
  CHECK(holds(error("a,b\n\"1\"2,3\n"), "x.csv:2: a quoted field goes on after its quotes"));
  CHECK(holds(error("a,b\n1\"2,3\n"), "x.csv:2: a quote is within a field"));
  CHECK(holds(error("a,a\n1,2\n"), "x.csv:1: two columns have the name a"));
  const data::Table table = written.table("a,b\n\"x\ny\",1\nz,1.5\nz,400\nz,1x\n");
  CHECK(holds(error_of([&] { table.column("c"); }), "x.csv has no column c; there are a, b"));
  CHECK(holds(error_of([&] { table.column("a"); }), "x.csv:2: a is x\ny, which can't be read as f32"));
  CHECK(holds(error_of([&] { table.column("b"); }), "x.csv:6: b is 1x, which can't be read as f32"));
  CHECK(holds(error_of([&] { table.column("b", {.dtype = DType::i64}); }), "x.csv:4: b is 1.5, which can't be read"));
  const data::Table large = written.table("a\n1\n300\n-1\n");
  CHECK(
      holds(error_of([&] { large.column("a", {.dtype = DType::i8}); }), "x.csv:3: a is 300, which does not fit in i8"));
  CHECK(holds(error_of([&] { large.column("a", {.dtype = DType::u16}); }), "x.csv:4: a is -1, which"));
  CHECK(holds(error_of([&] { large.column("a", {.dtype = DType::boolean}); }), "x.csv:3: a is 300"));
  CHECK(holds(error_of([&] { written.table("a\n1\n", {.separator = '"'}); }), "can't be the separator"));
}

TEST_CASE("a table is a source") {
  Written written;
  const data::Table table = written.table("u,v,y\n1,2,0\n3,4,1\n5,6,0\n");
  int rows = 0;
  for (auto [x, y] : std::tuple(table.columns({"u", "v"}), table.column("y", {.dtype = DType::i64})) | data::batch(2)) {
    rows += static_cast<int>(x.size(0).constant());
    CHECK(y.dtype() == DType::i64);
  }
  CHECK(rows == 3);
}

TEST_CASE("lines and bytes of text") {
  const test::Folder folder;
  const std::string path = folder.file("x.txt");
  const auto lines = [&](const std::string& text) {
    test::write_bytes(path, text);
    CHECK(data::read_text(path.c_str()) == text);
    return data::read_lines(path.c_str());
  };
  CHECK(lines("").empty());
  CHECK(lines("a") == std::vector<std::string>{"a"});
  CHECK(lines("\xef\xbb\xbf"
              "a\r\n\nb c\n") == std::vector<std::string>{"a", "", "b c"});
  CHECK(holds(error_of([&] { data::read_lines(folder.file("none").c_str()); }), "[read_lines] "));
  const data::ByteVocabulary vocabulary("hello");
  CHECK(vocabulary.size() == 4);
  const Tensor tokens = vocabulary.encode("hole");
  CHECK(numbers(tokens) == std::vector<double>{1, 3, 2, 0});
  CHECK(vocabulary.decode(tokens) == "hole");
  CHECK(holds(error_of([&] { vocabulary.encode("help"); }), "byte 112 at position 3 is not in the vocabulary"));
  CHECK(holds(error_of([&] { vocabulary.decode(arange(5)); }), "token 4 is not in [0, 4)"));
  CHECK(holds(error_of([&] { vocabulary.decode(ones({2})); }), "tokens are integers, not f32[2]"));
  CHECK(data::ByteVocabulary().decode(data::ByteVocabulary().encode("\xff any")) == "\xff any");
}

}  // namespace
}  // namespace weft
