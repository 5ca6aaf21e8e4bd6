// Pipelines: what comes out, in which order, by how many threads, and what is refused.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <range/v3/view/take.hpp>
#include <range/v3/view/transform.hpp>
#include <ranges>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include "data/support.hpp"
#include "tests/runtime/support.hpp"
#include "weft/data.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace {

using test::error_of, test::holds;

using data::augment, data::batch, data::drop, data::map, data::prefetch, data::shuffle, data::take;

std::vector<std::int64_t> integers(const Tensor& tensor) {
  View<const std::int64_t> view = tensor.data<std::int64_t>();
  return {view.begin(), view.end()};
}
// The labels of all elements of a pass, one after the other.
template <class P>
std::vector<std::int64_t> labels(const P& pipeline) {
  std::vector<std::int64_t> all;
  for (auto [x, y] : pipeline)
    for (std::int64_t label : integers(y)) all.push_back(label);
  return all;
}
data::Dataset numbered(std::int64_t rows) {
  Tensor y = arange(rows);
  return {cast(reshape(y, {rows, 1}), DType::f32) + from_list<float>({0, 0.5}), y};
}
std::vector<std::int64_t> counting(std::int64_t count) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(i);
  return result;
}
// Those of the process; threads of libraries are among them.
std::ptrdiff_t thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}
// Linux lists a thread for a moment after a join of it has returned.
bool thread_count_becomes(std::ptrdiff_t expected) {
  for (int i = 0; i < 5000 && thread_count() != expected; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return thread_count() == expected;
}

TEST_CASE("every row once, with its label, in an order of the generator's") {
  Generator generator(1), same(1);
  const auto pipeline = [](Generator& from) { return numbered(10) | shuffle(from) | batch(3, {.drop_last = true}); };
  const auto train = pipeline(generator), again = pipeline(same);
  CHECK(train.size() == 3);
  std::vector<std::int64_t> first;
  for (auto [x, y] : train) {
    CHECK(x.shape().same(Shape::of(3, 2)));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(x.data<float>()[2 * i] == static_cast<float>(integers(y)[i]));
      CHECK(x.data<float>()[2 * i + 1] == static_cast<float>(integers(y)[i]) + 0.5f);
    }
    for (std::int64_t label : integers(y)) first.push_back(label);
  }
  CHECK(first.size() == 9);
  CHECK(std::set<std::int64_t>(first.begin(), first.end()).size() == 9);
  CHECK(labels(again) == first);
  const std::vector<std::int64_t> second = labels(train);
  CHECK(second != first);  // the next pass has another order
  CHECK(labels(again) == second);
}

TEST_CASE("the last batch, views, parts and positions") {
  std::vector<Dim> sizes;
  for (auto [x, y] : numbered(10) | batch(4)) sizes.push_back(y.size(0));
  CHECK(sizes.size() == 3);
  CHECK(sizes[2].same(Dim(2)));
  CHECK(labels(numbered(10) | batch(4)) == counting(10));
  CHECK((numbered(3) | batch(4, {.drop_last = true})).size() == 0);
  CHECK((numbered(3) | batch(4)).size() == 1);
  const data::Dataset odd = {slice(numbered(10).x, 0, 1, 10, 2), slice(arange(10), 0, 1, 10, 2)};
  CHECK(labels(odd | batch(5)) == std::vector<std::int64_t>{1, 3, 5, 7, 9});
  CHECK(labels(numbered(10) | take(4) | batch(3)) == counting(4));
  CHECK(labels(numbered(10) | drop(7) | batch(2)) == std::vector<std::int64_t>{7, 8, 9});
  CHECK((numbered(10) | drop(11)).size() == 0);
  // A run that stopped after two batches goes on after them.
  Generator generator(3), resumed(3);
  const std::vector<std::int64_t> whole = labels(numbered(10) | shuffle(generator) | batch(2));
  const std::vector<std::int64_t> rest = labels(numbered(10) | shuffle(resumed) | batch(2) | drop(2) | prefetch(2));
  CHECK(rest == std::vector<std::int64_t>(whole.begin() + 4, whole.end()));
}

