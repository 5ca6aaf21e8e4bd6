// Attributes: what is done to every struct over its table of fields, among them one as large as a convolution's.
#include "ir/attributes.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "ir/node.hpp"

using namespace weft;

namespace {

// One field of every kind, and more than a node has room for.
struct Everything {
  List<std::int64_t> strides = {}, dilation = {};
  List<Dim> before = {};
  AxisList order = {};
  AxisSet over = {};
  std::int64_t groups = 1;
  double scale = 1;
  bool transposed = false;
  std::uint8_t axis = no_axis;
  DType accumulator = DType::f32;
  Dim size = 0;
  InternedText name = {};
  NumberBits fill = {};
  static constexpr auto fields() {
    return std::array{field<&Everything::strides>("strides"), field<&Everything::dilation>("dilation"),
                      field<&Everything::before>("before"),   field<&Everything::order>("order"),
                      field<&Everything::over>("over"),       field<&Everything::groups>("groups"),
                      field<&Everything::scale>("scale"),     field<&Everything::transposed>("transposed"),
                      field<&Everything::axis>("axis"),       field<&Everything::accumulator>("accumulator"),
                      field<&Everything::size>("size"),       field<&Everything::name>("name"),
                      field<&Everything::fill>("fill")};
  }
};

Everything example() {
  Everything all;
  all.strides.push_back(2), all.strides.push_back(-1);
  all.before.push_back(dims::symbol(0) * Dim(2)), all.before.push_back(3);
  all.order.push_back(1), all.order.push_back(0);
  all.over.insert(2);
  all.dilation.push_back(1);
  all.groups = 4;
  all.scale = 0.1;
  all.transposed = true;
  all.axis = 0;
  all.accumulator = DType::f64;
  all.size = dims::symbol(1);
  all.name = {intern_text("a \"name\"")};
  all.fill = Constant::number(DType::f32, -0.0).bits;
  return all;
}

std::vector<std::uint64_t> words(const Attributes& attributes) {
  std::vector<std::uint64_t> result;
  attributes.each_word([&](std::uint64_t word) { result.push_back(word); });
  return result;
}

}  // namespace

TEST_CASE("attributes: every kind of field is copied, compared, hashed, printed, and has its sizes substituted") {
  const Attributes all = example();
  CHECK(all.to_text(DType::f32) ==
        "strides [2,-1], dilation [1], before [2*s0,3], order [1,0], over [2], groups 4, scale 0.1, transposed true, "
        "axis 0, "
        "accumulator f64, size s1, name \"a \\\"name\\\"\", fill -0");
  Attributes copy = all, other = Slice{0, 1, 2};
  CHECK(copy == all);
  CHECK(words(copy) == words(all));
  CHECK(copy.as<Everything>().strides[1] == -1);
  CHECK_FALSE(other == all);
  other = copy;  // from a small struct to a large one, and back
  CHECK(other == all);
  other = Slice{0, 1, 2};
  CHECK(other.as<Slice>().step == 2);
  const Attributes known = all.with_sizes([](Dim size) { return size.is_constant() ? size : Dim(7); });
  CHECK(known.as<Everything>().before[0].same(Dim(7)));
  CHECK(known.as<Everything>().before[1].same(Dim(3)));
  CHECK(known.as<Everything>().size.same(Dim(7)));
  CHECK(all.as<Everything>().size.same(dims::symbol(1)));
}

TEST_CASE("attributes: a change of any field makes others") {
  Everything fields = example();
  fields.transposed = false;
  const Attributes all = fields;
  for (const Field& field : all.type().fields) {
    Attributes changed = all;
    ++*static_cast<unsigned char*>(changed.place(field));
    INFO(field.name);
    CHECK_FALSE(changed == all);
    CHECK(words(changed) != words(all));
  }
}

TEST_CASE("attributes: numbers compare by their bits") {
  auto number = [](double value) { return Attributes(Constant::number(DType::f64, value)); };
  CHECK_FALSE(number(0.0) == number(-0.0));
  CHECK(number(NAN) == number(NAN));
  CHECK_FALSE(number(NAN) == number(-NAN));
  CHECK(number(NAN).to_text(DType::f64) == "nan");
  Constant payload;
  payload.bits.word = 0x7ff8000000000001;
  CHECK(Attributes(payload).to_text(DType::f64) == "0x7ff8000000000001");
}

TEST_CASE("attributes: fields at their default are left out, though never all of them") {
  CHECK(Attributes(Slice{0, 0, 1}).to_text(DType::f32) == "axis 0");
  CHECK(Attributes(Slice{1, 2, -1}).to_text(DType::f32) == "axis 1, start 2, step -1");
  CHECK(Attributes(Constant{}).to_text(DType::f32) == "0");
  CHECK(Attributes(Constant{{}, dims::symbol(0)}).to_text(DType::i64) == "size s0");
  CHECK(Attributes(Reduce{}).to_text(DType::f32) == "axes []");
  CHECK(Attributes().to_text(DType::f32).empty());
}

TEST_CASE("attributes: reading another struct is refused") {
  CHECK_THROWS_WITH_AS(Attributes(Along{0}).as<Slice>(),
                       doctest::Contains("attributes (axis) are read as others (axis, start, step)"), InternalError);
}
