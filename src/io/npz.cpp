// NumPy's NPZ format: a zip archive with an NPY file for each name. Members are written as they are and read as they
// are or deflated.
#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "io/file_values.hpp"
#include "io/npy.hpp"
#include "io/safetensors.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "weft/io.hpp"

namespace weft::io {
namespace {

constexpr std::string_view suffix = ".npy";
constexpr std::uint64_t greatest_ratio = 1032;  // deflate can't do better
constexpr std::size_t longest_name = 4096;

template <class... Parts>
[[noreturn]] void damaged(const Parts&... parts) {
  throw DamagedFile(concat_text(parts...));
}

// The members of an archive, one after the other.
class Archive {
 public:
  explicit Archive(const char* path) : file_(unzOpen64(path)) {
    if (!file_) damaged("is no NPZ file");
  }
  ~Archive() { unzClose(file_); }
  Archive(const Archive&) = delete;

  std::vector<NamedTensor> read(Loc loc) {
    std::vector<NamedTensor> result;
    int code = unzGoToFirstFile(file_);
    for (; code == UNZ_OK; code = unzGoToNextFile(file_)) result.push_back(member(loc));
    if (code != UNZ_END_OF_LIST_OF_FILE) damaged("is a damaged zip archive");
    return result;
  }

 private:
  NamedTensor member(Loc loc) {
    unz_file_info64 about;
    std::string name(longest_name, '\0');
    if (unzGetCurrentFileInfo64(file_, &about, name.data(), name.size(), nullptr, 0, nullptr, 0) != UNZ_OK ||
        about.size_filename >= longest_name)
      damaged("is a damaged zip archive");
    name.resize(about.size_filename);
    if (about.flag & 1) damaged("is encrypted");
    if (!name.ends_with(suffix)) damaged("holds ", name, ", which is no NPY file");
    if (unzOpenCurrentFile(file_) != UNZ_OK) damaged("holds ", name, " in a way that can't be read");
    name.resize(name.size() - suffix.size());
    name_ = name;
    std::uint8_t prefix[npy_prefix];
    take(prefix, sizeof prefix);
    const NpyText text = npy_text(prefix);
    if (text.end < sizeof prefix) damaged("holds ", name, ", which has no header");
    std::string words(text.end, '\0');
    std::memcpy(words.data(), prefix, sizeof prefix);
    take(reinterpret_cast<std::uint8_t*>(words.data()) + sizeof prefix, text.end - sizeof prefix);
    const NpyHeader header = read_npy_header(std::string_view(words).substr(text.begin));
    // A damaged header must not ask for memory that its bytes can't fill.
    if (header.bytes > about.uncompressed_size || header.bytes / greatest_ratio > about.compressed_size)
      damaged("holds ", name, ", which has too few bytes for ", to_string(header.type));
    Storage* storage = allocate(Device::cpu(), std::max<std::size_t>(header.bytes, 1));
    Tensor value = make_data(storage, header.type, loc);
    auto* elements = static_cast<std::uint8_t*>(storage->data);
    take(elements, header.bytes);
    std::uint8_t more;
    if (unzReadCurrentFile(file_, &more, 1) != 0) damaged("holds ", name, ", which is longer than its header says");
    if (unzCloseCurrentFile(file_) != UNZ_OK) damaged("holds ", name, ", whose checksum is wrong");
    const std::size_t width = storage_bytes(header.type.dtype, 1);
    if (header.swapped) swap_bytes(elements, header.bytes / width, width);
    return {std::move(name), with_axes_of(header, std::move(value))};
  }
  void take(std::uint8_t* to, std::uint64_t count) {
    while (count > 0) {
      const auto part = static_cast<unsigned>(std::min<std::uint64_t>(count, 1 << 30));
      const int got = unzReadCurrentFile(file_, to, part);
      if (got <= 0) damaged("holds ", name_, ", which is truncated or damaged");
      to += got;
      count -= static_cast<std::uint64_t>(got);
    }
  }

  unzFile file_;
  std::string name_;  // of the member that is read
};

// An archive in the making, over a file that exists.
class NewArchive {
 public:
  explicit NewArchive(const char* path) : file_(zipOpen64(path, APPEND_STATUS_CREATE)) {}
  ~NewArchive() { close(); }
  NewArchive(const NewArchive&) = delete;

  // False: it can't be written.
  bool begin(const std::string& name, std::uint64_t size) {
    zip_fileinfo about = {};
    about.tmz_date = {0, 0, 0, 1, 0, 1980};  // the earliest: equal values make equal files
    return file_ && zipOpenNewFileInZip64(file_, name.c_str(), &about, nullptr, 0, nullptr, 0, nullptr, 0, 0,
                                          size > 0xf0000000) == ZIP_OK;
  }
  bool write(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const std::size_t part = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
      if (zipWriteInFileInZip(file_, bytes.data(), static_cast<unsigned>(part)) != ZIP_OK) return false;
      bytes = bytes.subspan(part);
    }
    return true;
  }
  bool end() { return zipCloseFileInZip(file_) == ZIP_OK; }
  bool close() { return !file_ || zipClose(std::exchange(file_, nullptr), nullptr) == ZIP_OK; }

 private:
  zipFile file_;
};

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::vector<NamedTensor> load_npz(const std::string& path, Loc loc) {
  Operation call("load_npz", loc);
  if (recorder().trace()) fail("load_npz", call.loc(), "files can't be read or written inside a compiled function");
  (void)MappedFile::open("load_npz", path.c_str(), call.loc());  // says why it can't be opened
  try {
    return Archive(path.c_str()).read(call.loc());
  } catch (const DamagedFile& reason) {
    fail("load_npz", call.loc(), path.c_str(), " ", reason.what());
  }
}

void save_npz(const std::string& path, std::span<const NamedTensor> values, Loc loc) {
  Operation call("save_npz", loc);
  if (recorder().trace()) fail("save_npz", call.loc(), "files can't be read or written inside a compiled function");
  std::vector<std::string> headers;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& name = values[i].name;
    if (name.empty() || name.size() + suffix.size() >= longest_name || name.find('\0') != std::string::npos)
      fail("save_npz", call.loc(), "value ", i, " needs a name");
    for (std::size_t before = 0; before < i; ++before)
      if (values[before].name == name) fail("save_npz", call.loc(), "two values have the name ", name);
    headers.push_back(
        write_npy_header("save_npz", type_of(resolve(At(values[i].value, call.loc()), "save_npz")), call.loc()));
  }
  NewFile file("save_npz", path.c_str(), call.loc());
  NewArchive archive(file.temporary_path().c_str());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const HostElements elements(values[i].value, call.loc());
    if (!archive.begin(values[i].name + std::string(suffix), headers[i].size() + elements.bytes().size()) ||
        !archive.write(bytes_of(headers[i])) || !archive.write(elements.bytes()) || !archive.end())
      fail("save_npz", call.loc(), path.c_str(), " can't be written: ", std::strerror(errno));
  }
  if (!archive.close()) fail("save_npz", call.loc(), path.c_str(), " can't be written: ", std::strerror(errno));
  file.finish();
}

}  // namespace weft::io