struct Nested {
  Tensor image;
  struct {
    std::vector<Tensor> boxes;
    Tensor absent;
  } target;
};

TEST_CASE("elements of many kinds become batches") {
  std::vector<Nested> samples;
  for (int i = 0; i < 3; ++i) samples.push_back({full({2}, i), {{arange(3) + i, full({}, i)}, {}}});
  for (auto& [image, target] : samples | batch(3)) {
    CHECK(image.shape().same(Shape::of(3, 2)));
    CHECK(target.boxes[0].shape().same(Shape::of(3, 3)));
    CHECK(integers(target.boxes[0]) == std::vector<std::int64_t>{0, 1, 2, 1, 2, 3, 2, 3, 4});
    CHECK(target.boxes[1].shape().same(Shape::of(3)));
    CHECK(!target.absent.defined());
  }
  for (auto [name, label] :
       std::vector<std::pair<Tensor, std::int64_t>>{{full({2}, 1), 4}, {full({2}, 2), 5}} | batch(2)) {
    CHECK(name.shape().same(Shape::of(2, 2)));
    CHECK(integers(label) == std::vector<std::int64_t>{4, 5});
  }
  for (const Tensor& numbers : std::vector<float>{1, 2, 3} | batch(3)) CHECK(numbers.dtype() == DType::f32);
  for (const auto& texts : std::vector<std::string>{"a", "b"} | batch(2))
    CHECK(texts == std::vector<std::string>{"a", "b"});
  // Texts in tuples too, also where they are all the same, and in a tuple of a tuple.
  using Named = std::pair<Tensor, std::string>;
  for (auto [x, names] : std::vector<Named>{{full({2}, 1), "a"}, {full({2}, 2), "a"}, {full({2}, 3), "b"}} | batch(2)) {
    static_assert(std::is_same_v<decltype(names), std::vector<std::string>>);
    const std::int64_t count(x.size(0));
    CHECK(names == (count == 2 ? std::vector<std::string>{"a", "a"} : std::vector<std::string>{"b"}));
  }
  using Deep = std::tuple<std::tuple<std::string, int>, std::map<std::string, Tensor>, std::string>;
  const std::vector<Deep> deep = {{{"a", 1}, {{"x", ones({2})}}, "c"}, {{"b", 2}, {{"x", zeros({2})}}, "d"}};
  for (auto [inner, map, texts] : deep | prefetch(1) | batch(2) | data::to(Device::cpu())) {
    CHECK(std::get<0>(inner) == std::vector<std::string>{"a", "b"});
    CHECK(std::get<1>(inner).shape().same(Shape::of(2)));
    CHECK(map.at("x").shape().same(Shape::of(2, 2)));
    CHECK(texts == std::vector<std::string>{"c", "d"});
  }
  for (const Tensor& rows : arange(6) | batch(4) | take(1)) CHECK(integers(rows) == counting(4));
  for (const auto& [a, b] : std::tuple(arange(2), arange(2) * 2) | drop(1)) {
    CHECK(a.shape().rank() == 0);
    CHECK(b.item<int>() == 2);
  }
  std::vector<Tensor> empty_rows(2, ones({0, 3}));
  for (const Tensor& rows : empty_rows | batch(2)) CHECK(rows.shape().same(Shape::of(2, 0, 3)));
}

// Numbers 0, 1, ... that count how often they were copied.
struct Copied {
  std::vector<std::int64_t> numbers;
  int copies = 0;
  explicit Copied(std::int64_t count) : numbers(counting(count)) {}
  Copied(const Copied& other) : numbers(other.numbers), copies(other.copies + 1) {}
  Copied(Copied&&) = default;
  std::size_t size() const { return numbers.size(); }
  std::int64_t operator[](std::size_t i) const { return numbers[i] + 100 * copies; }
};
struct MoveOnly : Copied {
  using Copied::Copied;
  MoveOnly(MoveOnly&&) = default;
};

