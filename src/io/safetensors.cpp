#include "io/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fail.hpp"
#include "ir/dtype.hpp"
#include "record/record.hpp"

namespace weft::io {
namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // that of the format's own reader

template <class... Parts>
[[noreturn]] void damaged(const Parts&... parts) {
  throw DamagedFile(concat_text(parts...));
}

// F32, BF16, BOOL: our names in capitals; the floats of 8 bits with a line.
std::string name_in_file(DType dtype) {
  if (dtype == DType::f8e4m3) return "F8_E4M3";
  if (dtype == DType::f8e5m2) return "F8_E5M2";
  std::string name = info(dtype).name;
  for (char& letter : name)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  return name;
}
constexpr DType all_dtypes[] = {
#define WEFT_DTYPE(name, ...) DType::name,
#include "weft/dtypes.def"
#undef WEFT_DTYPE
};
std::optional<DType> dtype_in_file(const std::string& name) {
  for (const DType dtype : all_dtypes)
    if (name_in_file(dtype) == name) return dtype;
  return {};
}

// Takes the header as it is parsed. Throws at a value where none is expected, and at a name that occurs twice.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}

  bool key(string_t& name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second) damaged("holds ", name, " twice");
      in_metadata_ = name == metadata_key;
      if (!in_metadata_) header_.entries.emplace_back().name = name;
      return true;
    }
    field_ = name;
    if (in_metadata_) return true;
    if (name != "dtype" && name != "shape" && name != "data_offsets") unexpected();
    const int bit = name == "dtype" ? 1 : name == "shape" ? 2 : 4;
    if (fields_ & bit) unexpected();
    fields_ |= bit;
    return true;
  }
  bool start_object(std::size_t) override {
    if (++depth_ > 2 || in_list_ || (depth_ == 2 && names_.empty())) unexpected();
    fields_ = 0;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) finish_entry();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || in_list_ || field_ == "dtype") unexpected();
    in_list_ = true;
    list_.clear();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    if (field_ == "shape") {
      header_.entries.back().shape = list_;
    } else {
      if (list_.size() != 2) unexpected();
      header_.entries.back().begin = list_[0];
      header_.entries.back().end = list_[1];
    }
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ != 2 || in_list_ || (!in_metadata_ && field_ != "dtype")) unexpected();
    if (in_metadata_)
      header_.metadata[field_] = text;
    else
      header_.entries.back().dtype_name = text;
    return true;
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (!in_list_) unexpected();
    list_.push_back(number);
    return true;
  }
  bool number_integer(number_integer_t) override { unexpected(); }
  bool number_float(number_float_t, const string_t&) override { unexpected(); }
  bool null() override { unexpected(); }
  bool boolean(bool) override { unexpected(); }
  bool binary(binary_t&) override { unexpected(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    damaged("has a header that is no JSON, at byte ", position);
  }

 private:
  [[noreturn]] void unexpected() const {
    if (header_.entries.empty()) damaged("has a header that is no list of tensors");
    damaged("has a header that does not say the dtype, shape and data_offsets of ", header_.entries.back().name);
  }
  void finish_entry() {
    SafetensorsEntry& entry = header_.entries.back();
    if (fields_ != 7) unexpected();
    entry.dtype = dtype_in_file(entry.dtype_name);
  }

  SafetensorsHeader& header_;
  std::set<std::string> names_;
  std::string field_;
  std::vector<std::uint64_t> list_;
  int depth_ = 0, fields_ = 0;
  bool in_list_ = false, in_metadata_ = false;
};

void check_entries(SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::sort(header.entries.begin(), header.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin > entry.end || entry.end > data_bytes)
      damaged("says that ", entry.name, " lies at bytes ", entry.begin, " to ", entry.end, " of ", data_bytes);
    if (entry.begin != at) damaged(entry.begin < at ? "has tensors that overlap: " : "has a hole before ", entry.name);
    at = entry.end;
    std::uint64_t count = 1;
    bool too_many = false, empty = false;
    for (const std::uint64_t size : entry.shape) {
      empty = empty || size == 0;
      too_many = __builtin_mul_overflow(count, size, &count) || too_many;
    }
    if (empty) count = 0;
    if (!empty && (too_many || count > std::uint64_t{1} << 58))
      damaged("says that ", entry.name, " holds more elements than there can be");
    if (entry.dtype && storage_bytes(*entry.dtype, static_cast<std::int64_t>(count)) != entry.end - entry.begin)
      damaged("gives ", entry.name, ", ", entry.type_text(), ", ", entry.end - entry.begin, " bytes");
  }
  if (at != data_bytes) damaged("is longer than its tensors: ", data_bytes - at, " bytes more");
}

}  // namespace

std::string SafetensorsEntry::type_text() const {
  std::string text = dtype_name + "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

SafetensorsHeader read_safetensors(std::span<const std::uint8_t> file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) damaged("is too short for a safetensors file");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > longest_header || length > file.size() - sizeof length)
    damaged("is no safetensors file, or truncated: its header would have ", length, " bytes");
  SafetensorsHeader header;
  header.data_begin = sizeof length + length;
  const auto* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  if (length == 0 || *text != '{') damaged("is no safetensors file: its header does not begin with {");
  HeaderReader reader(header);
  json::sax_parse(text, text + length, &reader);
  check_entries(header, file.size() - header.data_begin);
  return header;
}

std::optional<Type> type_of_entry(const SafetensorsEntry& entry) {
  if (!entry.dtype || entry.shape.size() > static_cast<std::size_t>(max_rank)) return {};
  Type type{*entry.dtype};
  for (const std::uint64_t size : entry.shape) {
    if (size >= static_cast<std::uint64_t>(count_limit)) return {};
    type.shape.push_back(static_cast<std::int64_t>(size));
  }
  return type;
}

std::string write_safetensors_header(std::span<const SafetensorsTensor> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"" + std::string(metadata_key) + "\":" + json(metadata).dump();
  std::uint64_t at = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (text.size() > 1) text += ',';
    text += json(tensor.name).dump() + ":{\"dtype\":\"" + name_in_file(tensor.type.dtype) + "\",\"shape\":[";
    std::uint64_t count = 1;
    for (int axis = 0; axis < tensor.type.shape.rank(); ++axis) {
      const auto size = static_cast<std::uint64_t>(static_cast<std::int64_t>(tensor.type.shape[axis]));
      text += (axis ? "," : "") + std::to_string(size);
      count *= size;
    }
    const std::uint64_t end = at + storage_bytes(tensor.type.dtype, static_cast<std::int64_t>(count));
    text += concat_text("],\"data_offsets\":[", at, ",", end, "]}");
    at = end;
  }
  text += '}';
  std::uint64_t length = (sizeof length + text.size() + 63) / 64 * 64 - sizeof length;
  text.resize(length, ' ');
  std::string whole(sizeof length, '\0');
  std::memcpy(whole.data(), &length, sizeof length);
  return whole + text;
}

}  // namespace weft::io
