#include "loop/kernel.hpp"

#include <algorithm>
#include <charconv>

#include "base/fail.hpp"

namespace weft::loop {

Dim Kernel::outer_count() const {
  Dim count = 1;
  for (const Axis& axis : axes)
    if (!axis.inner) count = count * axis.extent;
  return count;
}
Dim Kernel::inner_count() const {
  Dim count = 1;
  for (const Axis& axis : axes)
    if (axis.inner) count = count * axis.extent;
  return count;
}

int Kernel::narrow_axis() const {
  const auto found = std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.narrow; });
  return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
}

Dim unit_count(const Kernel& kernel) {
  Dim rows = 1;
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    if (!kernel.axes[a].inner && !kernel.axes[a].carried && !kernel.axes[a].narrow &&
        static_cast<int>(a) != kernel.vector_axis)
      rows = rows * kernel.axes[a].extent;
  if (kernel.vector_axis < 0 || kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].inner) return rows;
  Dim extent = kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].extent;
  std::int64_t size = block_of(kernel);
  return rows * ((extent + Dim(size - 1)) / Dim(size));
}

std::int64_t block_of(const Kernel& kernel) {
  for (const Axis& axis : kernel.axes)
    if (axis.inner) return column_block;
  return block;
}

bool is_found_beside(const Instruction& instruction, std::int32_t operand) {
  return instruction.is(ReductionKind::online) && operand == instruction.args[1];
}

int weight(const Instruction& instruction) {
  if (instruction.kind == Kind::random_bits) return 40;
  return instruction.kind == Kind::apply ? info(instruction.op).cost : 1;
}

Cost cost(const Kernel& kernel) {
  Cost total;
  Dim outer = kernel.outer_count(), all = outer * kernel.inner_count();
  if (const int narrow = kernel.narrow_axis(); narrow >= 0)  // its points are the vector axis's too
    all = all / kernel.axes[static_cast<std::size_t>(narrow)].extent;
  for (const Instruction& instruction : kernel.body) {
    Dim times = instruction.level == Level::inner ? all : instruction.level == Level::outer ? outer : Dim(1);
    if (instruction.kind == Kind::reduce) times = all;
    if (instruction.kind == Kind::load || instruction.kind == Kind::store) {
      const Buffer& buffer = kernel.buffers[static_cast<std::size_t>(instruction.buffer)];
      // A predicate admits at most the elements of the buffer.
      if (instruction.args[0] >= 0 && instruction.kind == Kind::load && dims::proves_less(buffer.elements, times))
        times = buffer.elements;
      total.bytes = total.bytes + storage_bytes(info(buffer.dtype), times);
    } else if (instruction.kind != Kind::constant && instruction.kind != Kind::index) {
      total.operations = total.operations + times * Dim(weight(instruction));
    }
  }
  return total;
}

void replace_axes(Kernel& kernel, std::vector<Axis> axes, const std::vector<Dim>& replacement) {
  for (Instruction& instruction : kernel.body)
    instruction.index = dims::substitute(instruction.index, [&](const DimNode* atom) {
      return atom->kind == DimKind::axis ? replacement[static_cast<std::size_t>(atom->number)] : Dim::from_node(atom);
    });
  kernel.axes = std::move(axes);
}

void settle(Kernel& kernel) {
  for (Instruction& it : kernel.body) {
    it.level = Level::once;
    it.phase = 0;
    const auto read = [&](std::size_t operand) {
      it.level = std::max(it.level, kernel.body[operand].level);
      it.phase = std::max(it.phase, kernel.body[operand].phase);
    };
    for (const std::int32_t arg : it.args)
      if (arg >= 0 && !is_found_beside(it, arg)) read(static_cast<std::size_t>(arg));
    dims::any_atom(it.index, [&](const DimNode& atom) {
      if (atom.kind == DimKind::value) read(static_cast<std::size_t>(atom.number));
      if (atom.kind == DimKind::axis)
        it.level =
            std::max(it.level, kernel.axes[static_cast<std::size_t>(atom.number)].inner ? Level::inner : Level::outer);
      return false;
    });
    if (it.kind == Kind::scan) it.level = Level::inner;
    if (it.kind != Kind::reduce || it.is(ReductionKind::over_carried)) continue;
    it.level = Level::outer;
    ++it.phase;
  }
}

