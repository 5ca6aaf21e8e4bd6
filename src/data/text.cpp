// Text files and their bytes.
#include "weft/data/text.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/file.hpp"
#include "record/record.hpp"

namespace weft::data {
namespace {

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}
void refuse_trace(const char* operation, Loc loc) {
  if (recorder().trace()) fail(operation, loc, "files can't be read inside a compiled function");
}

}  // namespace

std::string read_text(const std::string& path, Loc loc) {
  refuse_trace("read_text", loc);
  return std::string(text_of(*MappedFile::open("read_text", path.c_str(), loc)));
}

std::vector<std::string> read_lines(const std::string& path, Loc loc) {
  refuse_trace("read_lines", loc);
  const auto file = MappedFile::open("read_lines", path.c_str(), loc);
  std::string_view text = text_of(*file);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

ByteVocabulary::ByteVocabulary() {
  for (int byte = 0; byte < 256; ++byte) bytes_ += static_cast<char>(byte);
}
ByteVocabulary::ByteVocabulary(std::string_view text) {
  bool found[256] = {};
  for (const char byte : text) found[static_cast<unsigned char>(byte)] = true;
  for (int byte = 0; byte < 256; ++byte)
    if (found[byte]) bytes_ += static_cast<char>(byte);
}
Tensor ByteVocabulary::encode(std::string_view text, Loc loc) const {
  std::int64_t numbers[256];
  std::fill_n(numbers, 256, -1);
  for (std::size_t i = 0; i < bytes_.size(); ++i)
    numbers[static_cast<unsigned char>(bytes_[i])] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    tokens.push_back(numbers[static_cast<unsigned char>(text[i])]);
    if (tokens.back() < 0)
      fail("encode", loc, "byte ", int{static_cast<unsigned char>(text[i])}, " at position ", i,
           " is not in the vocabulary");
  }
  return from_span(std::span<const std::int64_t>(tokens), {static_cast<std::int64_t>(tokens.size())}, loc);
}
std::string ByteVocabulary::decode(const Tensor& tokens, Loc loc) const {
  const Type type = type_of(resolve(At(tokens, loc), "decode"));
  if (!is_integer(type.dtype)) fail("decode", loc, "tokens are integers, not ", to_string(type));
  const Tensor wide = cast(tokens, DType::i64);
  std::string text;
  for (const std::int64_t token : wide.data<std::int64_t>(loc)) {
    if (token < 0 || token >= size()) fail("decode", loc, "token ", token, " is not in [0, ", size(), ")");
    text += bytes_[static_cast<std::size_t>(token)];
  }
  return text;
}

}  // namespace weft::data
