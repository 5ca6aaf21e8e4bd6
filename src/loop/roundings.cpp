#include "loop/roundings.hpp"

#include <algorithm>
#include <utility>

namespace weft::loop {

bool is_half(DType dtype) { return is_floating(dtype) && info(dtype).bits == 16; }
namespace {

class Elision {
 public:
  explicit Elision(const Kernel& before) : before_(before), after_(before), places_(before.body.size()) {
    after_.body.clear();
  }

  Kernel run() {
    for (std::size_t i = 0; i < before_.body.size(); ++i) put(before_.body[i], places_[i]);
    settle(after_);
    return std::move(after_);
  }

  std::vector<int> left_out() const {
    std::vector<int> numbers;
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (places_[i].rounds && places_[i].rounded < 0) numbers.push_back(static_cast<int>(i));
    return numbers;
  }

 private:
  // The new numbers of a value of the old kernel: rounded, and unrounded in f32. -1: there is none.
  struct Place {
    std::int32_t rounded = -1, wide = -1;
    DType dtype = DType::f32;
    bool rounds = false;  // the value before was the result of a rounding
  };

  std::int32_t emit(const Instruction& it) {
    after_.body.push_back(it);
    return static_cast<std::int32_t>(after_.body.size()) - 1;
  }
  std::int32_t cast(std::int32_t value, DType dtype) {
    Instruction it;
    it.kind = Kind::cast;
    it.dtype = dtype;
    it.args[0] = value;
    return emit(it);
  }
  std::int32_t rounded(std::int32_t number) {
    Place& place = places_[static_cast<std::size_t>(number)];
    if (place.rounded < 0) place.rounded = cast(place.wide, place.dtype);
    return place.rounded;
  }
  std::int32_t wide(std::int32_t number) {
    Place& place = places_[static_cast<std::size_t>(number)];
    if (place.wide < 0) place.wide = cast(place.rounded, DType::f32);
    return place.wide;
  }

  void put(Instruction it, Place& place) {
    place.dtype = it.dtype;
    const std::int32_t from = it.args[0];
    const DType given = from < 0 ? it.dtype : before_.body[static_cast<std::size_t>(from)].dtype;
    const bool is_cast = it.kind == Kind::cast && is_floating(given);
    if (is_cast && given == it.dtype) {  // of a value that has memory
      place.rounded = rounded(from);
      return;
    }
    if (is_cast && is_half(given) && it.dtype == DType::f32) {
      place.rounded = wide(from);
      return;
    }
    if (is_cast && given == DType::f32 && is_half(it.dtype)) {
      place.wide = rounded(from);
      place.rounds = true;
      return;
    }
    const bool goes_wide = it.kind == Kind::apply && is_half(it.dtype);
    for (std::int32_t& arg : it.args) {
      if (arg < 0) continue;
      const bool is_float = is_half(before_.body[static_cast<std::size_t>(arg)].dtype);
      arg = goes_wide && is_float ? wide(arg) : rounded(arg);
    }
    it.index = dims::substitute(it.index, [&](const DimNode* atom) {
      return atom->kind == DimKind::value ? dims::value(rounded(static_cast<std::int32_t>(atom->number)), atom->extent)
                                          : Dim::from_node(atom);
    });
    if (!goes_wide) {
      place.rounded = emit(it);
      return;
    }
    it.dtype = DType::f32;
    place.wide = emit(it);
    place.rounds = info(it.op).rounding != Rounding::exact;
  }

  const Kernel& before_;
  Kernel after_;
  std::vector<Place> places_;
};

}  // namespace

std::vector<int> elide_roundings(Kernel& kernel) {
  const auto is_half_apply = [](const Instruction& it) {
    return (it.kind == Kind::apply || it.kind == Kind::cast) && is_half(it.dtype);
  };
  if (std::ranges::none_of(kernel.body, is_half_apply)) return {};
  Elision elision(kernel);
  Kernel after = elision.run();
  kernel = std::move(after);
  return elision.left_out();
}

}  // namespace weft::loop