void keep_only(Kernel& kernel, const std::vector<bool>& keep) {
  std::vector<bool> needed = keep;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const std::int32_t arg : kernel.body[i].args)
      if (arg >= 0) needed[static_cast<std::size_t>(arg)] = true;
    dims::any_atom(kernel.body[i].index, [&](const DimNode& atom) {
      if (atom.kind == DimKind::value) needed[static_cast<std::size_t>(atom.number)] = true;
      return false;
    });
  }
  std::vector<std::int32_t> number(kernel.body.size(), -1), buffer(kernel.buffers.size(), -1);
  std::vector<Instruction> body;
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    Instruction it = kernel.body[i];
    for (std::int32_t& arg : it.args)
      if (arg >= 0) arg = number[static_cast<std::size_t>(arg)];
    it.index = dims::substitute(it.index, [&](const DimNode* atom) {
      return atom->kind == DimKind::value ? dims::value(number[static_cast<std::size_t>(atom->number)], atom->extent)
                                          : Dim::from_node(atom);
    });
    if (it.buffer >= 0) {
      std::int32_t& to = buffer[static_cast<std::size_t>(it.buffer)];
      if (to < 0) {
        to = static_cast<std::int32_t>(buffers.size());
        buffers.push_back(kernel.buffers[static_cast<std::size_t>(it.buffer)]);
      }
      it.buffer = to;
    }
    number[i] = static_cast<std::int32_t>(body.size());
    body.push_back(it);
  }
  kernel.body = std::move(body);
  kernel.buffers = std::move(buffers);
}

