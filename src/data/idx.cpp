// The IDX format: two zero bytes, an element type, a number of sizes; the sizes and then the elements, high byte first.
// zlib reads plain files as they are. Sizes are believed only as far as the data goes.
#include <unistd.h>
#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "weft/data.hpp"

namespace weft::data {
namespace {

struct Element {
  int code;
  std::size_t bytes;
  DType dtype;
};
constexpr Element elements[] = {{0x08, 1, DType::u8},  {0x09, 1, DType::i32}, {0x0B, 2, DType::i32},
                                {0x0C, 4, DType::i32}, {0x0D, 4, DType::f32}, {0x0E, 8, DType::f64}};

class IdxFile {
 public:
  IdxFile(const char* path, Loc loc) : path_(path), loc_(loc), file_(gzopen(path, "rb")) {
    if (!file_) refuse("cannot be opened: ", std::strerror(errno));
    gzbuffer(file_, 1 << 18);
  }
  ~IdxFile() {
    if (file_) gzclose_r(file_);
  }
  IdxFile(const IdxFile&) = delete;

  Tensor read() {
    std::uint8_t magic[4];
    take(magic, sizeof magic, "its header");
    const Element* element = nullptr;
    for (const Element& row : elements)
      if (row.code == magic[2]) element = &row;
    if (magic[0] || magic[1] || magic[3] == 0 || magic[3] > max_rank) refuse("is no IDX file");
    if (!element) refuse("holds elements of an unknown type, ", int{magic[2]});
    Type type{element->dtype, false, {}, {}};
    std::uint64_t count = 1;
    for (int i = 0; i < magic[3]; ++i) {
      std::uint8_t size[4];
      take(size, sizeof size, "its header");
      std::uint32_t number =
          std::uint32_t{size[0]} << 24 | std::uint32_t{size[1]} << 16 | std::uint32_t{size[2]} << 8 | size[3];
      type.shape.push_back(static_cast<std::int64_t>(number));
      if (__builtin_mul_overflow(count, std::uint64_t{number}, &count) || count > std::uint64_t{1} << 40)
        refuse("says that it holds more elements than there can be");
    }
    // Memory grows with what is really there, so that a damaged header costs nothing.
    std::vector<std::uint8_t> bytes;
    for (std::uint64_t left = count * element->bytes; left > 0;) {
      auto part = static_cast<std::size_t>(std::min<std::uint64_t>(left, 1 << 24));
      bytes.resize(bytes.size() + part);
      take(bytes.data() + bytes.size() - part, part, to_string(type).c_str());
      left -= part;
    }
    std::uint8_t more;
    if (gzread(file_, &more, 1) > 0) refuse("is longer than ", to_string(type));
    check_stream();  // the checksum is at the end
    return make(bytes, *element, type);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) {
    fail("read_idx", loc_, path_, " ", parts...);
  }
  void check_stream() {
    int code = Z_OK;
    const char* words = gzerror(file_, &code);
    if (code == Z_BUF_ERROR) refuse("is truncated");
    if (code != Z_OK && code != Z_STREAM_END) refuse("is damaged: ", words);
  }
  void take(std::uint8_t* to, std::size_t count, const char* what) {
    int got = gzread(file_, to, static_cast<unsigned>(count));
    if (got == static_cast<int>(count)) return;
    check_stream();
    refuse("is truncated: it ends within ", what);
  }

  static Tensor make(const std::vector<std::uint8_t>& bytes, const Element& element, const Type& type) {
    std::size_t width = storage_bytes(type.dtype, 1), count = bytes.size() / element.bytes;
    Storage* storage = allocate(Device::cpu(), std::max<std::size_t>(count * width, 1));
    Tensor result = make_data(storage, type, {});
    auto* to = static_cast<std::uint8_t*>(storage->data);
    if (element.bytes == 1 && width == 1) {
      std::copy(bytes.begin(), bytes.end(), to);
      return result;
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t word =
          static_cast<std::int8_t>(bytes[i * element.bytes]) < 0 && element.bytes < 4 ? ~std::uint64_t{0} : 0;
      for (std::size_t b = 0; b < element.bytes; ++b) word = word << 8 | bytes[i * element.bytes + b];
      std::memcpy(to + i * width, &word, width);  // the low bytes: little-endian, as every CPU that Weft runs on
    }
    return result;
  }
  static_assert(std::endian::native == std::endian::little);

  const char* path_;
  Loc loc_;
  gzFile file_;
};

}  // namespace

Tensor read_idx(const std::string& path, Loc loc) {
  LooseComposite call("read_idx", loc);
  return IdxFile(path.c_str(), call.loc()).read();
}

}  // namespace weft::data
