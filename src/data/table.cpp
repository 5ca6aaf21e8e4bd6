// CSV and TSV. One walk over the file finds the cells; a column's numbers are read with std::from_chars. Written here:
// the readers that Debian has call a function for each byte, or want the columns at compile time.
#include "weft/data/table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/file.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"

namespace weft::data {
namespace {

// How many bytes a line's end at `at` has, \n, \r\n or \r; 0: there is none.
std::size_t line_end(std::string_view text, std::size_t at) {
  if (at >= text.size()) return 0;
  if (text[at] == '\n') return 1;
  return text[at] != '\r' ? 0 : text.substr(at, 2) == "\r\n" ? 2 : 1;
}

}  // namespace

struct Table::Data {
  struct Cell {
    std::size_t begin;  // in the file, after the quote where there is one
    std::uint32_t size;
    bool quoted, doubled;  // doubled: holds quotes, twice each
  };

  std::shared_ptr<const MappedFile> file;
  std::string path;
  TableOptions options;
  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> positions;
  std::vector<Cell> cells;  // row by row
  std::size_t rows = 0;

  std::string_view bytes() const { return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}; }
  std::string_view raw(const Cell& cell) const { return bytes().substr(cell.begin, cell.size); }
  const Cell& cell(std::size_t row, std::size_t column) const { return cells[row * names.size() + column]; }
  std::string text(const Cell& cell) const {
    const std::string_view raw = this->raw(cell);
    if (!cell.doubled) return std::string(raw);
    std::string result;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      result += raw[i];
      if (raw[i] == '"') ++i;
    }
    return result;
  }
  bool is_missing(const Cell& cell) const {
    const std::string_view raw = this->raw(cell);
    return !cell.quoted &&
           (raw.empty() || std::find(options.missing.begin(), options.missing.end(), raw) != options.missing.end());
  }
  std::size_t line_of(std::size_t position) const {
    std::size_t line = 1;
    for (std::size_t at = 0; at < position;) {
      const std::size_t end = line_end(bytes(), at);
      line += end > 0;
      at += std::max<std::size_t>(end, 1);
    }
    return line;
  }
  template <class... Parts>
  [[noreturn]] void refuse(const char* operation, Loc loc, std::size_t position, const Parts&... parts) const {
    fail(operation, loc, path, ":", line_of(position), ": ", parts...);
  }
  std::size_t position_of(const char* operation, const char* name, Loc loc) const {
    if (const auto found = positions.find(name); found != positions.end()) return found->second;
    std::string all;
    for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
    fail(operation, loc, path, " has no column ", name, "; there are ", all);
  }

  void read(Loc loc);
  Cell read_cell(std::size_t& at, char separator, Loc loc) const;
  void read_names(std::vector<Cell>& first, Loc loc);
  template <class T>
  void read_column(std::size_t column, const ColumnOptions& options, T* to, std::size_t step, Loc loc) const;
};

// The cell at `at`, which is moved to the end of the cell: a separator, a line's end or the file's.
Table::Data::Cell Table::Data::read_cell(std::size_t& at, char separator, Loc loc) const {
  const std::string_view text = bytes();
  const std::size_t start = at;
  if (at < text.size() && text[at] == '"') {
    Cell cell{at + 1, 0, true, false};
    for (std::size_t end = at + 1;; end += 2) {
      end = text.find('"', end);
      if (end == text.npos) refuse("read_table", loc, start, "a quoted field does not end");
      if (end + 1 < text.size() && text[end + 1] == '"') {
        cell.doubled = true;
        continue;
      }
      if (end - cell.begin > UINT32_MAX) refuse("read_table", loc, start, "a field has more than 4 GiB");
      cell.size = static_cast<std::uint32_t>(end - cell.begin);
      at = end + 1;
      break;
    }
    const bool ends = at == text.size() || text[at] == separator || line_end(text, at) > 0;
    if (!ends) refuse("read_table", loc, start, "a quoted field goes on after its quotes");
    return cell;
  }
  const char *byte = text.data() + at, *const end = text.data() + text.size();
  while (byte != end && *byte != separator && *byte != '\n' && *byte != '\r' && *byte != '"') ++byte;
  if (byte != end && *byte == '"') refuse("read_table", loc, start, "a quote is within a field");
  at = static_cast<std::size_t>(byte - text.data());
  const std::size_t size = at - start;
  if (size > UINT32_MAX) refuse("read_table", loc, start, "a field has more than 4 GiB");
  return {start, static_cast<std::uint32_t>(size), false, false};
}

void Table::Data::read_names(std::vector<Cell>& first, Loc loc) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    names.push_back(options.header ? text(first[i]) : std::to_string(i));
    if (!positions.emplace(names.back(), i).second)
      refuse("read_table", loc, first[i].begin, "two columns have the name ", names.back());
  }
  if (options.header) first.clear();
}

void Table::Data::read(Loc loc) {
  const std::string_view text = bytes();
  std::size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  const std::string_view head = text.substr(at, text.find_first_of("\r\n", at) - at);
  char separator = options.separator;
  if (!separator) separator = head.find('\t') != head.npos && head.find(',') == head.npos ? '\t' : ',';
  if (separator == '"' || separator == '\n' || separator == '\r')
    fail("read_table", loc, "a quote or a line's end can't be the separator");
  std::size_t width = 0;
  while (at < text.size()) {
    if (const std::size_t blank = line_end(text, at); blank > 0) {
      at += blank;
      continue;
    }
    const std::size_t start = at, before = cells.size();
    for (;;) {
      cells.push_back(read_cell(at, separator, loc));
      if (at == text.size() || text[at] != separator) break;
      ++at;
    }
    at += line_end(text, at);
    if (width == 0) {
      width = cells.size();
      read_names(cells, loc);
    } else if (cells.size() - before != width) {
      refuse("read_table", loc, start, counted(static_cast<std::int64_t>(cells.size() - before), "field", "fields"),
             " where the first line has ", width);
    }
  }
  if (width == 0) fail("read_table", loc, path, " is empty");
  rows = cells.size() / width;
}

