#include "array_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.hpp"

namespace weft_run {

namespace {

struct Type {
  weft_data_type dtype;
  const char *name, *numpy, *safetensors;  // NumPy has no bf16, and no floats of 8 bits
};
constexpr Type types[] = {
    {{6, 8, 1}, "bool", "b1", "BOOL"},     {{1, 8, 1}, "u8", "u1", "U8"},         {{0, 8, 1}, "i8", "i1", "I8"},
    {{0, 16, 1}, "i16", "i2", "I16"},      {{1, 16, 1}, "u16", "u2", "U16"},      {{1, 32, 1}, "u32", "u4", "U32"},
    {{0, 32, 1}, "i32", "i4", "I32"},      {{0, 64, 1}, "i64", "i8", "I64"},      {{2, 16, 1}, "f16", "f2", "F16"},
    {{4, 16, 1}, "bf16", "", "BF16"},      {{2, 32, 1}, "f32", "f4", "F32"},      {{2, 64, 1}, "f64", "f8", "F64"},
    {{10, 8, 1}, "f8e4m3", "", "F8_E4M3"}, {{12, 8, 1}, "f8e5m2", "", "F8_E5M2"},
};
bool same(weft_data_type a, weft_data_type b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }
const Type& type_of(weft_data_type dtype) {
  const auto* const found = std::ranges::find_if(types, [&](const Type& each) { return same(each.dtype, dtype); });
  if (found == std::end(types)) throw Failure{"a tensor has a dtype that neither NPY nor safetensors has"};
  return *found;
}

[[noreturn]] void fail_errno(const std::string& path, const char* what) {
  throw Failure{path + " " + what + ": " + std::strerror(errno)};
}

std::vector<unsigned char> bytes_of_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) fail_errno(path, "can't be read");
  std::vector<unsigned char> bytes;
  unsigned char part[1 << 16];
  while (const std::size_t count = std::fread(part, 1, sizeof part, file.get()))
    bytes.insert(bytes.end(), part, part + count);
  if (std::ferror(file.get())) fail_errno(path, "can't be read");
  return bytes;
}

void add(weft::NewFile& file, const void* bytes, std::size_t count) {
  file.write({static_cast<const std::uint8_t*>(bytes), count});
}

std::vector<std::int64_t> sizes_of(const weft_tensor& tensor) { return {tensor.shape, tensor.shape + tensor.ndim}; }
const void* first_of(const weft_tensor& tensor) {
  return static_cast<const unsigned char*>(tensor.data) + tensor.byte_offset;
}

bool ends_with(const std::string& path, std::string_view end) { return std::string_view(path).ends_with(end); }

// The value of a key in the header of NPY, which is a literal of Python; empty: it is not there.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size());
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" :")));
  const char last = rest.starts_with('(') ? ')' : ',';
  rest = rest.substr(0, std::min(rest.size(), rest.find(last) + (last == ')' ? 1 : 0)));
  return rest.substr(0, rest.find_last_not_of(' ') + 1);
}

Array read_npy(const std::string& path) {
  const std::vector<unsigned char> bytes = bytes_of_file(path);
  const auto damaged = [&](const char* what) -> Failure { return {path + " is no NPY file: " + what}; };
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!all.starts_with("\x93NUMPY") || all.size() < 12) throw damaged("it begins otherwise");
  const std::size_t start = bytes[6] == 1 ? 10 : 12;
  std::size_t length = bytes[8] + 256u * bytes[9];
  if (start == 12) length += (std::size_t{bytes[10]} << 16) + (std::size_t{bytes[11]} << 24);
  if (length > all.size() - start) throw damaged("it ends within its header");
  const std::string_view header = all.substr(start, length);
  std::string_view descr = value_of(header, "'descr'");
  const std::string_view order = value_of(header, "'fortran_order'"), shape = value_of(header, "'shape'");
  if (descr.size() < 4 || !shape.starts_with('(') || !shape.ends_with(')') || (order != "True" && order != "False"))
    throw damaged("its header does not say descr, fortran_order and shape");
  descr = descr.substr(1, descr.size() - 2);
  const auto* const type =
      std::ranges::find_if(types, [&](const Type& each) { return *each.numpy && descr.substr(1) == each.numpy; });
  if (type == std::end(types))
    throw Failure{path + " has elements of '" + std::string(descr) + "', which a package does not take"};
  Array array;
  array.dtype = type->dtype;
  for (const char* at = shape.data() + 1; at < shape.data() + shape.size() - 1;) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(at, shape.data() + shape.size(), size);
    if (error != std::errc() || size < 0) throw damaged("its shape has something else than sizes");
    array.sizes.push_back(size);
    for (at = end; *at == ',' || *at == ' ';) ++at;
  }
  const std::size_t wanted = bytes_of(array.dtype, array.sizes, path);
  if (order == "True" && array.sizes.size() > 1) {
    std::int64_t stride = 1;
    for (const std::int64_t size : array.sizes)
      array.strides.push_back(stride), stride *= std::max<std::int64_t>(size, 1);
  }
  if (all.size() - start - length != wanted)
    throw Failure{path + " has " + std::to_string(all.size() - start - length) +
                  " bytes of elements, its header says " + std::to_string(wanted)};
  array.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(start + length), bytes.end());
  const std::ptrdiff_t element = type->dtype.bits / 8;
  for (auto at = array.bytes.begin(); descr[0] == '>' && at != array.bytes.end(); at += element)
    std::reverse(at, at + element);
  return array;
}