void verify(const Kernel& kernel) {
  bool seen_inner = false;
  for (std::size_t a = 0; a < kernel.axes.size(); ++a) {
    WEFT_CHECK(!seen_inner || kernel.axes[a].inner || static_cast<int>(a) == kernel.vector_axis, kernel.name,
               ": an outer axis comes after inner ones");
    seen_inner |= kernel.axes[a].inner;
  }
  std::vector<bool> stored(kernel.buffers.size(), false);
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    Level level = Level::once;
    std::uint16_t phase = 0;
    for (std::int32_t arg : instruction.args) {
      if (arg < 0) continue;
      WEFT_CHECK(static_cast<std::size_t>(arg) < i, kernel.name, ": v", i, " reads v", arg);
      const Instruction& operand = kernel.body[static_cast<std::size_t>(arg)];
      WEFT_CHECK(operand.kind != Kind::store, kernel.name, ": v", i, " reads a store");
      if (is_found_beside(instruction, arg)) continue;
      level = std::max(level, operand.level);
      phase = std::max(phase, operand.phase);
    }
    if (instruction.is(ReductionKind::online)) {
      const Instruction& greatest = kernel.body[static_cast<std::size_t>(instruction.args[1])];
      WEFT_CHECK(instruction.kind == Kind::reduce && instruction.op == Op::sum && greatest.kind == Kind::reduce &&
                     greatest.op == Op::amax && greatest.args[0] == instruction.args[0] &&
                     greatest.phase == instruction.phase &&
                     kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].inner,
                 kernel.name, ": v", i, " is no online sum of a row");
    }
    if (instruction.kind == Kind::reduce && !instruction.is(ReductionKind::over_carried)) {
      WEFT_CHECK(instruction.level == Level::outer && instruction.phase == phase + 1, kernel.name, ": v", i,
                 " level of a reduction");
    } else {
      WEFT_CHECK(instruction.level >= level && instruction.phase >= phase, kernel.name, ": v", i,
                 " is above its operands");
    }
    if (instruction.is(ReductionKind::short_row))
      WEFT_CHECK(kernel.inner_count().is_constant() && kernel.inner_count().constant() > 0 &&
                     kernel.inner_count().constant() <= short_row_length &&
                     !kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].inner,
                 kernel.name, ": v", i, " is no short row across lanes");
    if (kernel.narrow_axis() >= 0) {
      const Dim columns = kernel.axes[static_cast<std::size_t>(kernel.narrow_axis())].extent;
      const Axis& vector = kernel.axes[static_cast<std::size_t>(kernel.vector_axis)];
      WEFT_CHECK(columns.is_constant() && columns.constant() <= narrow_columns && vector.inner &&
                     (vector.extent % columns).same(Dim(0)),
                 kernel.name, ": its lanes are no rows of narrow columns");
      WEFT_CHECK(instruction.kind != Kind::scan && (instruction.level != Level::inner || instruction.phase == 0) &&
                     (instruction.kind != Kind::reduce || (instruction.op != Op::argmax && instruction.phase == 1)),
                 kernel.name, ": v", i, " is in no walk over narrow columns");
    }
    if (instruction.is(ReductionKind::product)) {
      std::size_t inner = 0, reduced = 0, outer = 0;
      for (const Axis& axis : kernel.axes) ++(axis.inner ? inner : outer);
      for (const Instruction& other : kernel.body) {
        reduced += other.kind == Kind::reduce || other.kind == Kind::scan;
        WEFT_CHECK(other.kind != Kind::store || other.level != Level::inner, kernel.name, ": stores a product's terms");
      }
      WEFT_CHECK(
          inner == 1 && outer >= 2 && reduced == 1 && !kernel.axes[static_cast<std::size_t>(kernel.vector_axis)].inner,
          kernel.name, ": v", i, " is no product of rows and columns over one inner axis");
    }
    if (instruction.kind == Kind::scan) {
      const DType dtype = kernel.body[static_cast<std::size_t>(instruction.args[0])].dtype;
      WEFT_CHECK(instruction.level == Level::inner && instruction.op != Op::argmax && instruction.dtype == dtype,
                 kernel.name, ": v", i, " scans no inner values of its dtype");
      WEFT_CHECK(
          instruction.args[1] < 0 || kernel.body[static_cast<std::size_t>(instruction.args[1])].level != Level::inner,
          kernel.name, ": v", i, " starts at each point anew");
    }
    if (instruction.kind == Kind::apply && info(instruction.op).arity > 0) {
      std::size_t first = instruction.op == Op::where ? 1 : 0;
      DType dtype = kernel.body[static_cast<std::size_t>(instruction.args[first])].dtype;
      for (std::size_t a = first; a < static_cast<std::size_t>(info(instruction.op).arity); ++a)
        WEFT_CHECK(kernel.body[static_cast<std::size_t>(instruction.args[a])].dtype == dtype, kernel.name, ": v", i,
                   " mixes dtypes");
    }
    WEFT_CHECK(instruction.kind != Kind::test || instruction.dtype == DType::boolean, kernel.name, ": v", i,
               " a test is a bool");
    if (instruction.kind == Kind::load && instruction.args[0] >= 0)
      WEFT_CHECK(kernel.body[static_cast<std::size_t>(instruction.args[0])].dtype == DType::boolean, kernel.name, ": v",
                 i, " a load's predicate is a bool");
    if (instruction.kind == Kind::load || instruction.kind == Kind::store) {
      const Buffer& buffer = kernel.buffers.at(static_cast<std::size_t>(instruction.buffer));
      WEFT_CHECK(buffer.dtype == instruction.dtype, kernel.name, ": v", i, " dtype of buffer ", instruction.buffer);
      WEFT_CHECK(buffer.written == (instruction.kind == Kind::store), kernel.name, ": buffer ", instruction.buffer,
                 " is read and written");
      if (instruction.kind == Kind::store) stored[static_cast<std::size_t>(instruction.buffer)] = true;
    }
  }
  if (kernel.predicate >= 0) {
    const Buffer& word = kernel.buffers.at(static_cast<std::size_t>(kernel.predicate));
    WEFT_CHECK(word.dtype == DType::i32 && !word.written && word.elements.same(Dim(1)), kernel.name,
               ": a predicate is one i32 that is only read");
  }
  for (std::size_t b = 0; b < stored.size(); ++b)
    WEFT_CHECK(stored[b] == kernel.buffers[b].written, kernel.name, ": buffer ", b, " is never stored");
}

