// What gets memory, and what is computed again where it is read.
#include "schedule/realize.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/schedule/traced.hpp"

using namespace weft;
using test::Traced;

namespace {

// Bytes of the temporaries that are read or written by steps.
std::int64_t temporary_bytes(const Schedule& schedule) {
  std::vector<bool> used(schedule.buffers.size(), false);
  for (const Step& step : schedule.steps)
    for (const int b : step.buffers) used[static_cast<std::size_t>(b)] = true;
  std::int64_t bytes = 0;
  for (std::size_t b = 0; b < used.size(); ++b) {
    const ScheduleBuffer& buffer = schedule.buffers[b];
    if (used[b] && buffer.kind == ScheduleBuffer::Kind::temporary)
      bytes += buffer.elements.constant() * info(buffer.dtype).bits / 8;
  }
  return bytes;
}
constexpr std::int64_t whole = 256 * 256 * 4;  // bytes of a value of most graphs below

}  // namespace

TEST_CASE("what is cheap to compute from what is in memory anyway is computed again, not stored") {
  Traced t;
  const Tensor w = t.f32(256, 256), x = matmul(t.f32(256, 256), w), bias = t.f32(256);
  const Tensor shifted = x + bias, cube = shifted * shifted * 0.044715 * shifted, half = shifted * 0.5;
  const Tensor forward = tanh(cube) * half;
  const Tensor backward = matmul(forward, w) * cube + half * shifted;  // a library step later
  // The two products and what the second of them reads: neither shifted nor cube nor half.
  CHECK(temporary_bytes(t.schedule({backward})) == 3 * whole);
}

TEST_CASE("a slow value that two kernels read is computed once") {
  Traced t;
  const Tensor w = t.f32(256, 256), x = matmul(t.f32(256, 256), w), slow = tanh(x);
  CHECK(temporary_bytes(t.schedule({matmul(slow * 2, w) * slow})) == 4 * whole);
}

TEST_CASE("a mean is stored, and what is centered by it computed again") {
  Traced t;
  const Tensor w = t.f32(256, 256), x = matmul(t.f32(256, 256), w);
  const Tensor centered = x - reshape(sum(x, 1) / 256, {256, 1});
  const Tensor later = matmul(centered * 2, w) * centered;
  CHECK(temporary_bytes(t.schedule({later})) == 3 * whole + 256 * 4);
}

TEST_CASE("a mask is stored rather than computed again from values of four times its bytes") {
  Traced t;
  const Tensor w = t.f32(256, 256), x = matmul(t.f32(256, 256), w) * t.f32(256, 256);
  const Tensor mask = x > 0;
  Schedule schedule = t.schedule({where(mask, matmul(where(mask, x, 0), w), 0)});
  CHECK(std::any_of(schedule.buffers.begin(), schedule.buffers.end(), [](const ScheduleBuffer& buffer) {
    return buffer.kind == ScheduleBuffer::Kind::temporary && buffer.dtype == DType::boolean;
  }));
}

TEST_CASE("values of symbolic sizes are weighed at their hints") {
  const auto stored = [](std::int64_t rows) {
    Traced t;
    const Dim n = t.symbol(rows);
    const Tensor w = t.f32(256, 256), x = matmul(t.input(DType::f32, Shape::of(n, 256)), w), bias = t.f32(256);
    const Schedule schedule = t.schedule({matmul(tanh(x + bias), w) * (x + bias)});
    std::int64_t count = 0;
    for (const ScheduleBuffer& buffer : schedule.buffers) count += buffer.kind == ScheduleBuffer::Kind::temporary;
    return count;
  };
  CHECK(stored(256) == 3);  // two products, and tanh of the first
}

TEST_CASE("a slow value of which little is read is computed where it is read") {
  Traced t;
  const Tensor x = matmul(t.f32(256, 256), t.f32(256, 256)), slow = tanh(x);
  CHECK(temporary_bytes(t.schedule({slice(slow, 0, 0, 4), slice(slow, 0, 8, 12), slice(slow, 0, -4)})) == whole);
}

// Each shifted reading of a value computes it at another index: level by level twice as often.
TEST_CASE("what is computed again through slices and pads stays small") {
  Traced t;
  Tensor sliced = t.f32(4096), padded = t.f32(4096);
  for (int level = 0; level < 12; ++level) {
    const Dim n = sliced.size(0);
    sliced = slice(sliced, 0, 1, n) * slice(sliced, 0, 0, n - Dim(1));
    padded = pad(slice(padded, 0, 1, 4096), 0, 0, 1) + pad(slice(padded, 0, 0, 4095), 0, 1, 0) * 2;
  }
  for (const Tensor& result : {sliced, padded}) {
    const Schedule schedule = t.schedule({result});
    for (const Step& step : schedule.steps)
      if (step.payload->kernel()) CHECK(step.payload->kernel()->body.size() < 300);
  }
}

TEST_CASE("what a view is made of is in memory for a kernel that runs before the view is copied to a result") {
  Traced t;
  const Tensor x = t.f32(256, 256), y = t.f32(256, 256);
  const Tensor rows = expand(sum(y, 1, true), {256, 256}), largest = amax(x, Axes(), true);
  const Tensor columns = expand(prod(expand(largest, {256, 256}) + 1, 0, true), {256, 256});
  CHECK(temporary_bytes(t.schedule({sum(rows), x + 1, rows})) == 256 * 4);
  CHECK(temporary_bytes(t.schedule({sum(rows), rows, matmul(transpose(rows), x)})) >= 256 * 4);
  CHECK(temporary_bytes(t.schedule({expand(largest, {256, 256}), columns, sum(columns)})) >= 256 * 4);
}
