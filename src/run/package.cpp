// Opening and describing: handles of packages and of their functions.
#include <algorithm>
#include <cstring>

#include "base/dlpack.hpp"
#include "base/file.hpp"
#include "run/state.hpp"
#include "runtime/steps.hpp"

namespace weft::run {

namespace {

constinit Lazy<Handles<weft_package>> packages;
constinit Lazy<Handles<weft_function>> functions;

using runtime::PackageLeaf, runtime::Source, runtime::PackageSpecialization;

PackageBytes bytes_of(std::shared_ptr<const MappedFile> file) {
  const std::string_view all = file->text();
  return {std::move(file), all};
}

PackageBytes bytes_of(const char* function, const char* path) try {
  return bytes_of(MappedFile::open(function, path, {}, runtime::package_head));
} catch (const OutOfMemory&) {
  throw;
} catch (const Error& error) {
  refuse(WEFT_BAD_PACKAGE, error.what());
}

// What the caller's reader gives, as long as it is used.
class GivenBytes {
 public:
  explicit GivenBytes(const weft_reader& reader) : reader_(reader) {}
  GivenBytes(const GivenBytes&) = delete;
  ~GivenBytes() {
    if (was_read_ && reader_.release) reader_.release(reader_.context, bytes_, size_);
  }
  std::string_view read(const char* path) {
    constexpr const char* function = "weft_package_open_with";
    const std::int32_t status = require(function, "reader->read", reader_.read)(reader_.context, path, &bytes_, &size_);
    if (status != 0) refuse(WEFT_BAD_PACKAGE, "[", function, "] ", path, " can't be read: its reader gave ", status);
    was_read_ = true;
    if (size_ > 0) require(function, "what the reader gave", bytes_);
    return {static_cast<const char*>(bytes_), size_};
  }

 private:
  const weft_reader reader_;
  const void* bytes_ = nullptr;
  std::size_t size_ = 0;
  bool was_read_ = false;
};

// What is not aligned as weights are is copied.
PackageBytes bytes_of(const char* path, const weft_reader& reader) {
  constexpr std::size_t alignment = 16;
  const auto given = std::make_shared<GivenBytes>(reader);
  const std::string_view all = given->read(path);
  if (reinterpret_cast<std::uintptr_t>(all.data()) % alignment == 0) return {given, all};
  return bytes_of(MappedFile::of(std::string(all)));
}

std::shared_ptr<const runtime::Preparable> read_linked_step(const std::string& name, runtime::FieldReader& from) {
  for (const weft_step* const* each = weft_linked_steps; *each; ++each) {
    const auto& step = *reinterpret_cast<const runtime::NamedStep*>(*each);  // weft_run.h names it so
    if (name == step.name) return step.read(from, read_linked_step);
  }
  if (name.starts_with(runtime::device_step_prefix)) return nullptr;
  throw runtime::PackageRefusal{concat_text("has a step, ", name, ", that this program leaves out: weft_linked_steps ",
                                            "lists those that it has")};
}

weft_package* open(const char* function, std::string name, const char* path, const PackageBytes& bytes,
                   bool is_loaded = true) {
  auto state = std::make_shared<OpenPackage>();
  state->name = std::move(name);
  try {
    state->is_loaded = is_loaded;
    state->file = runtime::parse_package(bytes.all, read_linked_step);
    if (is_loaded) prepare(state->file);
  } catch (const runtime::PackageRefusal& refusal) {
    refuse(WEFT_BAD_PACKAGE, "[", function, "] ", path, " ", refusal.why);
  }
  if (!state->file.weights.empty()) state->bytes = bytes.owner;
  auto weights = std::make_shared<Weights>();
  for (const runtime::PackageWeight& weight : state->file.weights) {
    weights->at.push_back(weight.bytes.data());
    state->weight_infos.add(weight.name.c_str(), weight.dtype, {weight.sizes.begin(), weight.sizes.end()}, nullptr,
                            false);
  }
  weights->replaced.resize(weights->at.size());
  state->weights.exchange(std::move(weights));
  for (const runtime::PackageEntry& entry : state->file.entries) state->names.push_back(entry.name.c_str());
  return packages.get().open(std::move(state));
}

}  // namespace

// ---- what a call needs to know

void TensorInfos::add(const char* name, DType dtype, const std::vector<Dim>& sizes,
                      const std::vector<runtime::PackageSymbol>* symbols, bool is_written) {
  const std::size_t rank = sizes.size();
  auto numbers = std::make_unique<std::int64_t[]>(3 * rank);
  std::int64_t *const size = numbers.get(), *const least = size + rank, *const most = least + rank;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (sizes[axis].is_constant()) {
      size[axis] = least[axis] = most[axis] = sizes[axis].constant();
      continue;
    }
    const runtime::PackageSymbol range =
        symbols ? (*symbols)[static_cast<std::size_t>(sizes[axis].node()->number)] : runtime::PackageSymbol{0};
    size[axis] = WEFT_VARIES, least[axis] = range.lower, most[axis] = range.upper;
  }
  const dlpack::DataType type = dlpack_type(dtype);
  infos.push_back({name,
                   {static_cast<std::uint8_t>(type.code), type.bits, type.lanes},
                   static_cast<std::int32_t>(rank),
                   size,
                   least,
                   most,
                   is_written});
  this->sizes.push_back(std::move(numbers));
}

