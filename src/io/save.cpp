// save and load: what places a struct has, held against what a file has.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/fail.hpp"
#include "base/wildcards.hpp"
#include "io/file_values.hpp"
#include "io/numbers.hpp"
#include "io/safetensors.hpp"
#include "record/evaluate.hpp"
#include "record/polymorphic.hpp"
#include "record/record.hpp"
#include "record/shards.hpp"
#include "weft/io.hpp"

namespace weft::io {
namespace {

using weft::detail::Leaf;
using weft::detail::LeafKind;

// In the metadata, a number's key is this followed by its name, and the key of an object's class that with its path.
constexpr std::string_view number_prefix = "weft:", class_prefix = "weft.class:";

struct NamedLeaf {
  std::string name;
  Leaf leaf;
};
bool is_number(const Leaf& leaf) {
  return !leaf.flag && (leaf.kind == LeafKind::number || leaf.kind == LeafKind::bytes || leaf.kind == LeafKind::text);
}
// The mode, and how a table is trained, are what a program does with a model, not what it has learnt.
bool is_mode(const Leaf& leaf, std::string_view path) {
  const std::string_view name = path.substr(path.rfind('.') + 1);
  return leaf.kind == LeafKind::number && leaf.size == sizeof(bool) &&
         (name == "training" || name == "sparse_gradient");
}
std::string class_of(const Leaf& leaf) { return leaf.size ? weft::detail::class_of_number(leaf.size) : "null"; }
bool is_weak(const Leaf& leaf) { return leaf.kind == LeafKind::scalar || leaf.kind == LeafKind::index; }

// The leaves that have a value of their own, and those that say the class of an object, with the names of their places.
std::vector<NamedLeaf> leaves_of(const detail::Part& part, const char* operation, Loc loc) {
  weft::detail::LeafList list;
  part.flatten(part.value, list);
  struct Context {
    std::vector<NamedLeaf> found;
    const char* prefix;
  } context{{}, part.name};
  visit_paths(*part.description, list.leaves.begin(), &context, [](void* at, const Leaf& leaf, const char* path) {
    auto& [found, prefix] = *static_cast<Context*>(at);
    const bool is_class = leaf.kind == LeafKind::dynamic_type;
    if (!holds_tensor(leaf.kind) && !is_class && (!is_number(leaf) || is_mode(leaf, path))) return;
    found.push_back({concat_text(prefix, *prefix && *path ? "." : "", path), leaf});
  });
  for (const NamedLeaf& each : context.found) {
    if (each.leaf.shard())
      fail(operation, loc, each.name, " is ", to_string(interned_shard(each.leaf.shard())), ": ",
           std::strcmp(operation, "save") == 0 ? "save distributed::gathered(model)"
                                               : "load into a whole model, then fully_shard or take_parts");
    if (each.name.empty() && each.leaf.kind != LeafKind::dynamic_type)
      fail(operation, loc, "a value that is no struct needs a name: ", operation, "(path, {{\"name\", value}})");
  }
  return std::move(context.found);
}

void refuse_trace(const char* operation, Loc loc) {
  if (recorder().trace()) fail(operation, loc, "files can't be read or written inside a compiled function");
}
std::string text_of(const Leaf& leaf) {
  if (leaf.kind != LeafKind::text) return numbers_text(leaf);
  return {static_cast<const char*>(leaf.address), static_cast<std::size_t>(leaf.size)};
}

std::optional<std::string> renamed(const Renamed& row, const std::string& place) {
  const auto found = match_stars(row.place, place);
  if (!found) return {};
  std::string result;
  std::size_t next = 0;
  for (const char* letter = row.in_file; *letter; ++letter)
    if (*letter != '*')
      result += *letter;
    else if (next < found->size())
      result += (*found)[next++];
  return result;
}
std::string name_in_file(const LoadOptions& options, const std::string& place) {
  for (const Renamed& row : options.renames)
    if (std::optional<std::string> name = renamed(row, place)) return *name;
  return place;
}

struct OpenFile {
  OpenFile(const char* operation, const char* path, Loc loc) : file(MappedFile::open(operation, path, loc)) {
    try {
      header = read_safetensors(file->bytes());
    } catch (const DamagedFile& reason) {
      fail(operation, loc, path, " ", reason.what());
    }
  }
  Tensor tensor(const SafetensorsEntry& entry, const Type& type, Loc loc) const {
    return tensor_over(file, file->bytes().data() + header.data_begin + entry.begin, type, loc);
  }
  std::shared_ptr<const MappedFile> file;
  SafetensorsHeader header;
};

// What keeps a file from being loaded, all of it: several have a line each.
struct Misfits {
  std::vector<std::string> missing, extra, others;
  std::string text() {
    std::string result;
    const char* const before = missing.size() + extra.size() + others.size() > 1 ? "\n  " : " ";
    const auto add = [&](const char* words, std::vector<std::string>& names, std::size_t most = SIZE_MAX) {
      std::sort(names.begin(), names.end());
      for (std::size_t i = 0; i < std::min(names.size(), most); ++i) result += concat_text(before, words, names[i]);
      if (names.size() > most) result += concat_text(before, words, names.size() - most, " more");
    };
    add("", others);
    add("it has no ", missing);
    // Names that nothing asks for are often a whole optimizer's.
    constexpr std::size_t most_extra = 5;
    add("nothing asks for ", extra, most_extra);
    return result;
  }
};

// The values of a file for the places of a struct. Nothing is changed before all are known to fit.
class FileContents {
 public:
  FileContents(const char* path, const LoadOptions& options, Loc loc)
      : path_(path), options_(options), loc_(loc), file_("load", path, loc) {
    for (const SafetensorsEntry& entry : file_.header.entries) entries_.emplace(entry.name, &entry);
    for (const auto& [name, text] : file_.header.metadata)
      has_numbers_ = has_numbers_ || name.starts_with(number_prefix);
  }
  void place(const NamedLeaf& place) {
    const std::string name = name_in_file(options_, place.name);
    if (place.leaf.kind == LeafKind::dynamic_type) return check_class(place.leaf, place.name, name);
    if (holds_tensor(place.leaf.kind))
      place_tensor(place.leaf, place.name, name);
    else if (has_numbers_)
      place_number(place.leaf, place.name, name);
  }
  void finish() {
    if (options_.strict && !options_.allow_extra) {
      for (const SafetensorsEntry& entry : file_.header.entries)
        if (!asked_.contains(entry.name)) misfits_.extra.push_back(entry.name);
      for (const auto& [name, text] : file_.header.metadata)
        if (name.starts_with(number_prefix) && !asked_.contains(name))
          misfits_.extra.push_back(name.substr(number_prefix.size()));
    }
    if (!options_.strict) misfits_.missing.clear();
    if (const std::string text = misfits_.text(); !text.empty()) fail("load", loc_, path_, " does not fit:", text);
    for (auto& [leaf, value] : tensors_) leaf.tensor() = std::move(value);
    for (const auto& [leaf, bytes] : numbers_)
      if (!bytes.empty()) std::memcpy(leaf.address, bytes.data(), bytes.size());
  }

