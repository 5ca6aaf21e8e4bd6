// Tables in text: CSV and TSV.
//   const auto table = data::read_table("houses.csv");
//   auto train = std::tuple(table.columns({"rooms", "area"}), table.column("price")) | data::shuffle() |
//   data::batch(64);
#pragma once
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "weft/tensor.hpp"

namespace weft::data {

struct TableOptions {  // how a file of columns is read
  char separator = 0;  // 0: a tab where the first line has one and no comma, else a comma
  bool header = true;  // whether the first line holds the names of columns; else these are "0", "1", ...
  // The texts of a missing value, besides an empty field.
  std::vector<std::string> missing = {"NA", "N/A", "NaN", "nan", "null"};
};
struct ColumnOptions {       // how a column is read
  DType dtype = DType::f32;  // of numbers, or bool
  // The value of a cell that is missing. In a column of integers NaN means that there may be none.
  double missing = std::numeric_limits<double>::quiet_NaN();
};
// A column of words as numbers: the word of row i is names[values[i]].
struct Categories {
  Tensor values;                   // i64[rows]; -1 where a cell is missing
  std::vector<std::string> names;  // in the order of their bytes
};

// Cells of a mapped file, whose lines end with \n, \r\n or \r; it must not be changed in place meanwhile. They are read
// as numbers when a column is asked for. All throw Error on a name that no column has, and where a cell does not fit,
// with the path and the line.
class Table {
 public:
  // The other one must not be asked then.
  Table(Table&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  // Swaps the two.
  Table& operator=(Table&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }

  ~Table();

  std::int64_t rows() const;                      // without the header
  const std::vector<std::string>& names() const;  // of the columns, from left to right
  // [rows], of a dtype of numbers or bool (0, 1, true, false). Blanks around a number do not count.
  Tensor column(const char* name, const ColumnOptions& options = {}, Loc loc = Loc::current()) const;
  // Several, side by side: [rows, count].
  Tensor columns(std::initializer_list<const char*> names, const ColumnOptions& options = {},
                 Loc loc = Loc::current()) const;
  // The fields as they are in the file, without quotes.
  std::vector<std::string> text(const char* name, Loc loc = Loc::current()) const;
  // The words of a column as numbers.
  Categories categories(const char* name, Loc loc = Loc::current()) const;

 private:
  friend Table read_table(const std::string& path, const TableOptions& options, Loc loc);
  struct Data;
  explicit Table(Data* data) : data_(data) {}
  Data* data_;
};

// A text whose lines have equally many fields. A field in "quotes" may hold separators, line ends, and quotes, doubled
// (RFC 4180). Lines end with \n or \r\n; empty ones do not count. Throws Error with the path, and the line of what is
// wrong: another number of fields, a quote that does not end or is within a field, two columns of one name.
Table read_table(const std::string& path, const TableOptions& options = {}, Loc loc = Loc::current());

}  // namespace weft::data