std::vector<Array> read_safetensors(const std::string& path) {
  const std::vector<unsigned char> bytes = bytes_of_file(path);
  const auto damaged = [&](const std::string& what) -> Failure { return {path + " is no safetensors file: " + what}; };
  if (bytes.size() < 8) throw damaged("it is too short");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - 8) throw damaged("it ends within its header");
  const unsigned char* const elements = bytes.data() + 8 + length;
  const std::size_t count = bytes.size() - 8 - length;
  std::vector<Array> arrays;
  try {
    const auto header = nlohmann::json::parse(bytes.data() + 8, elements);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      Array& array = arrays.emplace_back();
      array.name = name;
      const auto dtype = entry.at("dtype").get<std::string>();
      const auto* const type = std::ranges::find_if(types, [&](const Type& each) { return dtype == each.safetensors; });
      if (type == std::end(types))
        throw Failure{path + ": " + name + " has elements of " + dtype + ", which a package does not take"};
      array.dtype = type->dtype;
      array.sizes = entry.at("shape").get<std::vector<std::int64_t>>();
      const auto at = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
      const std::size_t wanted = bytes_of(array.dtype, array.sizes, path + ": " + name);
      if (at.size() != 2 || at[0] > at[1] || at[1] > count || at[1] - at[0] != wanted)
        throw damaged(name + " lies where it can't");
      array.bytes.assign(elements + at[0], elements + at[1]);
    }
  } catch (const nlohmann::json::exception&) {
    throw damaged("its header says something else");
  }
  return arrays;
}

}  // namespace

weft_tensor Array::tensor() {
  weft_tensor made{};
  made.data = bytes.empty() ? nullptr : bytes.data();
  made.device.device_type = 1;
  made.ndim = static_cast<std::int32_t>(sizes.size());
  made.dtype = dtype;
  made.shape = sizes.data();
  made.strides = strides.empty() ? nullptr : strides.data();
  return made;
}

std::string name_of(weft_data_type dtype) { return type_of(dtype).name; }

std::size_t bytes_of(weft_data_type dtype, const std::vector<std::int64_t>& sizes, const std::string& what) {
  std::size_t bytes = dtype.bits / 8;
  for (const std::int64_t size : sizes)  // those beside a size of 0 make strides, which must not be too large either
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<std::size_t>(static_cast<std::size_t>(size), 1), &bytes) ||
        bytes >> 48)
      throw Failure{what + " has a size that is negative, or too many elements"};
  return std::ranges::count(sizes, 0) > 0 ? 0 : bytes;
}

bool is_npy(const std::string& path) { return ends_with(path, ".npy"); }
bool is_safetensors(const std::string& path) { return ends_with(path, ".safetensors"); }

std::vector<Array> read_arrays(const std::string& path) {
  if (is_safetensors(path)) return read_safetensors(path);
  std::vector<Array> arrays;
  arrays.push_back(read_npy(path));
  return arrays;
}

void write_npy(const std::string& path, const weft_tensor& tensor) {
  const Type& type = type_of(tensor.dtype);
  if (!*type.numpy)
    throw Failure{path + " can't hold " + type.name + ", which NumPy has not: write a .safetensors file"};
  std::string shape;
  for (const std::int64_t size : sizes_of(tensor)) shape += std::to_string(size) + ",";
  if (tensor.ndim > 1) shape.pop_back();
  std::string header = std::string("{'descr': '") + (tensor.dtype.bits == 8 ? '|' : '<') + type.numpy +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  const unsigned char start[] = {0x93,
                                 'N',
                                 'U',
                                 'M',
                                 'P',
                                 'Y',
                                 1,
                                 0,
                                 static_cast<unsigned char>(header.size() % 256),
                                 static_cast<unsigned char>(header.size() / 256)};
  weft::NewFile file("", path.c_str(), {});
  add(file, start, sizeof start);
  add(file, header.data(), header.size());
  add(file, first_of(tensor), bytes_of(tensor.dtype, sizes_of(tensor), path));
  file.finish();
}

void write_safetensors(const std::string& path, const std::vector<Named>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::size_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = end;
    end += bytes_of(tensor->dtype, sizes_of(*tensor), path);
    header[name] = {
        {"dtype", type_of(tensor->dtype).safetensors}, {"shape", sizes_of(*tensor)}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  weft::NewFile file("", path.c_str(), {});
  add(file, &length, sizeof length);
  add(file, text.data(), text.size());
  for (const auto& [name, tensor] : tensors)
    add(file, first_of(*tensor), bytes_of(tensor->dtype, sizes_of(*tensor), path));
  file.finish();
}

}  // namespace weft_run