TEST_CASE("a pipeline owns its source, unless that is given by std::ref") {
  const auto first = [](const auto& pipeline) { return *pipeline.begin(); };
  const auto made = [](std::int64_t count) {
    const std::vector<std::int64_t> local = counting(count);
    return local | batch(8) | prefetch(2);
  };
  const auto returned = made(8);
  const std::vector<std::int64_t> elsewhere(8, -1);  // likely where the elements of `local` were
  CHECK(integers(first(returned)) == counting(8));

  std::vector<std::int64_t> source = counting(4);
  const auto own = source | batch(4), referring = std::ref(source) | batch(4);
  const auto to_const = std::cref(source) | batch(4);
  source[0] = 7;
  CHECK(integers(first(own)) == counting(4));
  CHECK(integers(first(referring)) == std::vector<std::int64_t>{7, 1, 2, 3});
  CHECK(integers(first(to_const)) == std::vector<std::int64_t>{7, 1, 2, 3});

  const Copied copied(3);
  const auto once = copied | drop(1) | take(1);
  const auto shared = once;
  CHECK(first(shared) == 101);
  {
    auto living = std::make_shared<int>();
    const std::weak_ptr<int> alive = living;
    {
      std::vector<std::shared_ptr<int>> held = {std::exchange(living, nullptr)};
      const auto one = held | take(1);
      held.clear();
      auto two = std::optional(one | take(1));
      two.reset();
      CHECK(!alive.expired());
    }
    CHECK(alive.expired());  // what a pipeline owned ends with its last copy
  }
  CHECK(first(Copied(3) | drop(1)) == 1);
  CHECK(first(std::ref(copied) | drop(1)) == 1);
  MoveOnly alone(3);
  CHECK(first(std::ref(alone) | drop(2)) == 2);
  const auto moved = std::move(alone) | drop(2);
  CHECK(first(moved) == 2);
  // Tensors and pipelines are cheap to copy: a reference to one is a copy too.
  auto rows = arange(4);
  const auto of_reference = std::ref(rows) | batch(4);
  rows = arange(5);
  CHECK(integers(first(of_reference)) == counting(4));
  CHECK(integers(first(std::ref(of_reference) | take(1))) == counting(4));
  const std::vector<float> none;
  CHECK(holds(error_of([&] { (void)(std::ref(none) | batch(2)); }), "the source has no elements"));
}

TEST_CASE("neither the order nor random numbers depend on threads") {
  const auto noisy = [](data::Dataset row, Generator& generator) {
    return data::Dataset{row.x + normal({2}, 0, 1, generator), row.y};
  };
  const auto slow = [](data::Dataset row) {  // later elements are ready first
    std::this_thread::sleep_for(std::chrono::microseconds(row.y.item<int>() % 3 ? 0 : 500));
    return row;
  };
  const auto drawn = [&](auto&& workers) {
    Generator generator(7);
    const auto train = numbered(24) | shuffle(generator) | augment(noisy, generator) | workers | batch(5);
    std::vector<std::vector<float>> all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto [x, y] : train) all.emplace_back(x.template data<float>().begin(), x.template data<float>().end());
    return all;
  };
  const auto expected = drawn(map(slow));
  CHECK(expected.size() == 10);
  CHECK(expected[0] != expected[5]);
  std::set<float> noise;  // of an element's own generator: label and noise apart
  for (const std::vector<float>& batch : expected)
    for (float value : batch) noise.insert(value - std::round(2 * value) / 2);
  CHECK(noise.size() == 2 * 2 * 24);
  for (int workers : {1, 2, 5}) CHECK(drawn(map(slow, {.workers = workers})) == expected);
  CHECK(drawn(map(slow, {.workers = 3, .ahead = 1})) == expected);
  CHECK(drawn(prefetch(3)) == expected);
}