 private:
  // A file of another program says no classes.
  void check_class(const Leaf& leaf, const std::string& place, const std::string& name) {
    const auto found = file_.header.metadata.find(std::string(class_prefix) + name);
    if (found == file_.header.metadata.end() || !options_.strict) return;
    if (const std::string own = class_of(leaf); own != found->second)
      misfits_.others.push_back(
          concat_text(place.empty() ? "the object" : place, " is ", own, ", the file has ", found->second));
  }
  void place_tensor(const Leaf& leaf, const std::string& place, const std::string& name) {
    if (!leaf.tensor().defined()) return;
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      misfits_.missing.push_back(place);
      return;
    }
    asked_.insert(name);
    const SafetensorsEntry& entry = *found->second;
    const Type& wanted = type_of(leaf.tensor());
    std::optional<Type> type = type_of_entry(entry);
    bool fits = type && type->shape.rank() == wanted.shape.rank();
    for (int axis = 0; fits && axis < wanted.shape.rank(); ++axis) fits = type->shape[axis] == wanted.shape[axis];
    if (!fits || (type->dtype != wanted.dtype && !options_.convert)) {
      misfits_.others.push_back(place + " is " + to_string(wanted) + ", the file has " + entry.type_text());
      return;
    }
    type->weak = is_weak(leaf) && type->dtype == wanted.dtype;
    Tensor value = file_.tensor(entry, *type, loc_);
    if (type->dtype != wanted.dtype) {
      value = cast(value, wanted.dtype);
      if (is_weak(leaf))
        value =
            leaf.kind == LeafKind::scalar ? Scalar(value.item()).tensor() : Index(value.item<std::int64_t>()).tensor();
    }
    if (wanted.device != Device::cpu()) value = to(value, wanted.device, loc_);
    tensors_.emplace_back(leaf, std::move(value));
  }
  void place_number(const Leaf& leaf, const std::string& place, const std::string& name) {
    const std::string key = std::string(number_prefix) + name;
    const auto found = file_.header.metadata.find(key);
    if (found == file_.header.metadata.end()) {
      misfits_.missing.push_back(place);
      return;
    }
    asked_.insert(key);
    std::string bytes = found->second;
    if (leaf.kind == LeafKind::text && bytes.size() != leaf.size)
      misfits_.others.push_back(
          concat_text(place, " has ", leaf.size, " characters, the text in the file ", bytes.size()));
    else if (leaf.kind != LeafKind::text && !read_numbers(leaf, found->second, bytes))
      misfits_.others.push_back(place + " is " + text_of(leaf) + ", the file has " + found->second);
    else
      numbers_.emplace_back(leaf, std::move(bytes));
  }