namespace {

// The atoms of a kernel's indices and extents.
template <class See>
void see_atoms(const Kernel& kernel, See see) {
  const auto visit = [&](Dim dim) {
    dims::any_atom(dim, [&](const DimNode& atom) {
      see(atom);
      return false;
    });
  };
  for (const Axis& axis : kernel.axes) visit(axis.extent);
  for (const Buffer& buffer : kernel.buffers) visit(buffer.elements);
  for (const Instruction& instruction : kernel.body) visit(instruction.index);
}

std::string reduction_text(const Instruction& it) {
  const ReductionWords& words = *std::ranges::find(reduction_words, it.reduction, &ReductionWords::kind);
  return concat_text(words.before, it.is(ReductionKind::product) ? "" : info(it.op).name, words.after);
}

std::string number_text(const Instruction& it) {
  if (!is_floating(it.dtype)) return std::to_string(static_cast<std::int64_t>(it.bits));
  double number;
  std::memcpy(&number, &it.bits, sizeof number);
  char digits[40];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

}  // namespace

std::string to_text(const Kernel& kernel) {
  std::vector<std::int64_t> lower(kernel.parameters.size(), 2);
  std::vector<Dim> bounds(kernel.body.size(), Dim(0));
  see_atoms(kernel, [&](const DimNode& atom) {
    const auto number = static_cast<std::size_t>(atom.number);
    if (atom.kind == DimKind::symbol && number < lower.size()) lower[number] = atom.lower.constant();
    if (atom.kind == DimKind::value) bounds[number] = atom.extent;
  });
  std::string text = kernel.name + "(";
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b)
    text += std::string(b ? ", " : "") + (kernel.buffers[b].written ? "out " : "") +
            (kernel.buffers[b].steady ? "steady " : "") + info(kernel.buffers[b].dtype).name + " p" +
            std::to_string(b) + "[" + dims::to_string(kernel.buffers[b].elements) + "]";
  text += kernel.small ? ") small" : ")";
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i)
    text += (i ? ", s" : " where s") + std::to_string(i) + " >= " + std::to_string(lower[i]) + " is " +
            dims::to_string(kernel.parameters[i]);
  if (kernel.predicate >= 0) text += " unless p" + std::to_string(kernel.predicate);
  text += "\n ";
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    text += std::string(kernel.axes[a].inner     ? " inner"
                        : kernel.axes[a].carried ? " carried"
                        : kernel.axes[a].narrow  ? " narrow"
                                                 : " outer") +
            " i" + std::to_string(a) + "<" + dims::to_string(kernel.axes[a].extent) +
            (static_cast<int>(a) == kernel.vector_axis ? " vector" : "");
  text += "\n";
  static constexpr const char* levels[] = {"once ", "outer", "inner"};
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& v = kernel.body[i];
    text += "  " + std::string(levels[static_cast<int>(v.level)]) + std::to_string(v.phase) + " ";
    std::string args;
    for (std::int32_t arg : v.args)
      if (arg >= 0) args += (args.empty() ? "v" : ", v") + std::to_string(arg);
    const std::string index = dims::to_string(v.index), place = "p" + std::to_string(v.buffer) + "[" + index + "]";
    if (v.kind != Kind::store) text += "v" + std::to_string(i) + " " + info(v.dtype).name + " = ";
    switch (v.kind) {
      case Kind::constant: text += number_text(v); break;
      case Kind::index: text += "index " + index; break;
      case Kind::test: text += "0 <= " + index; break;
      case Kind::load: text += place + (args.empty() ? "" : " where " + args); break;
      case Kind::apply: text += std::string(info(v.op).name) + "(" + args + ")"; break;
      case Kind::cast: text += "cast(" + args + ")"; break;
      case Kind::bitcast: text += "bitcast(" + args + ")"; break;
      case Kind::random_bits: text += "random_bits(" + args + "; " + index + ")"; break;
      case Kind::reduce: text += reduction_text(v) + "(" + args + (v.op == Op::argmax ? "; " + index : "") + ")"; break;
      case Kind::scan: text += std::string("scan_") + info(v.op).name + "(" + args + ")"; break;
      case Kind::store: text += place + " = " + args; break;
    }
    if (!bounds[i].same(Dim(0))) text += " below " + dims::to_string(bounds[i]);
    text += "\n";
  }
  return text;
}