namespace {

// One number, the whole of a text; std::errc() where it is one.
template <class T>
std::errc read_number(std::string_view text, T& to) {
  const char* const end = text.data() + text.size();
  if constexpr (std::is_same_v<T, bool>) {
    to = text == "1" || text == "true" || text == "True" || text == "TRUE";
    return to || text == "0" || text == "false" || text == "False" || text == "FALSE" ? std::errc()
                                                                                      : std::errc::invalid_argument;
  } else if constexpr (!std::is_arithmetic_v<T>) {
    double wide = 0;
    const std::errc error = read_number(text, wide);
    to = T(wide);
    return error;
  } else {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    const auto [stop, error] = std::from_chars(text.data(), end, to);
    if (stop != end) return std::errc::invalid_argument;
    if constexpr (!std::is_integral_v<T>)
      if (error == std::errc::result_out_of_range) {  // infinity, or nearly nothing
        to = static_cast<T>(std::strtod(std::string(text).c_str(), nullptr));
        return std::errc();
      }
    return error;
  }
}
std::string_view trimmed(std::string_view text) {
  const auto blank = [](char byte) { return byte == ' ' || byte == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

template <class T>
void Table::Data::read_column(std::size_t column, const ColumnOptions& wanted, T* to, std::size_t step, Loc loc) const {
  T substitute{};
  bool has_substitute = true;
  if constexpr (std::is_integral_v<T>)
    has_substitute = std::abs(wanted.missing) < 0x1p62 && wanted.missing == std::trunc(wanted.missing) &&
                     read_number(std::to_string(static_cast<std::int64_t>(wanted.missing)), substitute) == std::errc();
  else
    substitute = static_cast<T>(wanted.missing);
  for (std::size_t row = 0; row < rows; ++row, to += step) {
    const Cell& cell = this->cell(row, column);
    if (is_missing(cell)) {
      if (!has_substitute)
        refuse("column", loc, cell.begin, names[column], " is missing, and ",
               std::isnan(wanted.missing)
                   ? concat_text(info(wanted.dtype).name, " has no NaN: .missing gives the value to use instead")
                   : concat_text(".missing is ", wanted.missing, ", which does not fit in ", info(wanted.dtype).name));
      *to = substitute;
      continue;
    }
    const std::string_view text = trimmed(raw(cell));
    const std::errc error = read_number(text, *to);
    if (error == std::errc()) continue;
    const bool large = error == std::errc::result_out_of_range;
    refuse("column", loc, cell.begin, names[column], " is ", text.substr(0, 40), ", which ",
           large ? "does not fit in " : "can't be read as ", info(wanted.dtype).name);
  }
}

Table::~Table() { delete data_; }
std::int64_t Table::rows() const { return static_cast<std::int64_t>(data_->rows); }
const std::vector<std::string>& Table::names() const { return data_->names; }

Table read_table(const std::string& path, const TableOptions& options, Loc loc) {
  if (recorder().trace()) fail("read_table", loc, "files can't be read inside a compiled function");
  Table table(new Table::Data{MappedFile::open("read_table", path.c_str(), loc), path.c_str(), options, {}, {}, {}});
  table.data_->read(loc);
  return table;
}

Tensor Table::columns(std::initializer_list<const char*> names, const ColumnOptions& options, Loc loc) const {
  const std::size_t count = names.size();
  Tensor result = make_data(
      allocate(Device::cpu(),
               std::max<std::size_t>(storage_bytes(options.dtype, static_cast<std::int64_t>(count * data_->rows)), 1)),
      {options.dtype, false, {}, Shape::of(rows(), static_cast<std::int64_t>(count))}, loc);
  void* const to = storage_of(result)->data;
  std::size_t at = 0;
  for (const char* name : names) {
    const std::size_t column = data_->position_of("column", name, loc);
    switch (options.dtype) {
#define WEFT_DTYPE(dtype, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::dtype:                                                                        \
    data_->read_column<type>(column, options, static_cast<type*>(to) + at++, count, loc);   \
    break;
#include "weft/dtypes.def"
#undef WEFT_DTYPE
    }
  }
  return result;
}
Tensor Table::column(const char* name, const ColumnOptions& options, Loc loc) const {
  const Tensor cells = columns({name}, options, loc);
  return reshape(At(cells, loc), {rows()});
}

std::vector<std::string> Table::text(const char* name, Loc loc) const {
  const std::size_t column = data_->position_of("text", name, loc);
  std::vector<std::string> result;
  for (std::size_t row = 0; row < data_->rows; ++row) result.push_back(data_->text(data_->cell(row, column)));
  return result;
}

Categories Table::categories(const char* name, Loc loc) const {
  const std::size_t column = data_->position_of("categories", name, loc);
  const std::vector<std::string> words = text(name, loc);
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t row = 0; row < words.size(); ++row)
    if (!data_->is_missing(data_->cell(row, column))) numbers.emplace(words[row], 0);
  Categories result;
  for (auto& [word, number] : numbers) {
    number = static_cast<std::int64_t>(result.names.size());
    result.names.push_back(word);
  }
  std::vector<std::int64_t> values;
  for (std::size_t row = 0; row < words.size(); ++row)
    values.push_back(data_->is_missing(data_->cell(row, column)) ? -1 : numbers.at(words[row]));
  result.values = from_span(std::span<const std::int64_t>(values), {rows()}, loc);
  return result;
}

}  // namespace weft::data
