// The loops of a kernel, as a tree in text: which loops enclose what, on the host and on a device.
#include "loop/nest.hpp"

#include <doctest/doctest.h>

#include "loop/device_team.hpp"
#include "loop/narrow.hpp"
#include "loop/parse.hpp"
#include "loop/stages.hpp"
#include "tests/loop/texts.hpp"

using namespace weft;

namespace {

constexpr const char* rows_and_columns = R"(both(f32 p0[102400], out f32 p1[1024], out f32 p2[100])
  outer i0<1024 inner i1<100 vector
  inner0 v0 f32 = p0[100*i0 + i1]
  outer1 v1 f32 = reduce_sum(v0)
  inner0 v2 f32 = reduce_sum_of_rows(v0)
  outer1 p1[i0] = v1
  inner0 p2[i1] = v2
)";

std::string on_host(const loop::Kernel& kernel) { return loop::to_text(kernel, loop::host_nest(kernel)); }
std::string on_device(const loop::Kernel& kernel) { return loop::to_text(kernel, loop::device_nest(kernel)); }

}  // namespace

TEST_CASE("softmax: a walk for each reduction, the exponentials are kept between walks") {
  CHECK(on_host(loop::parse_kernel(test::softmax_text)) == R"(  shared v3 i1
  pool i0
    start v1
    lanes i1
      value v0
      accumulate v1
    close v1
    result v1
    start v4
    lanes i1
      value v0
      value v2
      value v3
      keep v3
      accumulate v4
    close v4
    result v4
    lanes i1
      recall v3
      value v5
      store v6
)");
  CHECK(on_device(loop::parse_kernel(test::softmax_text)) == R"(  registers v0 i1
  registers v3 i1
  grid i0
    start v1
    team i1 by 4
      lanes i1
        value v0
        keep v0
        accumulate v1
      close v1
    join v1
    result v1
    start v4
    team i1 by 4
      lanes i1
        recall v0
        value v2
        value v3
        keep v3
        accumulate v4
      close v4
    join v4
    result v4
    team i1 by 4
      lanes i1
        recall v3
        value v5
        store v6
)");
}