std::string shared_text(const Kernel& kernel) {
  if (kernel.shared) return *kernel.shared;
  Kernel nameless = kernel;
  nameless.name.clear();
  nameless.parameters.assign(kernel.parameters.size(), Dim(0));
  for (Buffer& buffer : nameless.buffers) buffer.elements = 0;
  return to_text(nameless);
}

namespace {

// Whether the load reads one element of the row of which the store, in a later phase, writes all: a label's logit, at
// an index that a value decides. A reduction over the row lies between the two.
bool reads_row_before(const Kernel& kernel, const Instruction& load, const Instruction& store) {
  if (load.level == Level::inner || load.phase >= store.phase || store.level != Level::inner) return false;
  int inner = -1;
  for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
    if (kernel.axes[axis].carried || kernel.axes[axis].narrow || (kernel.axes[axis].inner && inner >= 0)) return false;
    if (kernel.axes[axis].inner) inner = static_cast<int>(axis);
  }
  if (inner < 0) return false;
  const Dim extent = kernel.axes[static_cast<std::size_t>(inner)].extent;
  const Dim anywhere = dims::substitute(load.index, [&](const DimNode* atom) {
    const bool in_row = atom->kind == DimKind::value && atom->extent.same(extent);
    return in_row ? dims::axis(inner, extent) : Dim::from_node(atom);
  });
  return anywhere.same(store.index);
}

}  // namespace

bool may_overwrite(const Kernel& kernel, int argument, int result) {
  Dim target;
  bool stored = false;
  Level level = Level::once;
  std::uint16_t phase = 0;
  std::size_t store = 0;
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    if (instruction.kind != Kind::store || kernel.buffers[static_cast<std::size_t>(instruction.buffer)].value != result)
      continue;
    if (stored) return false;
    stored = true;
    store = i;
    target = instruction.index, level = instruction.level, phase = instruction.phase;
  }
  if (!stored) return false;
  std::uint16_t last = 0;
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    last = std::max(last, instruction.phase);
    if (instruction.kind != Kind::load ||
        kernel.buffers[static_cast<std::size_t>(instruction.buffer)].value != argument)
      continue;
    if (i > store) return false;
    if (reads_row_before(kernel, instruction, kernel.body[store])) continue;
    if (!instruction.index.same(target) || instruction.level != level) return false;
  }
  // In a kernel of several phases a value may be computed again later from memory that was already overwritten: by a
  // later phase, or, where the store is outer, by the walk over the inner axes that follows it in its own phase.
  const bool walk_follows =
      level == Level::outer && std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction& instruction) {
        return instruction.level == Level::inner && instruction.phase >= phase;
      });
  return !walk_follows && (last == 0 || phase == last);
}

Dim over_symbols(Dim dim, const Kernel& kernel) {
  return dims::substitute(dim, [&](const DimNode* atom) {
    return atom->kind == DimKind::symbol ? kernel.parameters[static_cast<std::size_t>(atom->number)]
                                         : Dim::from_node(atom);
  });
}

}  // namespace weft::loop
