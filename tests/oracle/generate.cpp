// Makes programs: types and values are known as the program grows, since every call is asked of the oracle.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "oracle/program.hpp"

namespace oracle {

namespace {

constexpr std::int64_t most_elements = 3000;

struct Maker {
  explicit Maker(std::uint64_t seed) : random(seed * 0x2545f4914f6cdd1dull + 99) { program.seed = seed; }
  std::mt19937_64 random;
  Program program;
  std::vector<Array> values;
  std::int64_t limit = most_elements;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  T any(std::initializer_list<T> of) {
    return of.begin()[below(static_cast<std::int64_t>(of.size()))];
  }
  int any_value() {  // the last ones more often
    const auto count = static_cast<std::int64_t>(values.size());
    const auto v = static_cast<int>(one_in(2) ? below(count) : std::max<std::int64_t>(0, count - 1 - below(3)));
    return value(v)->weak ? 0 : v;
  }
  // A Scalar or an Index of the program, or -1.
  int any_number(Given given) {
    std::vector<int> found;
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
      if (program.inputs[i].given == given) found.push_back(static_cast<int>(i));
    return found.empty() ? -1 : found[static_cast<std::size_t>(below(static_cast<std::int64_t>(found.size())))];
  }
  std::size_t tensor_inputs() const {
    return static_cast<std::size_t>(std::count_if(program.inputs.begin(), program.inputs.end(),
                                                  [](const Input& input) { return input.given == Given::tensor; }));
  }
  // Those of a value, at times without leading ones.
  Shape some_sizes() {
    const int v = any_value();
    Shape sizes;
    for (int i = static_cast<int>(one_in(3) ? below(value(v).rank() + 1) : 0); i < value(v).rank(); ++i) {
      const std::int64_t size = value(v)->shape[static_cast<std::size_t>(i)];
      sizes.push_back(program.generic && size > 1 ? size_of(v, i) : size);
    }
    return sizes;
  }
  DType any_dtype() {
    return any({DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::i8,
                DType::i16, DType::u16, DType::u32, DType::boolean});
  }
  const Array& value(int i) const { return values[static_cast<std::size_t>(i)]; }
  Argument argument(int i) const { return {Argument::Kind::value, i, 0, 0}; }
  // An axis of a value, at times counted from the end.
  std::int64_t axis(int rank) {
    if (rank == 0) return 0;
    const std::int64_t axis = below(rank);
    return one_in(3) ? axis - rank : axis;
  }
  Shape some_axes(int rank) {
    Shape axes;
    for (int i = 0; i < rank; ++i)
      if (one_in(2)) axes.push_back(one_in(4) ? i - rank : i);
    std::shuffle(axes.begin(), axes.end(), random);
    return axes;  // none: all
  }
  // Sizes as numbers: of a program that holds for other sizes as the sizes of values.
  std::int64_t size_number(std::int64_t size) {
    if (!program.generic || size <= 1) return size;
    for (int tries = 0; tries < 40; ++tries) {
      const int v = static_cast<int>(below(static_cast<std::int64_t>(values.size())));
      for (int i = 0; i < value(v).rank(); ++i)
        if (value(v)->shape[static_cast<std::size_t>(i)] == size) return size_of(v, i);
    }
    return size;
  }

  Argument literal(DType dtype) {
    Argument made;
    if (dtype == DType::boolean && one_in(2)) return {Argument::Kind::boolean, 0, 0, below(2)};
    if (weft::is_floating(dtype) ? one_in(3) : !one_in(4)) {
      made.kind = Argument::Kind::whole;
      made.whole = weft::is_integer(dtype) && !is_signed(dtype) ? any<std::int64_t>({0, 1, 2, 3, 7, 200})
                                                                : any<std::int64_t>({0, 1, 2, 3, -1, -2, 5});
      if (dtype == DType::u8 && one_in(8)) made.whole = any<std::int64_t>({255, 256, 300, -1, 1ll << 40});
      if (dtype == DType::i32 && one_in(8)) made.whole = any<std::int64_t>({INT32_MAX, INT32_MIN, 1ll << 40});
      if (dtype == DType::i64 && one_in(8)) made.whole = any<std::int64_t>({INT64_MAX, INT64_MIN, 1ll << 40});
      return made;
    }
    made.kind = Argument::Kind::real;
    made.real = any({0.5, 0.1, -1.25, 2.0, 3.0, 0.0, -0.0, 0.7071, -0.3, 1.0, 1e-3});
    if (one_in(12) && !program.derivative)
      made.real = any(
          {1e30, 1e300, -65520.0, 1e-40, 1e-320, 16777217.0, static_cast<double>(NAN), static_cast<double>(INFINITY)});
    return made;
  }

