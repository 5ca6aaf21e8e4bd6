#include "runtime/package_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/fail.hpp"
#include "base/member_count.hpp"
#include "runtime/host/abi.hpp"
#include "runtime/host/library.hpp"
#include "runtime/package_choice.hpp"
#include "weft/version.hpp"

namespace weft::runtime {

namespace {

// The file: magic, the format's number and a line's end; the table of its sections, and the digest of all
// before it; the sections, in the table's order, with zeros between them. First the plans, then each library, then the
// weights, if there are any: a whole safetensors file, of whose header the section's digest is.
constexpr std::string_view magic = "weft package ";
// Raise it where what is written changes, or means something else: a field here, in a plan or in a step
// (tests/runtime/stored_fields).
constexpr std::string_view format = "13\n";
constexpr std::size_t table_begin = 16;
struct Section {
  enum class Kind : std::uint64_t { plans, code, weights } kind = Kind::plans;
  std::uint64_t offset = 0, size = 0;
  Digest digest = {};
  static auto fields(auto& self) {
    return std::tie(self.kind, self.offset, self.size, self.digest.low, self.digest.high);
  }
};
constexpr std::uint64_t section_bytes = 5 * sizeof(std::uint64_t);  // in the table
constexpr std::uint64_t table_end(std::uint64_t sections) {         // where the digest of the head begins
  return table_begin + sizeof(std::uint64_t) + sections * section_bytes;
}
constexpr std::uint64_t alignment_of(Section::Kind kind) { return kind == Section::Kind::weights ? 4096 : 64; }
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 48;

static_assert(lists_all<PackageSymbol> && lists_all<PackageCondition> && lists_all<Source> && lists_all<StateTensor> &&
                  lists_all<StateNumbers>,
              "a struct's fields() leave out a member");
// A device is two fields, a digest too; plans are written apart.
static_assert(member_count<PackageLeaf> == 12 && member_count<PackageOutput> == 5 &&
                  member_count<PackageLibrary> == 4 && member_count<PackageSpecialization> == 13 &&
                  member_count<PackageEntry> == 3 && member_count<PackageFile> == 6 &&
                  member_count<PackageWeight> == 6 && member_count<Section> == 4,
              "a member was added: list it, then count it here");

// A step of a device, where nobody runs those: its bytes as they are.
class PassedOver final : public Preparable {
 public:
  static std::shared_ptr<const Preparable> read(std::string name, FieldReader& fields) {
    std::string bytes;
    while (!fields.at_end()) bytes.push_back(fields.take<char>());
    return std::make_shared<PassedOver>(std::move(name), std::move(bytes));
  }
  PassedOver(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  std::unique_ptr<Runnable> prepare(const Preparation&) const override { throw Malformed(); }
  std::string stored_as() const override { return name_; }
  void write(FieldWriter& to, const EntryPoint&) const override {
    for (const char byte : bytes_) to(byte);
  }

 private:
  std::string name_, bytes_;
};

// Names a step that nobody here can make.
struct NoStep {
  std::string name;
};

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw PackageRefusal{concat_text(parts...)};
}

// What `body` returns. All that it throws is a PackageRefusal, but where memory ends.
template <class Body>
auto refusing(const Body& body) {
  try {
    return body();
  } catch (const PackageRefusal&) {
    throw;
  } catch (const Malformed&) {
    refuse("is damaged");
  } catch (const InternalError&) {  // an invariant of plans that the bytes do not keep
    refuse("is damaged");
  } catch (const NoStep& step) {
    refuse("has a step, ", step.name, ", whose library is not on this machine");
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    refuse("can't be used: ", error.what());
  }
}

// ---- what was read is held against itself ---------------------------------------------------------------------------

void require(bool condition) {
  if (!condition) throw Malformed();
}

bool names_symbols_below(Dim dim, std::size_t count) {
  return !dims::any_atom(dim, [&](const DimNode& atom) {
    return atom.kind == DimKind::symbol && (atom.number < 0 || static_cast<std::size_t>(atom.number) >= count);
  });
}

// The number of the symbol that a leaf's size is; -1: it is a number.
int symbol_of(Dim size) {
  if (size.is_constant()) return -1;
  require(size.node()->kind == DimKind::symbol);
  return size.node()->number;
}

// `on`: where the plan runs.
void check(const PackageLeaf& leaf, Device on) {
  require(leaf.kind <= PackageLeaf::Kind::count && (leaf.device == Device::cpu() || leaf.device == on));
  require(leaf.sizes.size() <= static_cast<std::size_t>(max_rank) && (leaf.defined || leaf.sizes.empty()));
  require(leaf.kind != PackageLeaf::Kind::number || leaf.bytes.size() <= sizeof(std::uint64_t));
}

// Known ones are sizes of a tensor that can be.
void check_sizes(const std::vector<Dim>& sizes, std::size_t symbols) {
  require(sizes.size() <= static_cast<std::size_t>(max_rank));
  std::int64_t count = 1;
  for (const Dim size : sizes) {
    require(names_symbols_below(size, symbols));
    if (!size.is_constant()) continue;
    const std::int64_t number = size.constant();
    require(Reach::is_size(number) && !__builtin_mul_overflow(count, std::max<std::int64_t>(number, 1), &count) &&
            Reach::is_size(count));
  }
}

void check(const PackageSpecialization& all, std::size_t libraries, std::size_t weights) {
  const std::size_t symbols = all.symbols.size(), leaves = all.arguments.size();
  std::vector<bool> found(symbols);
  for (const PackageLeaf& leaf : all.arguments) {
    check(leaf, all.plan.device);
    check_sizes(leaf.sizes, symbols);
    for (const Dim size : leaf.sizes)
      if (const int symbol = symbol_of(size); symbol >= 0) found[static_cast<std::size_t>(symbol)] = true;
  }
  require(std::ranges::find(found, false) == found.end());
  for (const PackageCondition& condition : all.conditions)
    require(condition.kind <= DimCondition::Kind::less && names_symbols_below(condition.left, symbols) &&
            names_symbols_below(condition.right, symbols));
  const auto is_tensor = [&](std::uint32_t leaf) {
    return leaf < leaves && all.arguments[leaf].kind == PackageLeaf::Kind::tensor;
  };
  const auto is_defined = [&](std::uint32_t leaf) { return is_tensor(leaf) && all.arguments[leaf].defined; };
  require(all.inputs.size() == static_cast<std::size_t>(all.plan.argument_count) &&
          all.outputs.size() == static_cast<std::size_t>(all.plan.result_count) &&
          static_cast<std::size_t>(all.plan.symbol_count) <= symbols);
  for (const std::uint32_t leaf : all.inputs)
    require(leaf == PackageSpecialization::generator_state || is_defined(leaf) ||
            (PackageSpecialization::is_weight(leaf) && PackageSpecialization::weight_index(leaf) < weights));
  for (const PackageOutput& output : all.outputs) {
    require(output.device == Device::cpu() || output.device == all.plan.device);
    require(output.donor == PackageOutput::no_leaf ||
            (is_defined(output.donor) && all.arguments[output.donor].device == output.device));
    check_sizes(output.sizes, symbols);
  }
  // What a device's plan takes from the host, or gives to it, is staged.
  const auto is_as_given = [&](const PlanBuffer& buffer) {
    const auto index = static_cast<std::size_t>(buffer.index);
    if (buffer.kind == PlanBuffer::Kind::result) return buffer.host == (all.outputs[index].device == Device::cpu());
    const std::uint32_t input = all.inputs[index];
    if (PackageSpecialization::is_weight(input)) return true;  // it is put where the plan reads it
    return buffer.host ==
           (input == PackageSpecialization::generator_state || all.arguments[input].device == Device::cpu());
  };
  for (const PlanBuffer& buffer : all.plan.buffers)
    if (is_on_device(all) && (buffer.kind == PlanBuffer::Kind::argument || buffer.kind == PlanBuffer::Kind::result))
      require(is_as_given(buffer));
  const auto require_source = [&](const Source& source) {
    using Kind = Source::Kind;
    require(source.kind == Kind::undefined || (source.kind == Kind::computed && source.index < all.outputs.size()) ||
            (source.kind == Kind::argument && is_tensor(source.index)));
  };
  for (const PackageLeaf& leaf : all.result) check(leaf, all.plan.device);
  require(static_cast<std::size_t>(std::ranges::count(all.result, PackageLeaf::Kind::tensor, &PackageLeaf::kind)) ==
          all.results.size());
  for (const Source& source : all.results) require_source(source);
  for (const StateTensor& state : all.states) {
    require(is_tensor(state.leaf));
    require_source(state.source);
  }
  require_source(all.generator);
  for (const StateNumbers& numbers : all.numbers) {
    require(numbers.leaf < leaves);
    const PackageLeaf& leaf = all.arguments[numbers.leaf];
    require(leaf.kind == PackageLeaf::Kind::number || leaf.kind == PackageLeaf::Kind::list);
    require(leaf.bytes.size() == numbers.bytes.size());
  }
  require(all.library == PackageSpecialization::no_library || all.library < libraries);
}

// What machine code must have been compiled for: the symbols, what they satisfy, and each launch of a kernel.
std::array<std::uint64_t, 2> use_of(const PackageSpecialization& made, std::vector<Digest> launches) {
  FieldWriter all;
  all(made.symbols, made.conditions);
  write_launches(all, std::move(launches));
  const Digest use = digest(all.bytes());
  return {use.low, use.high};
}

// What a call gives the plan, by its guards and by what it makes of the results.
std::shared_ptr<const Plan::Given> given_to(const PackageSpecialization& made,
                                            const std::vector<PackageWeight>& weights) {
  auto given = std::make_shared<Plan::Given>();
  const auto value = [](DType dtype, const std::vector<Dim>& sizes) {
    Dim elements = 1;
    for (const Dim size : sizes) elements = elements * size;
    return Plan::Given::Value{dtype, elements};
  };
  for (const std::uint32_t leaf : made.inputs) {
    if (leaf == PackageSpecialization::generator_state) {
      given->arguments.push_back({DType::i64, 2});
    } else if (PackageSpecialization::is_weight(leaf)) {
      const PackageWeight& weight = weights[PackageSpecialization::weight_index(leaf)];
      given->arguments.push_back(value(weight.dtype, {weight.sizes.begin(), weight.sizes.end()}));
    } else {
      given->arguments.push_back(value(made.arguments[leaf].dtype, made.arguments[leaf].sizes));
    }
  }
  for (const PackageOutput& output : made.outputs) given->results.push_back(value(output.dtype, output.sizes));
  return given;
}

PackageFile read_fields(FieldReader& from, const std::vector<std::string_view>& code, const StepReader& read_step) {
  PackageFile package;
  std::vector<std::array<std::uint64_t, 2>> uses;  // of each specialization
  from(package.weights);
  for (auto entries = from.take<std::uint32_t>(); entries > 0; --entries) {
    PackageEntry& entry = package.entries.emplace_back();
    from(entry.name, entry.types);
    auto left = from.take<std::uint32_t>();
    require(left > 0);
    for (; left > 0; --left) {
      PackageSpecialization& made = entry.specializations.emplace_back();
      from(made);
      from.launches.clear();
      made.plan = read_plan(from, read_step);
      uses.push_back(use_of(made, from.launches));
    }
  }
  require(from.at_end());
  for (const std::string_view each : code) {
    FieldReader library(each);
    package.libraries.push_back(library.take<PackageLibrary>());
    require(library.at_end());
  }
  auto use = uses.begin();
  for (PackageEntry& entry : package.entries)
    for (PackageSpecialization& made : entry.specializations) {
      check(made, package.libraries.size(), package.weights.size());
      made.plan.given = given_to(made, package.weights);
      const auto& known =
          made.library == PackageSpecialization::no_library ? std::vector{*use} : package.libraries[made.library].uses;
      if (std::ranges::find(known, *use++) == known.end()) refuse("is damaged: its kernels are those of another plan");
    }
  return package;
}

// ---- sections -------------------------------------------------------------------------------------------------------

std::uint64_t aligned(std::uint64_t offset, Section::Kind kind) {
  const std::uint64_t to = alignment_of(kind);
  return (offset + to - 1) / to * to;
}

// Of a safetensors file: the length of its header, and the header.
std::size_t header_bytes(std::string_view file) {
  std::uint64_t length = 0;
  require(file.size() >= sizeof length);
  std::memcpy(&length, file.data(), sizeof length);
  require(length <= file.size() - sizeof length);
  return sizeof length + length;
}

// Where its sizes are those of a tensor that can be; otherwise some number.
std::uint64_t bytes_of(const PackageWeight& weight) {
  std::uint64_t bytes = storage_bytes(weight.dtype, 1);
  for (const std::int64_t size : weight.sizes) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

// The plans are the first one. But for the weights' bytes, all is as it was written.
std::vector<Section> sections_of(std::string_view bytes) {
  const auto require_whole = [](bool whole) {
    if (!whole) refuse("was cut off or damaged: its digest is not that of its bytes");
  };
  FieldReader from(bytes.substr(std::min(bytes.size(), table_begin)));
  std::vector<Section> sections;
  Digest head;
  try {
    from(sections, head.low, head.high);
  } catch (const Malformed&) {
    require_whole(false);
  }
  std::uint64_t end = table_end(sections.size());
  require_whole(digest(bytes.substr(0, end)) == head);
  end += 2 * sizeof(std::uint64_t);
  require(!sections.empty());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    using Kind = Section::Kind;
    const bool last = i + 1 == sections.size();
    require(section.kind == (i == 0 ? Kind::plans : Kind::code) || (i > 0 && last && section.kind == Kind::weights));
    require(section.size < most_bytes && section.offset == aligned(end, section.kind));
    require_whole(section.offset <= bytes.size() && section.size <= bytes.size() - section.offset);
    require_whole(bytes.substr(end, section.offset - end).find_first_not_of('\0') == std::string_view::npos);
    end = section.offset + section.size;
    std::string_view content = bytes.substr(section.offset, section.size);
    if (section.kind == Kind::weights) content = content.substr(0, header_bytes(content));
    require_whole(digest(content) == section.digest);
  }
  require_whole(end == bytes.size());
  return sections;
}

// Says where each of them lies.
void place(std::vector<PackageWeight>& weights, std::string_view section) {
  section.remove_prefix(header_bytes(section));
  std::uint64_t all = 0;
  for (PackageWeight& weight : weights) {
    check_sizes({weight.sizes.begin(), weight.sizes.end()}, 0);
    const std::uint64_t size = bytes_of(weight);
    require(weight.offset % storage_bytes(weight.dtype, 1) == 0 && weight.offset <= section.size() &&
            size <= section.size() - weight.offset);
    weight.bytes = section.substr(weight.offset, size);
    all += size;
  }
  require(all == section.size());
}

}  // namespace

std::uint64_t package_head(std::string_view begin) {
  constexpr std::uint64_t all = UINT64_MAX, words = sizeof(std::uint64_t);
  const auto word = [&](std::uint64_t at) {
    std::uint64_t number = 0;
    std::memcpy(&number, begin.data() + at, sizeof number);
    return number;
  };
  if (begin.size() < table_begin + words) return table_begin + words;
  if (!begin.starts_with(magic)) return 0;
  const std::uint64_t count = word(table_begin), last = table_end(count - 1);
  if (count == 0 || count > most_bytes) return all;
  if (begin.size() < last + section_bytes) return last + section_bytes;
  if (static_cast<Section::Kind>(word(last)) != Section::Kind::weights) return all;
  const std::uint64_t weights = word(last + words);
  if (weights > most_bytes) return all;
  if (begin.size() < weights + words) return weights + words;
  const std::uint64_t header = word(weights);
  return header > most_bytes ? all : weights + words + header;
}

std::string write_package(const PackageFile& package, std::string& refusal) {
  FieldWriter to;
  to(std::string(version()), kernel_abi, package.weights);
  std::vector<PackageLibrary> libraries = package.libraries;
  to(static_cast<std::uint32_t>(package.entries.size()));
  for (const PackageEntry& entry : package.entries) {
    to(entry.name, entry.types, static_cast<std::uint32_t>(entry.specializations.size()));
    for (const PackageSpecialization& made : entry.specializations) {
      to(made);
      to.launches.clear();
      write_plan(to, made.plan);
      if (made.library < libraries.size() && package.libraries[made.library].uses.empty())
        libraries[made.library].uses.push_back(use_of(made, to.launches));
    }
  }
  refusal = to.refusal();
  std::vector<Section> sections;
  std::vector<std::string> contents;
  const auto add = [&](Section::Kind kind, std::string bytes) {
    sections.push_back({kind, 0, bytes.size(), digest(bytes)});
    contents.push_back(std::move(bytes));
  };
  add(Section::Kind::plans, to.bytes());
  for (const PackageLibrary& library : libraries) {
    FieldWriter code;
    code(library);
    add(Section::Kind::code, code.bytes());
  }
  if (!package.weights.empty()) {
    add(Section::Kind::weights, package.weights_header);
    for (const PackageWeight& weight : package.weights) sections.back().size += bytes_of(weight);
  }
  std::uint64_t end = table_end(sections.size()) + 2 * sizeof(std::uint64_t);
  for (Section& section : sections) {
    section.offset = aligned(end, section.kind);
    end = section.offset + section.size;
  }
  std::string bytes = concat_text(magic, format);
  bytes.resize(table_begin);
  FieldWriter table, end_of_head;
  table(sections);
  bytes += table.bytes();
  const Digest head = digest(bytes);
  end_of_head(head.low, head.high);
  bytes += end_of_head.bytes();
  for (std::size_t i = 0; i < sections.size(); ++i) {
    bytes.resize(sections[i].offset);
    bytes += contents[i];
  }
  return bytes;
}

PackageFile parse_package(std::string_view bytes, const StepReader& read_step) {
  if (!bytes.starts_with(magic)) refuse("is no package of Weft");
  if (const std::string_view rest = bytes.substr(magic.size()); rest.substr(0, rest.find('\n') + 1) != format)
    refuse("has another format than ", format.substr(0, format.size() - 1), ", which this version of Weft, ", version(),
           ", reads");
  return refusing([&] {
    const std::vector<Section> sections = sections_of(bytes);
    const auto part = [&](const Section& section) { return bytes.substr(section.offset, section.size); };
    std::vector<std::string_view> code;
    for (const Section& section : sections)
      if (section.kind == Section::Kind::code) code.push_back(part(section));
    FieldReader from(part(sections.front()));
    const auto made_by = from.take<std::string>();
    const int abi = from.take<int>();
    if (abi != kernel_abi)
      refuse("has kernels of version ", abi, ", as Weft ", made_by, " made them; this is Weft ", version(),
             ", which runs those of version ", kernel_abi);
    PackageFile package = read_fields(from, code, [&](const std::string& name, FieldReader& fields) {
      std::shared_ptr<const Preparable> step = read_step(name, fields);
      if (!step && name.starts_with(device_step_prefix))
        step = PassedOver::read(name.substr(device_step_prefix.size()), fields);
      if (!step) throw NoStep{name};
      return step;
    });
    package.made_by = made_by;
    const bool has_weights = sections.back().kind == Section::Kind::weights;
    require(has_weights == !package.weights.empty());
    if (has_weights) place(package.weights, part(sections.back()));
    package.isa = made_for(package);
    return package;
  });
}

void prepare(PackageFile& package, bool packs, const PackageDevice* device) {
  refusing([&] {
    choose_kernels(package, device);
    std::vector<std::shared_ptr<const Functions>> libraries(package.libraries.size());
    std::vector<bool> of_device(package.libraries.size());
    for (PackageEntry& entry : package.entries)
      for (PackageSpecialization& each : entry.specializations) {
        if (each.library == PackageSpecialization::no_library) continue;
        if (libraries[each.library]) {
          if (of_device[each.library] != is_on_device(each)) throw Malformed();
          continue;
        }
        of_device[each.library] = is_on_device(each);
        const PackageLibrary& library = package.libraries[each.library];
        libraries[each.library] =
            is_on_device(each) ? device->load(library.bytes) : Library::load(library.bytes, library.key, library.units);
      }
    for (PackageLibrary& each : package.libraries) each.bytes = {};
    for (PackageEntry& entry : package.entries)
      for (PackageSpecialization& each : entry.specializations) {
        if (each.library != PackageSpecialization::no_library) each.plan.functions = libraries[each.library];
        // Kernels of a device may read a weight before the kernel in front of them has ended, which one that is left
        // out would not be (read_early of schedule/schedule.hpp): who compiled them knew of no constants.
        for (std::size_t i = 0; packs && !is_on_device(each) && i < each.inputs.size(); ++i)
          if (PackageSpecialization::is_weight(each.inputs[i]))
            each.plan.constant_arguments.push_back(static_cast<int>(i));
        prepare(each.plan);
        if (each.plan.symbol_count == 0 && !fits(each.plan, {})) refuse("is damaged: a step leaves its memory");
      }
  });
}

PackageFile read_package(std::string_view bytes, const StepReader& read_step) {
  PackageFile package = parse_package(bytes, read_step);
  prepare(package);
  return package;
}

std::string origin_text(const PackageFile& package) {
  return concat_text("format ", format.substr(0, format.size() - 1), ", made by Weft ", package.made_by, " for ",
                     package.isa);
}

}  // namespace weft::runtime