TEST_CASE("a thread makes elements ahead, and no more than it may") {
  std::atomic<int> made = 0;
  const std::vector<std::int64_t> source = counting(20);
  const auto pipeline = source | map([&](std::int64_t i) {
                          ++made;
                          return i;
                        }) |
                        prefetch(3);
  std::int64_t expected = 0;
  for (std::int64_t got : pipeline) {
    CHECK(got == expected++);
    const auto wanted = std::min<std::int64_t>(got + 4, 20);
    for (int i = 0; i < 5000 && made < wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(made == wanted);
  }
  CHECK(expected == 20);
}

TEST_CASE("threads end with the loop, also where it is left early") {
  const std::ptrdiff_t before = thread_count();
  const std::vector<std::int64_t> source = counting(1000);
  const auto pipeline = source | map([](std::int64_t i) { return i; }, {.workers = 4}) | batch(2) | prefetch(2);
  for (int i = 0; i < 20; ++i) {
    for (const Tensor& each : pipeline) {
      CHECK(thread_count() >= before + 1);
      CHECK(each.size(0).same(Dim(2)));
      break;
    }
    CHECK(thread_count_becomes(before));
  }
  try {
    for (const Tensor& each : pipeline) {
      CHECK(each.defined());
      throw 1;
    }
  } catch (int) {
  }
  CHECK(thread_count_becomes(before));
  { const auto begun = pipeline.begin(); }  // and nothing taken
  CHECK(thread_count_becomes(before));
}

// What a child of the process does must end with exit status 0, within a minute.
template <class F>
void in_child(F f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    f();
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a process may end, or fork, in the middle of a pass") {
  const std::vector<std::int64_t> source = counting(1000);
  const auto slow = [](std::int64_t i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return i;
  };
  const auto pipeline = source | map(slow, {.workers = 3});
  auto begun = pipeline.begin();
  CHECK(*begun == 0);
  ++begun;
  in_child([&] {
    try {
      (void)*begun;
    } catch (const Error& error) {
      begun = {};  // its threads are not there to be waited for
      _exit(holds(error.what(), "the process forked") ? 0 : 2);
    }
  });
#ifndef __SANITIZE_THREAD__  // which starts no threads in a child
  in_child([&] {
    std::int64_t got = 0;
    for (std::int64_t each : pipeline) {
      got += each;
      if (each == 10) std::_Exit(got == 55 ? 0 : 2);
    }
  });
#endif
  CHECK(*begun == 1);
}

TEST_CASE("what a worker throws reaches the loop at its place") {
  const std::vector<std::int64_t> source = counting(10);
  const auto failing = [](std::int64_t i) {
    if (i == 5) throw std::runtime_error("element 5 is broken");
    return i;
  };
  const auto check = [](const auto& pipeline) {
    std::int64_t got = 0;
    std::string text;
    try {
      for (std::int64_t each : pipeline) got += each == got;
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    CHECK(got == 5);
    CHECK(text == "element 5 is broken");
  };
  check(source | map(failing));
  check(source | map(failing, {.workers = 3}));
  check(source | map(failing) | prefetch(4));
  check(source | map(failing, {.workers = 3}) | prefetch(2) | map([](std::int64_t i) { return i; }));
}

TEST_CASE("who catches an error of a thread and asks again gets it again, neither another element nor none") {
  const std::vector<std::int64_t> source = counting(10);
  for (const std::int64_t broken : {0, 5, 9}) {
    CAPTURE(broken);
    const auto failing = [broken](std::int64_t i) {
      if (i == broken) throw std::runtime_error("broken");
      return i;
    };
    const auto pipeline = source | map(failing, {.workers = 3}) | map([](std::int64_t i) { return i; });
    auto it = pipeline.begin();
    for (std::int64_t i = 0; i < broken; ++i, ++it) CHECK(*it == i);
    for (int times = 0; times < 3; ++times) CHECK_THROWS_WITH(*it, "broken");
    CHECK_THROWS_WITH(++it, "broken");
    CHECK_THROWS_WITH(*it, "broken");
  }
}

namespace {
std::int64_t decoded(std::int64_t i) {
  if (i % 4 == 1) throw std::runtime_error("sample " + std::to_string(i) + " is broken");
  return i;
}
template <class P>
std::vector<std::int64_t> numbers_of(const P& pipeline) {
  std::vector<std::int64_t> result;
  for (const Tensor& each : pipeline)
    for (const std::int64_t number : each.template data<std::int64_t>()) result.push_back(number);
  return result;
}
}  // namespace

TEST_CASE("bad samples are skipped and counted, by any number of threads: batches are filled from those that follow") {
  const std::vector<std::int64_t> source = counting(41);  // 1, 5, ..., 37 are bad
  std::vector<std::int64_t> good;
  for (const std::int64_t i : source)
    if (i % 4 != 1) good.push_back(i);
  const test::CaptureLog capture;
  const auto check = [&](const auto& pipeline) {
    CHECK(pipeline.skipped() == 0);
    for (int pass = 0; pass < 2; ++pass) {  // counted anew
      CHECK(numbers_of(pipeline) == good);
      CHECK(pipeline.skipped() == 10);
    }
  };
  for (const int workers : {1, 3, 8}) {
    CAPTURE(workers);
    const auto decode = [&] { return map(decoded, {.workers = workers, .skip_bad = true}); };
    check(source | decode() | batch(4));
    check(source | decode() | batch(4) | prefetch(2));
    check(source | decode() | map([](std::int64_t i) { return i; }) | batch(3) | data::to(Device::cpu()) | prefetch(1));
    CHECK(numbers_of(source | decode() | take(6) | batch(2)) == std::vector<std::int64_t>{0, 2, 3, 4, 6, 7});
    std::vector<std::int64_t> sizes;
    for (const Tensor& each : source | decode() | batch(4)) sizes.push_back(static_cast<std::int64_t>(each.size(0)));
    CHECK(sizes == std::vector<std::int64_t>{4, 4, 4, 4, 4, 4, 4, 3});
    sizes.clear();
    for (const Tensor& each : source | decode() | batch(4, {.drop_last = true}))
      sizes.push_back(static_cast<std::int64_t>(each.size(0)));
    CHECK(sizes == std::vector<std::int64_t>(7, 4));
  }
  check(source | map(decoded) | prefetch(3, {.skip_bad = true}) | batch(4));
  CHECK(capture.count("skip_bad leaves out a sample that throws (sample 1 is broken), at pipeline_test.cpp:") > 0);
  CHECK(capture.count(". Others that throw are left out without a warning; Pipeline::skipped() counts them all") > 0);
}

TEST_CASE("the order of what is not skipped, and what is drawn for it, do not depend on the number of threads") {
  const std::vector<std::int64_t> source = counting(60);
  const auto drawn = [&](int workers) {
    Generator order(3), noise(4);
    const auto noisy = [](std::int64_t i, Generator& own) { return uniform({}, 0, 1, own) + i; };
    std::vector<float> result;
    for (const Tensor& each : source | shuffle(order) | map(decoded, {.workers = workers, .skip_bad = true}) |
                                  augment(noisy, noise) | batch(7))
      for (const float number : each.data<float>()) result.push_back(number);
    return result;
  };
  const std::vector<float> expected = drawn(1);
  CHECK(expected.size() == 45);
  for (const int workers : {2, 5}) CHECK(drawn(workers) == expected);
}

TEST_CASE(
    "what is not skipped: samples of which all are bad, no memory, exceptions that are none, and what is thrown "
    "later") {
  const std::vector<std::int64_t> source = counting(6);
  const auto all = [](std::int64_t i) -> std::int64_t { throw std::runtime_error("bad " + std::to_string(i)); };
  const auto bad = source | map(all, {.workers = 2, .skip_bad = true});
  CHECK(holds(error_of([&] {
                for (std::int64_t each : bad) (void)each;
              }),
              "[data] all 6 samples are bad"));
  CHECK(bad.skipped() == 6);
  const auto none = [](std::int64_t) -> std::int64_t { throw std::bad_alloc(); };
  const auto number = [](std::int64_t) -> std::int64_t { throw 7; };
  CHECK_THROWS_AS(*(source | map(none, {.skip_bad = true})).begin(), std::bad_alloc);
  CHECK_THROWS_AS(*(source | map(number, {.skip_bad = true})).begin(), int);
  const auto later = source | map(decoded, {.skip_bad = true}) |
                     map([](std::int64_t i) { return i == 2 ? throw std::runtime_error("later") : i; });
  auto it = later.begin();
  CHECK(*it == 0);
  ++it;
  for (int times = 0; times < 3; ++times) CHECK_THROWS_WITH(*it, "later");
  CHECK(holds(error_of([&] { (void)(source | map(decoded, {.workers = 2}) | prefetch(2, {.skip_bad = true})); }),
              "[prefetch] skip_bad must be given to the first threads"));
}

TEST_CASE("counts beyond reason: one batch of all, or refused") {
  const std::vector<std::int64_t> source = counting(4);
  CHECK((source | batch(INT64_MAX)).size() == 1);
  CHECK((source | batch(INT64_MAX, {.drop_last = true})).size() == 0);
  for (const Tensor& all : source | batch(INT64_MAX)) CHECK(all.size(0) == Dim(4));
  const auto same = [](std::int64_t i) { return i; };
  CHECK_THROWS_WITH_AS(map(same, {.workers = INT_MAX}), doctest::Contains("at most 1048576 is wanted"), Error);
  CHECK_THROWS_WITH_AS(prefetch(INT_MAX), doctest::Contains("the count is 2147483647, at most"), Error);
}

TEST_CASE("a pipeline is a range of the standard library and of range-v3") {
  const std::vector<std::int64_t> source = counting(6);
  const auto pipeline = source | map([](std::int64_t i) { return i * i; }) | prefetch(2);
  static_assert(std::ranges::input_range<decltype(pipeline)>);
  static_assert(ranges::input_range<decltype(pipeline)>);
  std::vector<std::int64_t> squares;
  for (std::int64_t each : pipeline | ranges::views::take(3)) squares.push_back(each);
  CHECK(squares == std::vector<std::int64_t>{0, 1, 4});
  std::int64_t sum = 0;
  for (std::int64_t each : pipeline | ranges::views::transform([](std::int64_t i) { return i + 1; })) sum += each;
  CHECK(sum == 61);
  // And one of theirs with random access is a source.
  const auto doubled = source | ranges::views::transform([](std::int64_t i) { return 2 * i; });
  for (const Tensor& all : doubled | batch(6)) CHECK(integers(all) == std::vector<std::int64_t>{0, 2, 4, 6, 8, 10});
}

TEST_CASE("to(device) leaves on the host what is there") {
  for (auto [x, y] : numbered(4) | batch(2) | data::to(Device::cpu()) | prefetch(1)) CHECK(y.device() == Device::cpu());
}

TEST_CASE("what does not fit is refused") {
  const data::Dataset dataset = numbered(4);
  const auto lengths = [&] { (void)(data::Dataset{dataset.x, arange(5)} | batch(2)); };
  CHECK(holds(error_of(lengths), "the numbers of rows differ: f32[4,2] and i64[5]"));
  CHECK(holds(error_of([&] { (void)(data::Dataset{dataset.x, full({}, 1)} | batch(2)); }), "a 0-d tensor has no rows"));
  CHECK(holds(error_of([&] { (void)(data::Dataset() | batch(2)); }), "holds no tensor"));
  CHECK(holds(error_of([&] { (void)(ones({0, 2}) | batch(2)); }), "the source has no elements"));
  CHECK(holds(error_of([&] { (void)(std::vector<float>() | batch(2)); }), "the source has no elements"));
  CHECK(holds(error_of([&] { (void)(dataset | batch(0)); }), "[batch] the size of a batch is 0"));
  CHECK(holds(error_of([&] { (void)(dataset | prefetch(0)); }), "[prefetch] the count is 0"));
  const auto workers = [&] { (void)(dataset | map([](data::Dataset row) { return row; }, {.workers = 0})); };
  CHECK(holds(error_of(workers), "[map] workers is 0"));
  const std::vector<Nested> ragged = {{ones({2}), {}}, {ones({3}), {}}};
  const auto shapes = [&] {
    for (const Nested& each : ragged | batch(2)) CHECK(each.image.defined());
  };
  CHECK(
      holds(error_of(shapes), "[batch] elements of a batch differ at image: f32[2] in element 0, f32[3] in element 1"));
  using Keyed = std::map<std::string, Tensor>;
  const auto keys = [] {
    for (const Keyed& each : std::vector<Keyed>{{{"a", ones({2})}}, {{"b", ones({2})}}} | batch(2)) CHECK(each.empty());
  };
  CHECK(holds(error_of(keys), "[batch] elements of a batch differ"));
}

}  // namespace
}  // namespace weft
