// Boost.Hana's structs are Weft's, and the other way round.
#include "weft/hana.hpp"

#include <doctest/doctest.h>

#include <boost/hana/equal.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/keys.hpp>
#include <boost/hana/members.hpp>
#include <boost/hana/not_equal.hpp>
#include <string>

#include "tests/trace/support.hpp"
#include "weft/nn.hpp"

using namespace weft;
namespace hana = boost::hana;

namespace foreign {
struct Linear {
  Param weight;
  Param bias;
  int hidden_from_hana = 3;
};
}  // namespace foreign
BOOST_HANA_ADAPT_STRUCT(foreign::Linear, weight, bias);

namespace {
struct Defined {
  BOOST_HANA_DEFINE_STRUCT(Defined, (foreign::Linear, in), (Tensor, scale));
};
struct Derived : Defined {
  Tensor dropped;
};
struct Listed {
  Param weight;
  int depth = 2;
  WEFT_MEMBERS(weight, depth)
};

template <class T>
std::string names_of() {
  std::string text;
  for (int i = 0; i < members<T>::count; ++i)
    text += std::string(members<T>::names[i].text, members<T>::names[i].size) + " ";
  return text;
}
}  // namespace

TEST_CASE("parameters are named by Hana's names") {
  Defined d{{trace_test::vector_of({2, 3}), trace_test::vector_of({1})}, {}};
  std::string names;
  for (const nn::NamedParameter<>& parameter : nn::parameters(d)) names += std::string(parameter.name) + " ";
  CHECK(names == "in.weight in.bias ");
}

TEST_CASE("adapted and defined structs are reflected as they are declared") {
  CHECK(names_of<foreign::Linear>() == "weight bias ");
  CHECK(names_of<Defined>() == "in scale ");
  static_assert(!detail::Flattenable<Derived>);
  auto f = compile([](Defined& d, const Tensor& x) {
    d.in.weight = d.in.weight * x;
    return d.in.weight + d.scale;
  });
  Defined d{{trace_test::vector_of({2, 3}), {}}, trace_test::vector_of({1, 1})};
  CHECK(trace_test::numbers_of(f(d, trace_test::vector_of({2, 2}))) == trace_test::Numbers{5, 7});
  CHECK(trace_test::numbers_of(d.in.weight) == trace_test::Numbers{4, 6});
}

TEST_CASE("hana's algorithms work on listed structs") {
  static_assert(hana::Struct<Listed>::value);
  CHECK(std::string(hana::keys(Listed())[hana::size_c<1>].c_str()) == "depth");
  CHECK(hana::members(Listed())[hana::size_c<1>] == 2);
  std::string names;
  hana::for_each(hana::accessors<Listed>(),
                 [&](const auto& accessor) { names += hana::first(accessor).c_str() + std::string(" "); });
  CHECK(names == "weight depth ");
  Listed listed;
  hana::second(hana::accessors<Listed>()[hana::size_c<1>])(listed) = 5;
  CHECK(listed.depth == 5);
}