  Shape base;
  void add_input() {
    Input input;
    input.dtype = any({DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32,
                       DType::u8, DType::i8, DType::i16, DType::u16, DType::u32, DType::boolean});
    if (program.derivative && !one_in(4))
      input.dtype = any({DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
    if (std::getenv("WEFT_ORACLE_FALLBACK") && !one_in(4)) input.dtype = any({DType::f16, DType::bf16});
    input.shape = base;
    const std::int64_t drop = one_in(3) ? below(static_cast<std::int64_t>(base.size()) + 1) : 0;
    input.shape.erase(input.shape.begin(), input.shape.begin() + drop);
    for (std::int64_t& size : input.shape)
      if (one_in(5)) size = 1;
    if (one_in(4) && input.shape.size() > 1) std::swap(input.shape.front(), input.shape.back());
    if (!one_in(3)) input.memory = static_cast<Memory>(below(6));
    input.numbers = program.derivative ? any({Numbers::ordinary, Numbers::ordinary, Numbers::positive})
                                       : static_cast<Numbers>(below(4));
    if (!program.inputs.empty() && one_in(8)) {
      const auto other = static_cast<int>(below(static_cast<std::int64_t>(program.inputs.size())));
      input = program.inputs[static_cast<std::size_t>(other)];
      if (input.alias < 0) input.alias = other;
    }
    program.inputs.push_back(input);
  }

  bool broadcasts(const Shape& a, const Shape& b) {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
      if (x != y && x != 1 && y != 1) return false;
      count *= x == 1 ? y : x;
    }
    return count <= limit;
  }
  Argument partner(int of) {
    if (const int number = any_number(one_in(2) ? Given::scalar : Given::index); number >= 0 && one_in(3))
      return argument(number);
    if (one_in(4)) return literal(value(of)->dtype);
    for (int tries = 0; tries < 6; ++tries) {
      const int other = any_value();
      if (broadcasts(value(of)->shape, value(other)->shape)) return argument(other);
    }
    return one_in(2) ? argument(of) : literal(value(of)->dtype);
  }

  // Arguments and numbers of a call of this shape; false where none fit.
  bool fill(Call& call, const Function& function) {
    const std::string shape = function.shape, name = function.name;
    int first = any_value();
    const auto rank = [&] { return value(first).rank(); };
    const auto size = [&](std::int64_t axis) {
      return value(first)->shape[static_cast<std::size_t>(axis < 0 ? axis + rank() : axis)];
    };
    call.arguments = {argument(first)};
    if (shape == "unary") return true;
    if (shape == "square") return rank() > 0 && value(first).count() * size(-1) <= limit;
    if (shape == "in place") {
      call.arguments.push_back(partner(first));
      return true;
    }
    if (shape == "like") {
      call.arguments.push_back(literal(value(first)->dtype));
      return true;
    }
    if (shape == "full" || shape == "sizes") {
      call.dtype = any_dtype();
      call.numbers = some_sizes();
      const int number = any_number(one_in(2) ? Given::scalar : Given::index);
      call.arguments.clear();
      if (shape == "full")
        call.arguments.push_back(number >= 0 && one_in(2) ? argument(number)
                                 : rank() == 0            ? argument(first)
                                                          : literal(call.dtype));
      return true;
    }
    if (shape == "reals") {
      const auto real = [&](std::initializer_list<double> of) { return Argument{Argument::Kind::real, 0, any(of), 0}; };
      call.dtype = any_dtype();
      call.arguments = {real({-2.5, 0.0, 0.1, 1.0, 300.0}), real({-1.0, 1.0, 2.9, 10.0, 300.5})};
      const Shape sizes = some_sizes();
      call.numbers = {one_in(2) && !sizes.empty() ? sizes.back() : any<std::int64_t>({0, 1, 2, 3, 5, 13})};
      if (name != "linspace") call.arguments.push_back(real({0.1, 0.5, 1.0, 7.0, -0.25, -3.0})), call.numbers.clear();
      return true;
    }
    if (shape == "arange" || shape == "count" || shape == "eye") {
      call.arguments.clear();
      call.dtype = any_dtype();
      const Shape sizes = some_sizes();
      const auto extent = [&] {
        return one_in(2) && !sizes.empty() ? sizes.back() : any<std::int64_t>({0, 1, 2, 3, 5, 13, 300});
      };
      if (shape == "count") call.numbers = {extent()};
      if (shape == "eye") call.numbers = {one_in(2) ? extent() : 3, any<std::int64_t>({1, 2, 3, 5})};
      if (shape == "arange" && program.generic) call.numbers = {below(2), extent(), any<std::int64_t>({1, 1, 2})};
      if (shape == "arange" && !program.generic)
        call.numbers = {between(-4, 4), between(-4, 20), any<std::int64_t>({1, 1, 2, 3, -1, -2, 0})};
      return true;
    }
    if (shape == "binary") {
      call.arguments.push_back(partner(first));
      if (name == "pow" && call.arguments[1].kind == Argument::Kind::whole) call.arguments[1].whole = between(-1, 3);
      if (name == "mse_loss" && call.arguments[1].kind != Argument::Kind::value) return false;
      if (name != "pow" && name != "mse_loss" && one_in(3)) std::swap(call.arguments[0], call.arguments[1]);
      return true;
    }
    if (shape == "where") {
      for (int tries = 0; tries < 8 && value(first)->dtype != DType::boolean; ++tries) first = any_value();
      call.arguments = {argument(first), partner(first)};
      if (call.arguments[1].kind != Argument::Kind::value) call.arguments[1] = argument(any_value());
      call.arguments.push_back(partner(call.arguments[1].value));
      if (one_in(2)) std::swap(call.arguments[1], call.arguments[2]);
      return value(first)->dtype == DType::boolean;
    }
    if (shape == "clamp") {
      if (one_in(3)) {
        call.arguments.push_back(partner(first));
        call.arguments.push_back(partner(first));
      } else {
        const bool real = value(first).floating();
        call.arguments.push_back({real ? Argument::Kind::real : Argument::Kind::whole, 0, -0.75, 1});
        call.arguments.push_back({real ? Argument::Kind::real : Argument::Kind::whole, 0, 1.5, 3});
      }
      return true;
    }
    if (shape == "cast") {
      call.dtype = any({DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::i8,
                        DType::i16, DType::u16, DType::u32, DType::boolean});
      if (name == "bitcast") {
        if (value(first)->dtype == DType::boolean || call.dtype == DType::boolean || program.derivative) return false;
        return weft::info(value(first)->dtype).bits == weft::info(call.dtype).bits;
      }
      if (program.derivative && !weft::is_floating(call.dtype)) return one_in(4);
      return true;
    }
    if (shape == "reshape") {
      std::int64_t left = value(first).count();
      if (program.generic || left == 0) {
        call.numbers = value(first)->shape;
        for (std::size_t i = 0; i < call.numbers.size(); ++i)
          if (call.numbers[i] > 1)
            call.numbers[i] = program.generic ? size_of(first, static_cast<int>(i)) : call.numbers[i];
        if (one_in(2) && left && !call.numbers.empty()) call.numbers[static_cast<std::size_t>(below(rank()))] = -1;
        if (call.numbers.size() < 8 && one_in(2)) call.numbers.insert(call.numbers.begin() + below(rank() + 1), 1);
        return true;
      }
      while (left > 1 && call.numbers.size() < 7) {
        std::int64_t divisor = 1;
        for (std::int64_t d : {2, 3, 5, 7, 11, 13, 4, 6})
          if (left % d == 0 && one_in(2)) divisor = d;
        if (divisor == 1) divisor = left;
        call.numbers.push_back(divisor);
        left /= divisor;
        if (one_in(6)) call.numbers.push_back(1);
      }
      if (call.numbers.empty() && one_in(2)) call.numbers.push_back(1);
      std::shuffle(call.numbers.begin(), call.numbers.end(), random);
      if (!call.numbers.empty() && one_in(4))
        call.numbers[static_cast<std::size_t>(below(static_cast<std::int64_t>(call.numbers.size())))] = -1;
      if (call.numbers.size() > 8) return false;
      return true;
    }
    if (shape == "two axes") {
      if (rank() == 0) return false;
      call.numbers = {axis(rank()), axis(rank())};
      if (name == "flatten") {
        std::int64_t a = below(rank()), b = below(rank());
        call.numbers = {std::min(a, b), one_in(2) ? std::max(a, b) : std::max(a, b) - rank()};
      }
      return true;
    }
    if (shape == "permute") {
      for (int i = 0; i < rank(); ++i) call.numbers.push_back(i);
      std::shuffle(call.numbers.begin(), call.numbers.end(), random);
      for (std::int64_t& axis : call.numbers)
        if (one_in(5)) axis -= rank();
      return true;
    }
    if (shape == "expand") {
      for (std::int64_t size : value(first)->shape) {
        if (size != 1)
          call.numbers.push_back(one_in(4) ? -1 : size_number(size));
        else
          call.numbers.push_back(
              one_in(3) ? 1
                        : size_number(any(
                              base.empty()
                                  ? std::initializer_list<std::int64_t>{2, 3}
                                  : std::initializer_list<std::int64_t>{
                                        base[static_cast<std::size_t>(below(static_cast<std::int64_t>(base.size())))],
                                        2, 5})));
      }
      while (call.numbers.size() < 8 && one_in(3))
        call.numbers.insert(call.numbers.begin(), size_number(any<std::int64_t>({1, 2, 3})));
      return true;
    }
    if (shape == "new axis") {
      call.numbers = {one_in(3) ? -1 - below(rank() + 1) : below(rank() + 1)};
      return rank() < 8;
    }
    if (rank() == 0 && shape != "matmul" && shape != "gather" && shape != "one_hot" && shape != "parts" &&
        shape != "reduce")
      return false;
    if (shape == "axis" || shape == "axis, flag") {
      call.numbers = {axis(rank())};
      if (shape == "axis, flag") call.numbers.push_back(below(2));
      return true;
    }
    if (shape == "slice") {
      const std::int64_t a = axis(rank()), n = size(a);
      if (program.generic) {
        call.numbers = any<Shape>({{a, 1, slice_end, 1},
                                   {a, 0, -1, 1},
                                   {a, slice_end, slice_end, -1},
                                   {a, 0, slice_end, 2},
                                   {a, -1, slice_end, -2},
                                   {a, 0, 2, 1}});
        return true;
      }
      const std::int64_t step = any<std::int64_t>({1, 1, 1, 2, 3, -1, -2, 5, -7});
      std::int64_t start = one_in(4) ? slice_end : between(-n - 1, n + 1);
      std::int64_t stop = one_in(3) ? slice_end : between(-n - 2, n + 2);
      if (step > 0 && start == slice_end) start = 0;
      call.numbers = {a, start, stop, step};
      return true;
    }
    if (shape == "split") {
      const std::int64_t a = axis(rank()), n = size(a);
      if (n == 0) return false;
      const std::int64_t part = between(1, program.generic ? std::min<std::int64_t>(n, 2) : n);
      call.numbers = {a, part, program.generic ? 0 : below((n + part - 1) / part)};
      if (n > 1 && one_in(4)) call.numbers = {a, size_of(first, static_cast<int>(a < 0 ? a + rank() : a)), 0};
      return true;
    }
    if (shape == "select") {
      const std::int64_t a = name == "operator[]" ? 0 : axis(rank()), n = size(a);
      if (n == 0) return false;
      call.numbers = {a, program.generic ? any<std::int64_t>({0, -1}) : between(-n, n - 1)};
      return true;
    }
    if (shape == "parts") {
      const std::int64_t count = between(1, 4);
      for (std::int64_t i = 1; i < count; ++i) {
        int other = first;
        for (int tries = 0; tries < 6; ++tries) {
          const int candidate = any_value();
          if (value(candidate)->shape == value(first)->shape ||
              (name == "concat" && value(candidate).rank() == rank() && one_in(2))) {
            other = candidate;
            break;
          }
        }
        call.arguments.push_back(argument(other));
      }
      const int ranks = name == "stack" ? rank() + 1 : rank();
      if (ranks == 0 || ranks > 8) return false;
      call.numbers = {axis(ranks)};
      return value(first).count() * count <= limit;
    }
    if (shape == "pad") {
      call.numbers = {axis(rank()), below(3), below(3), one_in(3) ? between(1, 2) : 0};
      return true;
    }
    if (shape == "reduce") {
      call.numbers = {below(2)};
      if (name == "var") call.numbers.push_back(below(2));
      for (std::int64_t axis : some_axes(rank())) call.numbers.push_back(axis);
      return true;
    }
    if (shape == "matmul") {
      for (int tries = 0; tries < 10; ++tries) {
        const int other = any_value();
        const Array &a = value(first), &b = value(other);
        if (a.rank() == 0 || b.rank() == 0 || a.count() * b.count() > limit * 40) continue;
        const std::int64_t inner = b.rank() == 1 ? b->shape[0] : b->shape[b->shape.size() - 2];
        if (a->shape.back() == inner || one_in(20)) {
          call.arguments.push_back(argument(other));
          return true;
        }
      }
      return false;
    }
    if (shape == "gather" || shape == "one_hot" || shape == "labels") {
      // An index from a value: its elements cut to a range, as a call of their own.
      return true;
    }
    return false;
  }

  bool small(const Array& array) const { return array.count() <= limit && array.rank() <= 8; }

  bool push(const Call& call) {
    try {
      Array result = apply(program, call, values);
      if (!small(result)) return false;
      values.push_back(stop_gradient(result));
      program.calls.push_back(call);
      return true;
    } catch (const Refused&) {
      if (program.derivative == 0 && one_in(25)) {
        program.calls.push_back(call);
        program.refused = true;
      }
      return false;
    } catch (const Undecided&) {
      return false;
    }
  }
  int row(const std::string& name) const {
    for (std::size_t i = 0; i < functions().size(); ++i)
      if (functions()[i].name == name) return static_cast<int>(i);
    return -1;
  }
  // cast(value, i64) % rows: an index that is in range.
  int index_below(int from, std::int64_t rows) {
    Call cast_call{row("cast"), {argument(from)}, {}, any({DType::i64, DType::i32})};
    if (!push(cast_call)) return -1;
    const int whole = static_cast<int>(values.size()) - 1;
    if (!push(Call{row("operator%"), {argument(whole), {Argument::Kind::whole, 0, 0, rows}}, {}, DType::f32}))
      return -1;
    return static_cast<int>(values.size()) - 1;
  }

  void step() {
    int total = 0;
    for (const Function& function : functions()) total += function.weight;
    std::int64_t at = below(total);
    int chosen = 0;
    while (at >= functions()[static_cast<std::size_t>(chosen)].weight)
      at -= functions()[static_cast<std::size_t>(chosen++)].weight;
    const Function& function = functions()[static_cast<std::size_t>(chosen)];
    Call call;
    call.function = chosen;
    const std::string shape = function.shape;
    if (shape == "gather" || shape == "one_hot" || shape == "labels") {
      const int table = any_value(), from = any_value();
      const Shape& sizes = value(table)->shape;
      if (program.generic || (sizes.empty() && shape != "one_hot")) return;
      if (shape == "one_hot") {
        const std::int64_t classes = between(1, 5);
        const int index = index_below(from, classes);
        call = {chosen,
                {argument(index)},
                {one_in(20) ? classes - 1 : classes},
                any({DType::f32, DType::i64, DType::boolean, DType::bf16})};
        if (index < 0) return;
      } else if (const int number = any_number(Given::index);
                 function.name == std::string("operator[] by a value") && number >= 0 && one_in(2)) {
        if (value(table)->weak) return;
        call.arguments = {argument(table), argument(number)};
      } else if (shape == "gather") {
        if (sizes[0] == 0 || value(table).count() / sizes[0] * value(from).count() > limit) return;
        const int index = index_below(from, sizes[0]);
        if (index < 0) return;
        call.arguments = {argument(table), argument(index)};
      } else {
        if (sizes.back() == 0 || !value(table).floating()) return;
        int labels = -1;
        for (int v = 0; v < static_cast<int>(values.size()); ++v)
          if (value(v)->shape == Shape(sizes.begin(), sizes.end() - 1)) labels = v;
        if (labels < 0 || value(table).count() == 0) return;
        labels = index_below(labels, sizes.back());
        if (labels < 0) return;
        call.arguments = {argument(table), argument(labels)};
      }
      push(call);
      return;
    }
    if (fill(call, function)) push(call);
  }

  Program make() {
    if (one_in(5)) program.derivative = one_in(4) ? 2 : 1;
    program.generic = one_in(2);
    const std::int64_t rank = any<std::int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 8});
    for (std::int64_t i = 0; i < rank; ++i)
      base.push_back(one_in(30) && !program.generic
                         ? 0
                         : any<std::int64_t>({1, 2, 3, 5, 7, rank < 4 ? 13 : 2, rank < 3 ? 33 : 4}));
    if (rank == 1 && one_in(4)) base[0] = any<std::int64_t>({52, 97, 256, 1009});
    if (one_in(400) && !program.derivative) {
      base = any<Shape>({{1 << 20}, {1009, 991}, {17, 65537}});
      limit = 2 << 20;
    }
    const std::int64_t inputs = between(1, 4);
    for (std::int64_t i = 0; i < inputs; ++i) add_input();
    if (one_in(3))
      for (const Given given : {Given::scalar, Given::index})
        if (one_in(2)) {
          Input number;
          number.dtype = given == Given::scalar ? DType::f64 : DType::i64;
          number.given = given;
          program.inputs.push_back(number);
        }
    values = make_inputs(program);
    const std::int64_t length = limit > most_elements ? between(1, 3) : between(2, 12);
    for (std::int64_t tries = 0;
         static_cast<std::int64_t>(program.calls.size()) < length && tries < 60 && !program.refused; ++tries)
      step();
    if (program.derivative) {
      bool floating = false;
      for (std::size_t i = program.inputs.size(); i < values.size(); ++i) floating |= values[i].floating();
      if (!floating) program.derivative = 0;
    }
    if (tensor_inputs() > 1 && one_in(4) && !program.derivative) {
      program.states = 2;
      const auto same = [&](std::size_t a, std::size_t b) {
        return values[a]->dtype == values[b]->dtype && values[a]->shape == values[b]->shape;
      };
      program.swap = same(0, 1);
      for (std::size_t i = program.inputs.size(); i < values.size(); ++i)
        if (same(i, 0)) program.written = static_cast<int>(i);
      if (!program.swap && program.written < 0) program.states = 0;
    }
    return program;
  }
};

}  // namespace

