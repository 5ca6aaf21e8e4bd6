#include "io/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "io/file_values.hpp"
#include "io/safetensors.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "weft/io.hpp"

namespace weft::io {
namespace {

constexpr std::size_t longest_header = std::size_t{1} << 20;
constexpr std::string_view magic = "\x93NUMPY";

template <class... Parts>
[[noreturn]] void damaged(const Parts&... parts) {
  throw DamagedFile(concat_text(parts...));
}

// f4 for f32, b1 for bool; empty for what NumPy has not.
std::string name_in_numpy(DType dtype) {
  if (dtype == DType::bf16 || only_holds(dtype)) return {};
  const char* name = info(dtype).name;
  return concat_text(name[0], storage_bytes(dtype, 1));
}
// As users of NumPy know it: '<u8' (uint64). The digits of a descr are bytes, those of a name are bits.
std::string described(std::string_view descr, std::string_view name) {
  std::string text = concat_text("'", descr, "'");
  int bytes = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), bytes);
  if (error != std::errc() || end != name.data() + name.size() || bytes < 1 || bytes > 64) return text;
  const char* kind = name[0] == 'i'   ? "int"
                     : name[0] == 'u' ? "uint"
                     : name[0] == 'f' ? "float"
                     : name[0] == 'c' ? "complex"
                                      : nullptr;
  return kind ? concat_text(text, " (", kind, 8 * bytes, ")") : text;
}
DType dtype_of(std::string_view descr, bool has_order) {
  const std::string_view wanted = descr.substr(has_order ? 1 : 0);
  static constexpr DType all[] = {
#define WEFT_DTYPE(name, ...) DType::name,
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  };
  if (wanted.empty()) damaged("has elements of no dtype");
  for (const DType dtype : all)
    if (name_in_numpy(dtype) == wanted) return dtype;
  damaged("has elements of dtype ", described(descr, wanted), ", which Weft has not");
}

// The Python literal of the header, from left to right.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  NpyHeader read() {
    expect('{');
    int fields = 0;
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      const int field = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (!field || fields & field) unexpected();
      fields |= field;
      if (field == 1)
        descr(string());
      else if (field == 2)
        header_.reversed = boolean();
      else
        shape();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (fields != 7 || !text_.empty()) unexpected();
    finish();
    return header_;
  }

 private:
  [[noreturn]] static void unexpected() { damaged("has a header that does not say descr, fortran_order and shape"); }
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) text_.remove_prefix(1);
  }
  bool take(char wanted) {
    skip_space();
    if (text_.empty() || text_[0] != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) unexpected();
  }
  std::string_view string() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) unexpected();
    const std::string_view result = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return result;
  }
  bool boolean() {
    skip_space();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")})
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return word == "True";
      }
    unexpected();
  }
  void descr(std::string_view text) {
    if (text.size() < 2) unexpected();
    const char order = text[0];
    const bool marked = order == '<' || order == '>' || order == '|' || order == '=';
    header_.swapped = order == '>';
    header_.type.dtype = dtype_of(text, marked);
  }
  void shape() {
    expect('(');
    while (!take(')')) {
      skip_space();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0 || size >= count_limit) unexpected();
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      if (header_.type.shape.rank() == max_rank) damaged("has more than ", max_rank, " axes");
      header_.type.shape.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }
  void finish() {
    Shape& shape = header_.type.shape;
    std::uint64_t count = 1;
    bool too_many = false, empty = false;
    for (int i = 0; i < shape.rank(); ++i) {
      const auto size = static_cast<std::uint64_t>(static_cast<std::int64_t>(shape[i]));
      empty = empty || size == 0;
      too_many = __builtin_mul_overflow(count, size, &count) || too_many;
    }
    if (!empty && (too_many || count >= static_cast<std::uint64_t>(count_limit)))
      damaged("says that it holds more elements than there can be");
    header_.bytes = empty ? 0 : storage_bytes(header_.type.dtype, static_cast<std::int64_t>(count));
    header_.reversed = header_.reversed && shape.rank() > 1;
    if (!header_.reversed) return;
    for (int i = 0, j = shape.rank() - 1; i < j; ++i, --j) std::swap(shape[i], shape[j]);
  }

  std::string_view text_;
  NpyHeader header_;
};

}  // namespace

