// Writing. In: the innermost call, of a function that is compiled for it. Out: a specialization as a package holds it,
// and the file.
#include <algorithm>

#include "base/fail.hpp"
#include "io/file.hpp"
#include "package/leaves.hpp"
#include "runtime/cache.hpp"
#include "runtime/cache_file.hpp"
#include "runtime/host/library.hpp"
#include "trace/call_context.hpp"
#include "trace/names.hpp"
#include "trace/symbols.hpp"

namespace weft {

namespace detail {

struct PackageDraft {
  runtime::PackageFile file;
  std::vector<FunctionHandle> functions;  // by entry: what it was made from
};

namespace {

using Leaf = detail::Leaf;

[[noreturn]] void refuse(EntryName name, const std::string& why) {
  fail("package", name.loc, "\"", std::string(name.text), "\" ", why);
}

// The line of the graph's operation that calls the program.
std::string host_call_text(const runtime::Plan& plan) {
  for (const runtime::Launch& launch : plan.launches)
    if (launch.step->stored_as().empty()) return launch.operations.empty() ? launch.name : launch.operations.front();
  return "host_call";
}

// Refuses what can't run without the function's code, its tracer or its compiler.
const Segment& segment_of(EntryName name, const Function& function, const Specialization* made) {
  if (!made) refuse(name, "is compiled for no more kinds of arguments: recompile_limit is reached");
  const Segment& segment = made->first();
  if (segment.traced.decision)
    refuse(name, concat_text("reads a value at ", to_string(segment.traced.decision->loc),
                             ": the program's code goes on from there, and a package holds none of it"));
  if (segment.registered || segment.backend != Backend::compiled)
    refuse(name, concat_text("is not run by generated kernels: CompileOptions::backend of ", title(function),
                             " says who runs it"));
  const Executable* const executable = segment.executable();
  if (!executable) refuse(name, "has no kernels: " + segment.fallback());
  if (segment.calls_host)
    refuse(name,
           concat_text("calls the program's code, which a package does not hold: ", host_call_text(executable->plan)));
  if (executable->plan.device.type != Device::Type::cpu) refuse(name, "runs on a device: packages are for the CPU");
  return segment;
}

runtime::PackageSource source_of(const Source& source) {
  using Kind = runtime::PackageSource::Kind;
  switch (source.kind) {
    case Source::Kind::computed: return {Kind::output, source.index};
    case Source::Kind::argument: return {Kind::argument, source.index};
    case Source::Kind::undefined: break;
  }
  return {};
}

std::vector<runtime::PackageLeaf> held_leaves(EntryName name, const LeafList& list,
                                              const std::vector<std::string>& names) {
  std::vector<runtime::PackageLeaf> leaves;
  for (const Leaf& leaf : list.leaves) {
    if (leaf.kind == LeafKind::dynamic_type)
      refuse(name, concat_text("has an object in ", names[leaves.size()],
                               " whose class is known only when the program runs, which packages do not hold"));
    leaves.push_back(held_leaf(leaf, names[leaves.size()]));
  }
  return leaves;
}

// Which of the file's libraries the plan calls.
std::uint32_t add_library(EntryName name, runtime::PackageFile& file, const runtime::Plan& plan) {
  const auto* const library = dynamic_cast<const Library*>(plan.functions.get());
  if (!library) return runtime::PackageSpecialization::no_library;
  const auto found = std::ranges::find(file.libraries, library->key(), &runtime::PackageLibrary::key);
  const auto index = static_cast<std::uint32_t>(found - file.libraries.begin());
  if (found != file.libraries.end()) return index;
  std::optional<CacheEntry> entry = given_entry(library->key());
  if (!entry) entry = disk_cache()->load(library->key());
  if (!entry)
    refuse(name,
           "has kernels that are in no cache folder any more, from which they are taken: WEFT_CACHE_DIR says "
           "where it is");
  file.libraries.push_back({library->key(), library->units(), std::move(entry->payload)});
  return index;
}

runtime::PackageSpecialization record(EntryName name, const Specialization& made, const Segment& segment,
                                      const CallSignature& signature, const Scratch& scratch) {
  runtime::PackageSpecialization to;
  const TraceResult& traced = segment.traced;
  const std::vector<Guards::Symbol>& symbols = made.guards.symbols;
  const auto symbol = [&](std::size_t number) { return dims::symbol(static_cast<int>(number), symbols[number].lower); };
  const CallLayout layout(signature, scratch.arguments, scratch.words);
  to.arguments = held_leaves(name, scratch.arguments, argument_names(signature, scratch.arguments));
  for (std::size_t i = 0; i < to.arguments.size(); ++i) {
    if (!to.arguments[i].defined) continue;
    Type type = type_of(layout.leaf(i).tensor());
    symbolize(type, layout, i, symbols, symbol);
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      to.arguments[i].sizes[static_cast<std::size_t>(axis)] = type.shape[axis];
  }
  for (const Guards::Symbol& each : symbols) to.symbols.push_back({each.lower, each.upper});
  for (const DimCondition& each : made.guards.conditions)
    to.conditions.push_back(
        {each.kind, each.holds, each.left, each.right,
         each.loc.file ? concat_text(each.after ? "after " : "at ", to_string(each.loc)) : std::string()});
  to.inputs = traced.inputs;
  const Kernels& kernels = *segment.kernels.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < segment.output_types.size(); ++i) {
    const Type& type = segment.output_types[i];
    runtime::PackageOutput& output = to.outputs.emplace_back();
    output = {type.dtype, type.weak, type.device, {}, kernels.donors[i]};
    for (int axis = 0; axis < type.shape.rank(); ++axis) output.sizes.push_back(type.shape[axis]);
  }
  to.result = held_leaves(name, scratch.results, result_names(signature, scratch.results));
  for (const Source& each : traced.results) to.results.push_back(source_of(each));
  for (const TraceResult::State& each : traced.states) to.states.push_back({each.leaf, source_of(each.source)});
  for (const TraceResult::Numbers& each : traced.numbers) to.numbers.push_back({each.leaf, each.bytes});
  to.generator = source_of(traced.generator);
  to.plan = kernels.executable->plan;
  return to;
}

// Whether a call that fits one fits the other.
bool same_guards(const runtime::PackageSpecialization& a, const runtime::PackageSpecialization& b) {
  const auto guards = [](const runtime::PackageSpecialization& each) {
    runtime::FieldWriter to;
    to(each.arguments, each.symbols, each.conditions);
    return to.bytes();
  };
  return guards(a) == guards(b);
}

}  // namespace

void add_call(PackageDraft& to, EntryName name, const FunctionHandle& handle, const CallSignature& signature,
              TypeLines types) {
  const Function& function = *handle.get();
  const Scratch& scratch = innermost_scratch();
  if (name.text.empty()) fail("package", name.loc, "the name of the function is empty");
  const Specialization* const made = function.find(scratch.words);
  const Segment& segment = segment_of(name, function, made);
  runtime::PackageFile& file = to.file;
  auto entry = std::ranges::find(file.entries, name.text, &runtime::PackageEntry::name);
  const bool is_new = entry == file.entries.end();
  if (!is_new && entry->types != types.lines)
    refuse(name, concat_text("is in the package already, as a function of other types: ",
                             first_difference(entry->types, types.lines, "it", "this one")));
  if (!is_new && to.functions[static_cast<std::size_t>(entry - file.entries.begin())].get() != &function)
    refuse(name, "is in the package already, as another compiled function");
  runtime::PackageSpecialization all = record(name, *made, segment, signature, scratch);
  runtime::FieldWriter trial;
  write_plan(trial, all.plan);
  if (!trial.refusal().empty()) refuse(name, "can't be packaged: " + trial.refusal());
  if (is_new) {
    entry = file.entries.insert(file.entries.end(), {std::string(name.text), std::move(types.lines), {}});
    to.functions.push_back(handle);
  }
  for (const runtime::PackageSpecialization& each : entry->specializations)
    if (same_guards(each, all)) return;
  all.library = add_library(name, file, all.plan);
  entry->specializations.push_back(std::move(all));
}

}  // namespace detail

PackageWriter::PackageWriter() : draft_(std::make_shared<detail::PackageDraft>()) {}

void PackageWriter::write(const std::string& path, Loc loc) const {
  std::string refusal;
  const std::string bytes = runtime::write_package(draft_->file, refusal);
  if (!refusal.empty()) fail("package", loc, path, " can't be written: ", refusal);
  io::NewFile file("package", path.c_str(), loc);
  file.write(bytes);
  file.finish();
}

}  // namespace weft