  const char* path_;
  const LoadOptions& options_;
  Loc loc_;
  OpenFile file_;
  std::unordered_map<std::string, const SafetensorsEntry*> entries_;
  std::unordered_set<std::string> asked_;  // names in the file
  bool has_numbers_ = false;
  Misfits misfits_;
  std::vector<std::pair<Leaf, Tensor>> tensors_;
  std::vector<std::pair<Leaf, std::string>> numbers_;
};

}  // namespace

void save(const std::string& path, std::initializer_list<Source> parts, Loc loc) {
  Operation call("save", loc);
  refuse_trace("save", call.loc());
  std::vector<std::pair<std::string, Tensor>> values;
  std::map<std::string, std::string> metadata;
  std::set<std::string> names;
  for (const Source& source : parts)
    for (const NamedLeaf& each : leaves_of(source.part, "save", call.loc())) {
      if (each.leaf.kind == LeafKind::dynamic_type) {
        metadata[std::string(class_prefix) + each.name] = class_of(each.leaf);
        continue;
      }
      const bool holds = holds_tensor(each.leaf.kind);
      if (holds && !each.leaf.tensor().defined()) continue;
      if (each.name == metadata_key)
        fail("save", call.loc(), "the format keeps the name ", metadata_key, " for itself");
      if (!names.insert(each.name).second) fail("save", call.loc(), "two values have the name ", each.name);
      if (holds)
        values.emplace_back(each.name, each.leaf.tensor());
      else
        metadata[std::string(number_prefix) + each.name] = text_of(each.leaf);
    }
  std::vector<Tensor> pending;
  for (const auto& [name, value] : values) pending.push_back(value);
  evaluate(pending, call.loc());

  // Widest elements first, so that all are aligned.
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto width = [&](std::size_t i) { return storage_bytes(type_of(values[i].second).dtype, 1); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return width(a) > width(b); });
  std::vector<SafetensorsTensor> tensors;
  for (const std::size_t i : order) tensors.push_back({values[i].first, type_of(values[i].second)});
  std::string header;
  try {
    header = write_safetensors_header(tensors, metadata);
  } catch (const nlohmann::json::exception&) {
    fail("save", call.loc(), "a name or a text is not UTF-8, which the format wants");
  }
  NewFile file("save", path.c_str(), call.loc());
  file.write(header);
  for (const std::size_t i : order) file.write(HostElements(values[i].second, call.loc()).bytes());
  file.finish();
}

void load(const std::string& path, std::initializer_list<Place> parts, const LoadOptions& options, Loc loc) {
  Operation call("load", loc);
  refuse_trace("load", call.loc());
  FileContents loading(path.c_str(), options, call.loc());
  for (const Place& place : parts)
    for (const NamedLeaf& each : leaves_of(place.part, "load", call.loc())) loading.place(each);
  loading.finish();
}

std::vector<NamedTensor> load_tensors(const std::string& path, Loc loc) {
  Operation call("load_tensors", loc);
  refuse_trace("load_tensors", call.loc());
  const OpenFile file("load_tensors", path.c_str(), call.loc());
  std::vector<NamedTensor> result;
  for (const SafetensorsEntry& entry : file.header.entries) {
    const std::optional<Type> type = type_of_entry(entry);
    if (!type)
      fail("load_tensors", call.loc(), path.c_str(), ": ", entry.name, " is ", entry.type_text(),
           ", which no tensor can be");
    result.push_back({entry.name, file.tensor(entry, *type, call.loc())});
  }
  return result;
}

}  // namespace weft::io