NpyText npy_text(std::span<const std::uint8_t> prefix) {
  if (prefix.size() < npy_prefix || std::memcmp(prefix.data(), magic.data(), magic.size()) != 0)
    damaged("is no NPY file");
  const int version = prefix[6];
  if (version < 1 || version > 3) damaged("is an NPY file of version ", version, ", which is unknown");
  std::uint32_t length = 0;
  const std::size_t width = version == 1 ? 2 : 4;
  std::memcpy(&length, prefix.data() + 8, width);
  if (length > longest_header) damaged("has a header of ", length, " bytes");
  return {8 + width, 8 + width + length};
}
NpyHeader read_npy_header(std::string_view text) { return DictReader(text).read(); }

std::string write_npy_header(const char* operation, const Type& type, Loc loc) {
  const std::string name = name_in_numpy(type.dtype);
  if (name.empty()) fail(operation, loc, "NumPy has no ", info(type.dtype).name, ": cast the tensor to f32");
  std::string text = concat_text("{'descr': '", storage_bytes(type.dtype, 1) == 1 ? '|' : '<', name,
                                 "', 'fortran_order': False, 'shape': (");
  for (int axis = 0; axis < type.shape.rank(); ++axis)
    text += concat_text(static_cast<std::int64_t>(type.shape[axis]),
                        type.shape.rank() == 1 || axis + 1 < type.shape.rank() ? "," : "");
  text += "), }";
  const std::size_t begin = magic.size() + 4;
  text.resize((begin + text.size() + 1 + 63) / 64 * 64 - begin - 1, ' ');
  text += '\n';
  std::string whole(magic);
  whole += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return whole + text;
}

void swap_bytes(std::uint8_t* bytes, std::uint64_t count, std::size_t width) {
  for (std::uint64_t i = 0; i < count; ++i) std::reverse(bytes + i * width, bytes + (i + 1) * width);
}
Tensor with_axes_of(const NpyHeader& header, Tensor value) {
  if (!header.reversed) return value;
  std::vector<int> axes;
  for (int i = header.type.shape.rank(); i-- > 0;) axes.push_back(i);
  return permute(value, axes);
}

Tensor load_npy(const std::string& path, Loc loc) {
  Operation call("load_npy", loc);
  if (recorder().trace()) fail("load_npy", call.loc(), "files can't be read or written inside a compiled function");
  const std::shared_ptr<const MappedFile> file = MappedFile::open("load_npy", path.c_str(), call.loc());
  const std::span<const std::uint8_t> bytes = file->bytes();
  try {
    const NpyText text = npy_text(bytes);
    if (text.end > bytes.size()) damaged("is truncated");
    const auto* begin = reinterpret_cast<const char*>(bytes.data());
    const NpyHeader header = read_npy_header({begin + text.begin, text.end - text.begin});
    if (header.bytes != bytes.size() - text.end)
      damaged("has ", bytes.size() - text.end, " bytes of elements where ", to_string(header.type), " has ",
              header.bytes);
    Tensor value = tensor_over(file, bytes.data() + text.end, header.type, call.loc());
    if (header.swapped) {
      const std::size_t width = storage_bytes(header.type.dtype, 1);
      Storage* copy = allocate(Device::cpu(), std::max<std::size_t>(header.bytes, 1));
      if (header.bytes) std::memcpy(copy->data, bytes.data() + text.end, header.bytes);
      swap_bytes(static_cast<std::uint8_t*>(copy->data), header.bytes / width, width);
      value = make_data(copy, header.type, call.loc());
    }
    return with_axes_of(header, std::move(value));
  } catch (const DamagedFile& reason) {
    fail("load_npy", call.loc(), path.c_str(), " ", reason.what());
  }
}

void save_npy(const std::string& path, const Tensor& value, Loc loc) {
  Operation call("save_npy", loc);
  if (recorder().trace()) fail("save_npy", call.loc(), "files can't be read or written inside a compiled function");
  const Tensor wanted = resolve(At(value, call.loc()), "save_npy");
  const std::string header = write_npy_header("save_npy", type_of(wanted), call.loc());
  const HostElements elements(wanted, call.loc());
  NewFile file("save_npy", path.c_str(), call.loc());
  file.write(header);
  file.write(elements.bytes());
  file.finish();
}

}  // namespace weft::io
