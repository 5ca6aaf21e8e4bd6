// Writing. In: the innermost call, of a function that is compiled for it. Out: a specialization as a package holds it,
// and the file.
#include <algorithm>
#include <map>
#include <optional>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/no_compiler.hpp"
#include "io/file_values.hpp"
#include "io/safetensors.hpp"
#include "package/leaves.hpp"
#include "runtime/cuda/package_code.hpp"
#include "runtime/host/compiler.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/host/library.hpp"
#include "trace/call_context.hpp"
#include "trace/names.hpp"
#include "trace/symbols.hpp"
#include "trace/tracing.hpp"

namespace weft {

namespace detail {

struct PackageDraft {
  runtime::PackageFile file;
  std::vector<FunctionHandle> functions;  // by entry: what it was made from
  std::vector<bool> holds;                // by entry: whether it holds what is bound to it
  // Of file.weights: the elements, and by the names of functions the leaf that reads them.
  struct Weight {
    Tensor value;
    std::map<std::string, std::string, std::less<>> leaves;
  };
  std::vector<Weight> weights;
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
  if (executable->plan.parts) refuse(name, "has values on several devices: packages are for cuda:0");
  if (executable->plan.device.index != 0)
    refuse(name, concat_text("runs on ", to_string(executable->plan.device), ": packages are for cuda:0"));
  if (function.target && executable->plan.device.type == Device::Type::cpu)
    refuse(name, concat_text("can't be made for ", function.target->name,
                             ": it computes nothing of tensors, which a device would do"));
  return segment;
}

// The name of a leaf where the first `bound` arguments are not passed: `argument 1 (x)` becomes `argument 0 (x)`.
std::string passed_name(const Leaf& leaf, const std::string& name, int bound) {
  const std::string whole = concat_text("argument ", leaf.argument);
  return concat_text("argument ", leaf.argument - bound) + name.substr(whole.size());
}
// `argument 0 (in.weight)` becomes `in.weight`.
std::string weight_name(const std::string& name) {
  std::string path = path_in(name);
  return path.empty() ? name : path;
}

// The number of the file's weight that is this tensor. Functions share it; two leaves of one function do not, though
// they hold one tensor so far (layers that began as copies of one): each has a name, by which it is replaced alone.
std::size_t add_weight(EntryName name, PackageDraft& to, const Tensor& value, const std::string& leaf) {
  std::optional<std::size_t> known;
  for (std::size_t i = 0; i < to.weights.size(); ++i) {
    if (!to.weights[i].value.same(value)) continue;
    const auto read = to.weights[i].leaves.find(name.text);
    if (read != to.weights[i].leaves.end() && read->second != leaf) continue;
    const bool is_named_so = read != to.weights[i].leaves.end() || to.file.weights[i].name == weight_name(leaf);
    if (is_named_so || !known) known = i;
    if (is_named_so) break;
  }
  if (known) {
    to.weights[*known].leaves.emplace(name.text, leaf);
    return *known;
  }
  const auto taken = [&](const std::string& text) {
    return std::ranges::find(to.file.weights, text, &runtime::PackageWeight::name) != to.file.weights.end();
  };
  std::string text = weight_name(leaf);
  if (taken(text)) text = concat_text(name.text, ".", text);
  if (taken(text)) text = concat_text(name.text, ".", leaf);
  for (int more = 2; taken(text); ++more) text = concat_text(name.text, ".", leaf, " ", more);
  runtime::PackageWeight weight{.name = text, .dtype = type_of(value).dtype, .sizes = {}};
  for (const Dim size : type_of(value).shape) weight.sizes.push_back(size.constant());
  to.file.weights.push_back(std::move(weight));
  to.weights.push_back({value, {{std::string(name.text), leaf}}});
  return to.weights.size() - 1;
}

// An input of a plan that becomes a weight.
struct HeldInput {
  std::size_t input;
  Tensor value;
  std::string leaf;  // `argument 0 (in.weight)`
};

// The first arguments are taken out. Returns the plan's inputs that are tensors of theirs: they are to become weights.
std::vector<HeldInput> hold_bound(EntryName name, const Scratch& scratch, int bound,
                                  runtime::PackageSpecialization& to) {
  std::vector<HeldInput> held;
  const auto& leaves = scratch.arguments.leaves;
  std::uint32_t count = 0;
  while (count < leaves.size() && leaves[count].argument < bound) ++count;
  const auto refuse_bound = [&](std::uint32_t leaf, const char* does) {
    if (leaf < count)
      refuse(name, concat_text(does, " ", weight_name(to.arguments[leaf].name),
                               ", which is bound to it: a package holds what is bound as it is"));
  };
  const auto moved = [&](std::uint32_t& leaf) { leaf -= count; };
  for (StateTensor& state : to.states) refuse_bound(state.leaf, "changes");
  for (StateNumbers& numbers : to.numbers) refuse_bound(numbers.leaf, "changes");
  const auto move_source = [&](Source& source) {
    if (source.kind != Source::Kind::argument) return;
    refuse_bound(source.index, "gives back");
    moved(source.index);
  };
  for (Source& source : to.results) move_source(source);
  for (StateTensor& state : to.states) moved(state.leaf), move_source(state.source);
  for (StateNumbers& numbers : to.numbers) moved(numbers.leaf);
  move_source(to.generator);
  for (runtime::PackageOutput& output : to.outputs) {
    if (output.donor == runtime::PackageOutput::no_leaf) continue;
    if (output.donor < count)
      output.donor = runtime::PackageOutput::no_leaf;
    else
      moved(output.donor);
  }
  for (std::size_t i = 0; i < to.inputs.size(); ++i) {
    std::uint32_t& input = to.inputs[i];
    if (input == runtime::PackageSpecialization::generator_state) continue;
    if (input >= count) {
      moved(input);
      continue;
    }
    for (const Dim size : to.arguments[input].sizes)
      if (!size.is_constant())
        refuse(name, concat_text("has a size of ", weight_name(to.arguments[input].name),
                                 " that may vary, which is bound to it: leave out CompileOptions::dynamic, and mark "
                                 "the sizes of other arguments by mark_dynamic"));
    held.push_back({i, leaves[input].tensor(), to.arguments[input].name});
  }
  to.arguments.erase(to.arguments.begin(), to.arguments.begin() + count);
  for (std::size_t i = 0; i < to.arguments.size(); ++i) {
    to.arguments[i].name = passed_name(leaves[count + i], to.arguments[i].name, bound);
    to.arguments[i].argument = static_cast<std::uint16_t>(to.arguments[i].argument - bound);
  }
  const auto is_passed = [&](std::size_t symbol) {
    return std::ranges::any_of(to.arguments, [&](const runtime::PackageLeaf& leaf) {
      return std::ranges::any_of(leaf.sizes, [&](Dim size) {
        return !size.is_constant() && static_cast<std::size_t>(size.node()->number) == symbol;
      });
    });
  };
  for (std::size_t symbol = 0; symbol < to.symbols.size(); ++symbol)
    if (!is_passed(symbol)) refuse(name, "has a size that may vary of what is bound to it alone");
  return held;
}

std::vector<runtime::PackageLeaf> held_leaves(EntryName name, const LeafList& list,
                                              const std::vector<std::string>& names) {
  std::vector<runtime::PackageLeaf> leaves;
  for (const Leaf& leaf : list.leaves) {
    if (leaf.kind == LeafKind::dynamic_type)
      refuse(name, concat_text("has an object in ", names[leaves.size()],
                               " whose class is known only when the program runs, which packages do not hold"));
    leaves.push_back(package_leaf(leaf, names[leaves.size()]));
  }
  return leaves;
}

// Which of the file's libraries the plan calls. `missing` is the one that it does not have yet: it is to be the next.
std::uint32_t library_of(const runtime::PackageFile& file, const runtime::Plan& plan,
                         std::optional<runtime::PackageLibrary>& missing) {
  if (const auto* const kept = dynamic_cast<const runtime::cuda::KeptCode*>(plan.functions.get())) {
    const std::string bytes = write_code(kept->code());
    const Digest key = digest(bytes);
    const auto found = std::ranges::find(file.libraries, key, &runtime::PackageLibrary::key);
    if (found == file.libraries.end()) missing = runtime::PackageLibrary{key, kept->code().images.size(), bytes};
    return static_cast<std::uint32_t>(found - file.libraries.begin());
  }
  const auto* const library = dynamic_cast<const Library*>(plan.functions.get());
  if (!library) return runtime::PackageSpecialization::no_library;
  const auto found = std::ranges::find(file.libraries, library->key(), &runtime::PackageLibrary::key);
  if (found == file.libraries.end())
    missing = runtime::PackageLibrary{library->key(), library->units(), std::string(library->bytes())};
  return static_cast<std::uint32_t>(found - file.libraries.begin());
}

runtime::PackageSpecialization record(EntryName name, const Function& function, const Specialization& made,
                                      const Segment& segment, const CallSignature& signature, const Scratch& scratch) {
  runtime::PackageSpecialization to;
  const TraceResult& traced = segment.traced;
  const std::vector<Guards::Symbol>& symbols = made.guards.symbols;
  const auto symbol = [&](std::size_t number) { return dims::symbol(static_cast<int>(number), symbols[number].lower); };
  const CallLayout layout(signature, scratch.arguments, scratch.words);
  to.arguments = held_leaves(name, scratch.arguments, argument_names(signature, scratch.arguments));
  const bool moves = moves_to_device(function, scratch.arguments);
  for (std::size_t i = 0; i < to.arguments.size(); ++i) {
    if (!to.arguments[i].defined) continue;
    to.arguments[i].device = traced_device(moves, layout.leaf(i));
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
  to.results = traced.results;
  to.states = traced.states;
  to.numbers = traced.numbers;
  to.generator = traced.generator;
  to.plan = kernels.executable->plan;
  to.isa =
      function.target ? function.target->name : weft::name(function.isa ? *function.isa : InstructionSet(host_isa()));
  return to;
}

}  // namespace

namespace {

FunctionHandle fresh_function(const FunctionHandle& function, const EntryName& entry, const std::string& isa) {
  const std::optional<InstructionSet> set = instruction_set(isa);
  if (!set || (set->architecture == Architecture::another && set->architecture != host_architecture))
    refuse(entry,
           concat_text("can't be made for the instruction set \"", isa, "\": there are ", instruction_set_names()));
  if (set->architecture != host_architecture) {
    try {
      host_compiler(set->architecture);
    } catch (const NoCompilerError& error) {
      refuse(entry, concat_text("can't be made for ", isa, ": ", error.what()));
    }
  }
  FunctionHandle made(make_function(function.get()->options, entry.loc));
  made.get()->isa = set;
  return made;
}

FunctionHandle fresh_function(const FunctionHandle& function, const EntryName& entry, const DeviceTarget& target) {
  FunctionHandle made(make_function(function.get()->options, entry.loc));
  made.get()->target = &target;
  return made;
}

// Whether a tensor lies on a device.
bool are_on_device(const LeafList& arguments) {
  return std::ranges::any_of(arguments.leaves, [](const Leaf& leaf) {
    return holds_tensor(leaf.kind) && leaf.tensor().defined() &&
           type_of(leaf.tensor()).device.type != Device::Type::cpu;
  });
}

}  // namespace

std::vector<FunctionHandle> functions_to_package(const FunctionHandle& function, const EntryName& entry,
                                                 const LeafList& arguments) {
  const bool on_device = are_on_device(arguments);
  if (!entry.options.isa.empty() && on_device)
    refuse(entry, "has arguments on a device: EntryOptions::isa is for those on the host");
  std::vector<FunctionHandle> all;
  for (const std::string& isa : entry.options.isa) all.push_back(fresh_function(function, entry, isa));
  for (const std::string& device : entry.options.devices) {
    const DeviceTarget* const target = device_target(device);
    if (!target)
      refuse(entry, concat_text("can't be made for the device \"", device, "\": there are ", device_target_names()));
    all.push_back(fresh_function(function, entry, *target));
  }
  if (entry.options.devices.empty() && on_device)
    for (const DeviceTarget* const target : runtime::cuda::targets_of(Device::cuda()))
      all.push_back(fresh_function(function, entry, *target));
  if (all.empty()) all.push_back(function);
  return all;
}

void add_call(PackageDraft& to, EntryName name, const FunctionHandle& handle, const FunctionHandle& own,
              const CallSignature& signature, TypeLines types, int bound) {
  const Function& function = *own.get();
  const Scratch& scratch = innermost_scratch();
  if (name.text.empty()) fail("package", name.loc, "the name of the function is empty");
  const bool holds = name.options.weights;
  if (holds && bound == 0) refuse(name, "has nothing bound to it: compile(f, bind(model)) has");
  const Specialization* const made = function.find(scratch.words);
  const Segment& segment = segment_of(name, function, made);
  runtime::PackageFile& file = to.file;
  auto entry = std::ranges::find(file.entries, name.text, &runtime::PackageEntry::name);
  const bool is_new = entry == file.entries.end();
  if (!is_new && entry->types != types.lines)
    refuse(name, concat_text("is in the package already, as a function of other types: ",
                             first_difference(entry->types, types.lines, "it", "this one")));
  if (!is_new && to.functions[static_cast<std::size_t>(entry - file.entries.begin())].get() != handle.get())
    refuse(name, "is in the package already, as another compiled function");
  if (!is_new && to.holds[static_cast<std::size_t>(entry - file.entries.begin())] != holds)
    refuse(name, holds ? "is in the package already, without weights" : "is in the package already, with weights");
  runtime::PackageSpecialization all = record(name, function, *made, segment, signature, scratch);
  std::vector<HeldInput> held;
  if (holds) held = hold_bound(name, scratch, bound, all);
  runtime::FieldWriter trial;
  write_plan(trial, all.plan);
  if (!trial.refusal().empty()) refuse(name, "can't be packaged: " + trial.refusal());
  if (!is_new)
    for (const runtime::PackageSpecialization& each : entry->specializations)
      if (each.isa == all.isa && guards_text(each) == guards_text(all)) return;
  std::optional<runtime::PackageLibrary> library;
  all.library = library_of(file, all.plan, library);
  // From here on nothing is refused: who goes on after a refusal has a draft without a part of what was refused.
  if (library) file.libraries.push_back(*std::move(library));
  for (const HeldInput& each : held)
    all.inputs[each.input] = runtime::PackageSpecialization::weight(add_weight(name, to, each.value, each.leaf));
  if (is_new) {
    entry = file.entries.insert(file.entries.end(), {std::string(name.text), std::move(types.lines), {}});
    to.functions.push_back(handle);
    to.holds.push_back(holds);
  }
  entry->specializations.push_back(std::move(all));
}

}  // namespace detail

PackageWriter::PackageWriter() : draft_(std::make_shared<detail::PackageDraft>()) {}

void PackageWriter::write(const std::string& path, Loc loc) const {
  if (draft_->file.entries.empty())
    fail("package", loc, path, " would have no function: PackageWriter::add takes them");
  runtime::PackageFile all = draft_->file;
  for (const runtime::PackageEntry& entry : all.entries)
    for (const std::string& left_out : runtime::sizes_left_out(entry))
      logging::warn_once(concat_text("[package] ", entry.name, " does not serve all sizes that its ranges have: ",
                                     left_out, ". Add a call of that size as well"));
  // A safetensors file has no holes: what takes whole lines of the cache comes first, and then the larger elements.
  std::vector<io::HostElements> elements;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.weights.size(); ++i) {
    elements.emplace_back(draft_->weights[i].value, loc);
    order.push_back(i);
  }
  const auto text_of = [&](std::size_t i) {
    const std::span<const std::uint8_t> bytes = elements[i].bytes();
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) {
    const std::size_t element = storage_bytes(all.weights[i].dtype, 1);
    return text_of(i).size() % 64 == 0 ? std::size_t{64} : element;
  });
  std::vector<io::SafetensorsTensor> tensors;
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    runtime::PackageWeight& weight = all.weights[i];
    weight.offset = at;
    weight.digest = digest(text_of(i));
    at += text_of(i).size();
    tensors.push_back({weight.name, type_of(draft_->weights[i].value)});
  }
  if (!tensors.empty()) all.weights_header = io::write_safetensors_header(tensors, {});
  std::string refusal;
  const std::string bytes = runtime::write_package(all, refusal);
  if (!refusal.empty()) fail("package", loc, path, " can't be written: ", refusal);
  NewFile file("package", path.c_str(), loc);
  file.write(bytes);
  for (const std::size_t i : order) file.write(text_of(i));
  file.finish();
}

}  // namespace weft