namespace {

// Why the kind can't be run from C; empty where it can.
std::string refusal_of(const PackageSpecialization& held) {
  using From = Source::Kind;
  const bool draws = held.generator.kind != From::undefined ||
                     std::ranges::count(held.inputs, PackageSpecialization::generator_state) > 0;
  if (draws)
    return "draws from the default generator, which a program in C does not have: package a function that takes a "
           "Generator by reference";
  if (!held.numbers.empty())
    return concat_text("changes ", held.arguments[held.numbers.front().leaf].name,
                       ", a number of C++, which a program in C does not pass: make it a Scalar, an Index or a Buffer");
  for (const runtime::StateTensor& state : held.states) {
    const PackageLeaf& leaf = held.arguments[state.leaf];
    const bool computed = state.source.kind == From::computed;
    const PackageLeaf* const from = state.source.kind == From::argument ? &held.arguments[state.source.index] : nullptr;
    const bool gets_undefined = !computed && !(from && from->defined);
    if (!leaf.defined || gets_undefined)
      return concat_text("makes ", leaf.name, gets_undefined ? " undefined" : " defined",
                         ", and a program in C passes memory that stays");
    const runtime::PackageOutput* const output = computed ? &held.outputs[state.source.index] : nullptr;
    const DType dtype = computed ? output->dtype : from->dtype;
    const std::size_t rank = computed ? output->sizes.size() : from->sizes.size();
    if (dtype != leaf.dtype || rank != leaf.sizes.size())
      return concat_text("gives ", leaf.name, " another ", dtype != leaf.dtype ? "dtype" : "number of dimensions",
                         ", and a program in C passes memory that stays");
  }
  return {};
}

Kind kind_of(const PackageSpecialization& held) {
  using From = Source::Kind;
  Kind kind;
  kind.held = &held;
  kind.refusal = refusal_of(held);
  for (const auto& [lower, upper] : held.symbols) kind.guards.symbols.push_back({{}, lower, upper});
  for (const runtime::PackageCondition& each : held.conditions)
    kind.guards.conditions.push_back({each.kind, each.left, each.right, each.holds});
  kind.is_written.resize(held.arguments.size());
  kind.tensor_of.resize(held.arguments.size());
  for (const runtime::StateTensor& state : held.states) kind.is_written[state.leaf] = true;
  for (std::size_t i = 0; i < held.arguments.size(); ++i) {
    const PackageLeaf& leaf = held.arguments[i];
    const bool is_tensor = leaf.kind == PackageLeaf::Kind::tensor;
    if (!is_tensor)
      kind.fixed += concat_text(leaf.name, " is ", leaf.text, leaf.bytes, "\n");
    else if (!leaf.defined || leaf.frozen || leaf.weak)
      kind.fixed += concat_text(leaf.name, leaf.defined ? " is" : " is undefined", leaf.frozen ? " frozen" : "",
                                leaf.weak ? " a number" : "", "\n");
    if (!is_tensor || !leaf.defined) continue;
    kind.tensor_of[i] = kind.passed.size();
    kind.passed.push_back(i);
    kind.arguments.add(leaf.name.c_str(), leaf.dtype, leaf.sizes, &held.symbols, kind.is_written[i]);
    kind.guards.add(tensor_word(kind.arguments.infos.back().dtype, kind.arguments.infos.back().rank));
    for (const Dim size : leaf.sizes) kind.guards.add_size(size);
  }
  std::size_t next = 0;
  for (const PackageLeaf& leaf : held.result) {
    if (leaf.kind != PackageLeaf::Kind::tensor) continue;
    const Source& source = held.results[next++];
    const bool is_argument = source.kind == From::argument;
    if (source.kind == From::undefined || (is_argument && !held.arguments[source.index].defined)) continue;
    kind.given.push_back(source);
    if (is_argument)
      kind.results.add(leaf.name.c_str(), held.arguments[source.index].dtype, held.arguments[source.index].sizes,
                       &held.symbols, false);
    else
      kind.results.add(leaf.name.c_str(), held.outputs[source.index].dtype, held.outputs[source.index].sizes, nullptr,
                       false);
  }
  kind.result_of.assign(held.outputs.size(), Kind::none);
  for (std::size_t i = kind.given.size(); i-- > 0;)
    if (kind.given[i].kind == From::computed) kind.result_of[kind.given[i].index] = i;
  kind.in_place.assign(held.outputs.size(), runtime::PackageOutput::no_leaf);
  for (const runtime::StateTensor& state : held.states) {
    if (state.source.kind != From::computed) continue;
    const std::uint32_t output = state.source.index;
    if (held.outputs[output].donor == state.leaf && kind.result_of[output] == Kind::none)
      kind.in_place[output] = state.leaf;
  }
  return kind;
}

weft_function* function_of(const std::shared_ptr<const OpenPackage>& package, const char* name) {
  if (!package->is_loaded)
    refuse(WEFT_UNSUPPORTED, "[weft_package_function] ", package->name,
           " was opened to look at, and its code is not loaded: weft_package_open loads it");
  const auto& entries = package->file.entries;
  const auto entry = std::ranges::find(entries, name, &runtime::PackageEntry::name);
  if (entry == entries.end()) {
    std::string names;
    for (const char* each : package->names) names += concat_text(names.empty() ? "" : ", ", each);
    refuse(WEFT_NO_FUNCTION, "[weft_package_function] ", package->name, " has no function \"", name, "\"; it has ",
           names.empty() ? "none" : names);
  }
  auto state = std::make_shared<OpenFunction>();
  state->package = package;
  state->name = concat_text(name, " of ", package->name);
  for (const PackageSpecialization& held : entry->specializations) state->kinds.push_back(kind_of(held));
  const auto runs = [](const Kind& kind) { return kind.refusal.empty(); };
  if (!state->kinds.empty() && std::ranges::none_of(state->kinds, runs))
    refuse(WEFT_UNSUPPORTED, "[weft_package_function] ", state->name, " ", state->kinds.front().refusal);
  return functions.get().open(std::move(state));
}

// A text that is made when it is first asked for, and stays.
const char* text_once(const OpenPackage& package, std::string& text, std::string (*make)(const runtime::PackageFile&)) {
  const std::lock_guard lock(package.updating);
  if (text.empty()) text = make(package.file);
  return text.c_str();
}

weft_status give_infos(const char* called, const weft_function* function, size_t index, size_t* count,
                       const weft_tensor_info** infos, TensorInfos Kind::*which) {
  return guarded([&] {
    const auto state = Handles<weft_function>::state_of(called, function);
    require(called, "count", count);
    require(called, "infos", infos);
    if (index >= state->kinds.size())
      refuse(WEFT_BAD_CALL, "[", called, "] kind ", index, " of ", state->name, ", which has ", state->kinds.size());
    const std::vector<weft_tensor_info>& found = (state->kinds[index].*which).infos;
    *count = found.size();
    *infos = found.data();
  });
}

}  // namespace

}  // namespace weft::run