Program make_program(std::uint64_t seed) { return Maker(seed).make(); }

std::optional<Program> without(const Program& program, std::size_t position) {
  Program shorter = program;
  const int gone = static_cast<int>(program.inputs.size() + position);
  if (program.written == gone) return std::nullopt;
  const auto renumber = [&](int value) { return value > gone ? value - 1 : value; };
  // Readers take an operand of the call instead, or the first input.
  std::vector<Argument> operands = program.calls[position].arguments;
  operands.push_back({Argument::Kind::value, 0, 0, 0});
  for (const Argument& argument : operands) {
    if (argument.kind != Argument::Kind::value) continue;
    shorter = program;
    shorter.calls.erase(shorter.calls.begin() + static_cast<std::ptrdiff_t>(position));
    const auto replace = [&](int value) { return value == gone ? argument.value : renumber(value); };
    for (Call& call : shorter.calls) {
      for (Argument& read : call.arguments)
        if (read.kind == Argument::Kind::value) read.value = replace(read.value);
      for (std::int64_t& number : call.numbers)
        if (is_size(number)) {
          const std::int64_t code = number - first_size;
          number = size_of(replace(static_cast<int>(code / 8)), static_cast<int>(code % 8));
        }
    }
    shorter.written = renumber(shorter.written);
    return shorter;
  }
  return std::nullopt;
}

}  // namespace oracle
