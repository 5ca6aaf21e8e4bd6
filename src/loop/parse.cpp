#include "loop/parse.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/text_reader.hpp"

namespace weft::loop {

namespace {

class Parser final : TextReader {
 public:
  explicit Parser(std::string_view text) : TextReader("parse_kernel", text) {}

  Kernel run() {
    head();
    axes();
    while (!at_end()) instruction();
    settle(kernel_);
    return std::move(kernel_);
  }

 private:
  bool names_atom(char letter) const override { return letter == 's' || letter == 'i' || letter == 'v'; }
  // In the head sizes are over the graph's symbols, from there on over the kernel's slots.
  Dim atom(char letter, int number) override {
    const auto index = static_cast<std::size_t>(number);
    if (letter == 's') return in_body_ && index < slots_.size() ? slots_[index] : dims::symbol(number);
    if (letter == 'i') {
      if (index >= kernel_.axes.size()) refuse("an axis of the kernel");
      return dims::axis(number, kernel_.axes[index].extent);
    }
    if (index >= extents_.size() || extents_[index].same(Dim(0))) refuse("a value below a bound");
    return dims::value(number, extents_[index]);
  }

  void head() {
    kernel_.name = word();
    expect("(");
    while (!accept(")")) {
      if (!kernel_.buffers.empty()) expect(", ");
      Buffer buffer;
      buffer.written = accept("out ");
      buffer.steady = accept("steady ");
      buffer.dtype = dtype();
      expect(" p" + std::to_string(kernel_.buffers.size()) + "[");
      buffer.elements = size();
      expect("]");
      kernel_.buffers.push_back(buffer);
    }
    kernel_.small = accept(" small");
    if (accept(" where")) do {
        expect(" s" + std::to_string(slots_.size()) + " >= ");
        const std::int64_t lower = integer();
        expect(" is ");
        kernel_.parameters.push_back(size());
        slots_.push_back(dims::symbol(static_cast<int>(slots_.size()), lower));
      } while (accept(","));
    if (accept(" unless p")) kernel_.predicate = number<int>("the number of a buffer");
    expect("\n");
    in_body_ = true;
  }

  void axes() {
    expect(" ");
    while (!accept("\n")) {
      Axis axis;
      expect(" ");
      if (accept("inner"))
        axis.inner = true;
      else if (accept("carried"))
        axis.carried = true;
      else if (accept("narrow"))
        axis.narrow = true;
      else
        expect("outer");
      expect(" i" + std::to_string(kernel_.axes.size()) + "<");
      axis.extent = size();
      kernel_.axes.push_back(axis);
      if (accept(" vector")) kernel_.vector_axis = static_cast<int>(kernel_.axes.size()) - 1;
    }
  }

  std::int32_t argument() {
    expect("v");
    return number<std::int32_t>("the number of a value");
  }
  void arguments(Instruction& it) {
    for (std::size_t i = 0; !is(")") && !is(";"); ++i) {
      if (i == 3) refuse("at most three arguments");
      if (i > 0) expect(", ");
      it.args[i] = argument();
    }
    if (accept("; ")) it.index = size();
    expect(")");
  }
  void place(Instruction& it) {
    expect("p");
    it.buffer = number<std::int32_t>("the number of a buffer");
    if (static_cast<std::size_t>(it.buffer) >= kernel_.buffers.size()) refuse("a buffer of the kernel");
    expect("[");
    it.index = size();
    expect("]");
  }

  void instruction() {
    expect("  ");
    take_while([](char c) { return c != ' '; });  // its level, which follows from the rest
    spaces();
    if (is("0 ") || is("1 ")) take_while([](char c) { return c != ' '; });
    spaces();
    Instruction it;
    Dim extent = 0;
    if (is("p")) {
      it.kind = Kind::store;
      place(it);
      expect(" = ");
      it.args[0] = argument();
      it.dtype = kernel_.buffers[static_cast<std::size_t>(it.buffer)].dtype;
    } else {
      expect("v" + std::to_string(kernel_.body.size()) + " ");
      it.dtype = dtype();
      expect(" = ");
      right_side(it);
      if (accept(" below ")) extent = size();
    }
    expect("\n");
    kernel_.body.push_back(it);
    extents_.push_back(extent);
  }

  bool is_number() const {
    const std::size_t digits = at_ + (is("-") ? 1 : 0);
    const std::string_view rest = text_.substr(digits);
    return rest.substr(0, 1).find_first_of("0123456789") == 0 || rest.starts_with("inf\n") || rest.starts_with("nan\n");
  }

  void right_side(Instruction& it) {
    if (is("p") && text_.substr(at_ + 1, 1).find_first_of("0123456789") == 0) {
      it.kind = Kind::load;
      place(it);
      if (accept(" where ")) it.args[0] = argument();
      return;
    }
    if (accept("0 <= ")) {
      it.kind = Kind::test;
      it.index = size();
      return;
    }
    if (accept("index ")) {
      it.kind = Kind::index;
      it.index = size();
      return;
    }
    if (is_number()) {
      const double value = is_floating(it.dtype) ? real() : 0;
      if (is_floating(it.dtype))
        std::memcpy(&it.bits, &value, sizeof value);
      else
        it.bits = static_cast<std::uint64_t>(integer());
      return;
    }
    std::string_view name = word();
    const auto words = std::ranges::find_if(reduction_words, [name](const ReductionWords& each) {
      return name.starts_with(each.before) && name.ends_with(each.after);
    });
    if (words != std::end(reduction_words)) {
      it.kind = Kind::reduce;
      it.reduction = words->kind;
      name.remove_prefix(words->before.size());
      name.remove_suffix(words->after.size());
      if (it.is(ReductionKind::product)) name = "sum";
    } else if (name.starts_with("scan_")) {
      it.kind = Kind::scan;
      name.remove_prefix(5);
    } else if (name == "cast" || name == "bitcast" || name == "random_bits") {
      it.kind = name == "cast" ? Kind::cast : name == "bitcast" ? Kind::bitcast : Kind::random_bits;
    } else {
      it.kind = Kind::apply;
    }
    if (it.kind == Kind::apply || it.kind == Kind::reduce || it.kind == Kind::scan) {
      int op = 0;
      while (op < op_count && name != info(static_cast<Op>(op)).name) ++op;
      if (op == op_count) refuse("a primitive");
      it.op = static_cast<Op>(op);
    }
    expect("(");
    arguments(it);
  }

  Kernel kernel_;
  bool in_body_ = false;
  std::vector<Dim> slots_, extents_;
};

}  // namespace

Kernel parse_kernel(std::string_view text) { return Parser(text).run(); }

}  // namespace weft::loop