using namespace weft::run;

extern "C" {

weft_status weft_package_open(const char* path, weft_package** package) {
  return guarded([&] {
    *require("weft_package_open", "package", package) = nullptr;
    require("weft_package_open", "path", path);
    const std::string_view whole = path;
    *package = open("weft_package_open", std::string(whole.substr(whole.rfind('/') + 1)), path,
                    bytes_of("weft_package_open", path));
  });
}

weft_status weft_package_inspect(const char* path, weft_package** package) {
  return guarded([&] {
    *require("weft_package_inspect", "package", package) = nullptr;
    require("weft_package_inspect", "path", path);
    const std::string_view whole = path;
    *package = open("weft_package_inspect", std::string(whole.substr(whole.rfind('/') + 1)), path,
                    bytes_of("weft_package_inspect", path), false);
  });
}

weft_status weft_package_open_with(const char* path, const weft_reader* reader, weft_package** package) {
  return guarded([&] {
    *require("weft_package_open_with", "package", package) = nullptr;
    require("weft_package_open_with", "path", path);
    require("weft_package_open_with", "reader", reader);
    const std::string_view whole = path;
    *package =
        open("weft_package_open_with", std::string(whole.substr(whole.rfind('/') + 1)), path, bytes_of(path, *reader));
  });
}

weft_status weft_package_open_bytes(const void* bytes, size_t size, const char* name, weft_package** package) {
  return guarded([&] {
    *require("weft_package_open_bytes", "package", package) = nullptr;
    require("weft_package_open_bytes", "bytes", bytes);
    require("weft_package_open_bytes", "name", name);
    *package = open("weft_package_open_bytes", name, name,
                    bytes_of(weft::MappedFile::of(std::string(static_cast<const char*>(bytes), size))));
  });
}

weft_status weft_package_close(weft_package* package) {
  return guarded([&] { packages.get().close("weft_package_close", package); });
}

weft_status weft_package_names(const weft_package* package, size_t* count, const char* const** names) {
  return guarded([&] {
    const auto state = Handles<weft_package>::state_of("weft_package_names", package);
    require("weft_package_names", "names", names);
    *require("weft_package_names", "count", count) = state->names.size();
    *names = state->names.data();
  });
}

weft_status weft_package_origin(const weft_package* package, const char** origin) {
  return guarded([&] {
    const auto state = Handles<weft_package>::state_of("weft_package_origin", package);
    require("weft_package_origin", "origin", origin);
    *origin = text_once(*state, state->origin, weft::runtime::origin_text);
  });
}

weft_status weft_package_check_weights(const weft_package* package) {
  return guarded([&] {
    const auto state = Handles<weft_package>::state_of("weft_package_check_weights", package);
    if (const std::string name = damaged_weight(state->file); !name.empty())
      refuse(WEFT_BAD_PACKAGE, "[weft_package_check_weights] ", state->name, " is damaged: the bytes of ", name,
             " are not those that were written");
  });
}

weft_status weft_package_text(const weft_package* package, const char** text) {
  return guarded([&] {
    const auto state = Handles<weft_package>::state_of("weft_package_text", package);
    require("weft_package_text", "text", text);
    *text = text_once(*state, state->text, weft::runtime::to_text);
  });
}

weft_status weft_package_function(const weft_package* package, const char* name, weft_function** function) {
  return guarded([&] {
    *require("weft_package_function", "function", function) = nullptr;
    const auto state = Handles<weft_package>::state_of("weft_package_function", package);
    *function = function_of(state, require("weft_package_function", "name", name));
  });
}

weft_status weft_function_close(weft_function* function) {
  return guarded([&] { functions.get().close("weft_function_close", function); });
}

weft_status weft_function_kinds(const weft_function* function, size_t* count) {
  return guarded([&] {
    const auto state = Handles<weft_function>::state_of("weft_function_kinds", function);
    *require("weft_function_kinds", "count", count) = state->kinds.size();
  });
}

weft_status weft_function_arguments(const weft_function* function, size_t kind, size_t* count,
                                    const weft_tensor_info** infos) {
  return give_infos("weft_function_arguments", function, kind, count, infos, &Kind::arguments);
}

weft_status weft_function_results(const weft_function* function, size_t kind, size_t* count,
                                  const weft_tensor_info** infos) {
  return give_infos("weft_function_results", function, kind, count, infos, &Kind::results);
}

}  // extern "C"