TEST_CASE("on a device what lies across the lanes passes through a tile in shared memory") {
  CHECK(on_device(loop::parse_kernel(R"(turned(f32 p0[77000], f32 p1[77000], out f32 p2[77000], out f32 p3[77000])
  outer i0<7 outer i1<100 outer i2<110 vector
  outer0 v0 f32 = p0[11000*i0 + 100*i2 + i1]
  outer0 v1 f32 = p1[11000*i0 + 110*i1 + i2]
  outer0 v2 f32 = add(v0, v1)
  outer0 p2[11000*i0 + 110*i1 + i2] = v2
  outer0 p3[11000*i0 + 100*i2 + i1] = v2
)")) == R"(  shared v0 i1 by 64 i2 by 64
  shared v2 i1 by 64 i2 by 64
  grid i0 i1 by 64 i2 by 64
    team i2 by 64 i1 by 64
      lanes i1
        value v0
        keep v0
    barrier
    team i1 by 64 i2 by 64
      lanes i2
        recall v0
        value v1
        value v2
        store v3
        keep v2
    barrier
    team i2 by 64 i1 by 64
      lanes i1
        recall v2
        store v4
    barrier
)");
  // Few columns, or a place that a value decides, do not.
  const loop::Nest few = loop::device_nest(loop::parse_kernel(R"(few(f32 p0[300], out f32 p1[300])
  outer i0<100 outer i1<3 vector
  outer0 v0 f32 = p0[100*i1 + i0]
  outer0 p1[3*i0 + i1] = v0
)"));
  CHECK(few.locals.empty());
  const loop::Nest decided =
      loop::device_nest(loop::parse_kernel(R"(decided(i64 p0[100], f32 p1[11000], out f32 p2[11000])
  outer i0<100 outer i1<110 vector
  once 0 v0 i64 = p0[0] below 9
  outer0 v1 f32 = p1[100*i1 + i0 + v0]
  outer0 p2[110*i0 + i1] = v1
)"));
  CHECK(decided.locals.empty());
}

TEST_CASE("a scan: in order on the lanes of the host, joined among a device's threads pack by pack") {
  const loop::Kernel kernel = loop::parse_kernel(R"(scanned(f32 p0[9000], out f32 p1[9000])
  outer i0<3 inner i1<3000 vector
  inner0 v0 f32 = p0[3000*i0 + i1]
  inner0 v1 f32 = scan_sum(v0)
  inner0 v2 f32 = add(v0, v1)
  inner0 p1[3000*i0 + i1] = v2
)");
  CHECK(on_host(kernel) == R"(  pool i0
    start v1
    lanes i1
      value v0
      value v1
      value v2
      store v3
)");
  CHECK(on_device(kernel) == R"(  grid i0
    start v1
    team i1 by 4
      lanes i1
        value v0
        accumulate v1
      join v1
      lanes i1
        value v0
        value v1
        value v2
        store v3
)");
}

TEST_CASE("on a device a long row is fetched, but not from a place that a value decides") {
  const auto fetched = [](const std::string& place) {
    const loop::Nest nest =
        loop::device_nest(loop::parse_kernel("rows(bf16 p0[4096000], i64 p1[100], out f32 p2[100])\n"
                                             "  outer i0<100 inner i1<40960 vector\n"
                                             "  outer0 v0 i64 = p1[i0] below 100\n"
                                             "  inner0 v1 bf16 = p0[" +
                                             place + "]\n" + R"(  inner0 v2 f32 = cast(v1)
  outer1 v3 f32 = reduce_amax(v2)
  inner1 v4 f32 = sub(v2, v3)
  inner1 v5 f32 = exp(v4)
  outer2 v6 f32 = reduce_sum(v5)
  outer2 p2[i0] = v6
)"));
    CHECK(nest.team.shared == (nest.locals.empty() ? 0 : 40960 * 2));
    return nest.locals.empty() ? -1 : nest.locals[0].instruction;
  };
  CHECK(fetched("40960*i0 + i1") == 1);
  CHECK(fetched("40960*v0 + i1") == -1);
}

TEST_CASE("on a device threads hold the values of the first packs of a fetched row") {
  const loop::Nest nest = loop::device_nest(loop::parse_kernel(R"(long_rows(bf16 p0[4024320], out bf16 p1[4024320])
  outer i0<80 inner i1<50304 vector
  inner0 v0 bf16 = p0[50304*i0 + i1]
  inner0 v1 f32 = cast(v0)
  outer1 v2 f32 = reduce_amax(v1)
  inner1 v3 f32 = sub(v1, v2)
  inner1 v4 f32 = exp(v3)
  outer2 v5 f32 = reduce_sum(v4)
  inner2 v6 f32 = div(v4, v5)
  inner2 v7 bf16 = cast(v6)
  inner2 p1[50304*i0 + i1] = v7
)"));
  CHECK(nest.team.held > 0);
  CHECK(nest.team.held * nest.team.members < 50304 / 8);
  REQUIRE(nest.locals.size() == 2);
  CHECK(nest.locals[0].instruction == 4);
  CHECK(nest.locals[1].fetched);
  std::vector<std::string> walks;  // how v4 is had in each loop over packs
  for (const loop::Statement& it : nest.body[0].body) {
    if (it.kind != loop::Statement::Kind::loop) continue;
    std::string how = it.role == loop::Role::held ? "held:" : "others:";
    for (const loop::Statement& each : it.body[0].body)
      if (each.instruction == 4 && each.kind != loop::Statement::Kind::accumulate)
        how += each.kind == loop::Statement::Kind::value    ? " computed"
               : each.kind == loop::Statement::Kind::keep   ? " kept"
               : each.kind == loop::Statement::Kind::recall ? " recalled"
                                                            : " ?";
    walks.push_back(how);
  }
  const std::vector<std::string> wanted = {
      "held:", "others:", "held: computed kept", "others: computed", "held: recalled", "others: computed"};
  CHECK(walks == wanted);
}

TEST_CASE("rows and columns: a unit walks a chunk of rows and holds their columns") {
  const loop::Stages stages = loop::cut_columns(loop::parse_kernel(rows_and_columns), 64);
  REQUIRE(stages.kernels.size() == 2);
  CHECK(on_host(stages.kernels[0]) == R"(  pool i0
    start v2
    serial i1
      start v1
      lanes i2
        value v0
        accumulate v1
        open v2
        accumulate v2
        put v2
      close v1
      result v1
      store v3
    lanes i2
      result v2
      store v4
)");
  CHECK(on_device(stages.kernels[0]) == R"(  grid i0
    start v2
    serial i1
      start v1
      team i2 by 4
        lanes i2
          value v0
          accumulate v1
          accumulate v2
        close v1
      join v1
      result v1
      store v3
    team i2 by 4
      lanes i2
        result v2
        store v4
)");
  CHECK(on_host(stages.kernels[1]) == R"(  pool
    lanes i0
      start v1
      serial i1
        value v0
        accumulate v1
      result v1
      store v2
)");
}

TEST_CASE("narrow columns: the lanes are rows and columns together, and each column is finished by itself") {
  loop::Kernel kernel = loop::parse_kernel(R"(narrow(f32 p0[12000], f32 p1[3], f32 p2[4000], out f32 p3[12])
  outer i0<4 outer i1<3 vector inner i2<1000
  inner0 v0 f32 = p0[3000*i0 + 3*i2 + i1]
  outer0 v1 f32 = p1[i1]
  inner0 v2 f32 = p2[1000*i0 + i2]
  inner0 v3 f32 = mul(v0, v2)
  inner0 v4 f32 = add(v3, v1)
  outer1 v5 f32 = reduce_sum(v4)
  outer1 v6 f32 = add(v5, v1)
  outer1 p3[3*i0 + i1] = v6
)");
  const loop::Kernel before = kernel;
  loop::narrow_columns_on_lanes(kernel);
  loop::verify(kernel);
  CHECK(loop::to_text(kernel) == R"(narrow(f32 p0[12000], f32 p1[3], f32 p2[4000], out f32 p3[12])
  outer i0<4 narrow i1<3 inner i2<3000 vector
  inner0 v0 f32 = p0[3000*i0 + i2]
  inner0 v1 f32 = p1[((i2) % (3))]
  outer0 v2 f32 = p1[i1]
  inner0 v3 f32 = p2[1000*i0 + ((i2) / (3))]
  inner0 v4 f32 = mul(v0, v3)
  inner0 v5 f32 = add(v4, v1)
  outer1 v6 f32 = reduce_sum(v5)
  outer1 v7 f32 = add(v6, v2)
  outer1 p3[3*i0 + i1] = v7
)");
  CHECK(loop::to_text(loop::parse_kernel(loop::to_text(kernel))) == loop::to_text(kernel));
  CHECK(loop::unit_count(kernel).same(Dim(4)));
  CHECK(loop::cost(kernel).operations.same(loop::cost(before).operations));
  CHECK(on_host(kernel) == R"(  pool i0
    start v6
    lanes i2
      value v0
      value v1
      value v3
      value v4
      value v5
      accumulate v6
    close v6
    serial i1
      value v2
      result v6
      value v7
      store v8
)");
}

TEST_CASE("narrow columns: a kernel that walks its rows again stays as it is") {
  loop::Kernel kernel = loop::parse_kernel(R"(again(f32 p0[12000], out f32 p1[12000])
  outer i0<4 outer i1<3 vector inner i2<1000
  inner0 v0 f32 = p0[3000*i0 + 3*i2 + i1]
  outer1 v1 f32 = reduce_amax(v0)
  inner1 v2 f32 = sub(v0, v1)
  inner1 p1[3000*i0 + 3*i2 + i1] = v2
)");
  const std::string before = loop::to_text(kernel);
  loop::narrow_columns_on_lanes(kernel);
  CHECK(loop::to_text(kernel) == before);
}

TEST_CASE("indices of a device are as narrow as they can be: a quotient is smaller than what is divided") {
  const auto fits = [](const char* quotient, const char* axis) {
    const std::string text = std::string("k(f32 p0[12582912], out f32 p1[12582912])\n  outer i0<16384 outer i1<") +
                             axis + " vector\n  outer0 v0 f32 = p0[" + quotient + "]\n  outer0 p1[768*i0 + i1] = v0\n";
    return loop::fits_32_bits(loop::parse_kernel(text));
  };
  CHECK(fits("786432*floor_divide(i0, 1024) + i1 + 768*modulo(i0, 1024)", "768"));
  CHECK_FALSE(fits("786432*floor_divide(i0, 4) + i1", "768"));
  CHECK_FALSE(fits("floor_divide(100000*i0, 1000003) + i1", "768"));  // the dividend does not fit
}
