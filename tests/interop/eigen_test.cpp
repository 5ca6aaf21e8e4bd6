// Eigen's matrices and strided spans as tensors, and back.
#include "weft/interop/eigen.hpp"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <numeric>

#include "weft/compile.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<double> values(const Tensor& x) {
  const auto elements = x.data<double>();
  return {elements.begin(), elements.end()};
}
std::vector<std::int64_t> sizes(const Tensor& x) {
  std::vector<std::int64_t> result;
  for (Dim size : x.shape()) result.push_back(static_cast<std::int64_t>(size));
  return result;
}
template <class M>
M counted_matrix(int rows, int columns) {
  M m(rows, columns);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) m(i, j) = i * columns + j;
  return m;
}
const std::vector<double> counted = {0, 1, 2, 3, 4, 5};

TEST_CASE("dense expressions are copied, in either order and with strides") {
  Eigen::MatrixXd columns = counted_matrix<Eigen::MatrixXd>(2, 3);
  const RowMajor rows = counted_matrix<RowMajor>(2, 3);
  const Tensor x = from_eigen(columns);
  columns(0, 0) = 9;
  CHECK(values(x) == counted);
  CHECK(sizes(x) == std::vector<std::int64_t>{2, 3});
  CHECK(values(from_eigen(rows)) == counted);
  CHECK(values(from_eigen(rows.transpose())) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(values(from_eigen(rows.rowwise().reverse())) == std::vector<double>{2, 1, 0, 5, 4, 3});
  CHECK(values(from_eigen(rows.block(0, 1, 2, 2))) == std::vector<double>{1, 2, 4, 5});
  CHECK(values(from_eigen(rows * 2.0)) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(values(from_eigen(rows * rows.transpose())) == std::vector<double>{5, 14, 14, 50});
  const Eigen::Ref<const RowMajor> reference(rows);
  CHECK(values(from_eigen(reference)) == counted);
  using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  const Eigen::Map<const Eigen::MatrixXd, 0, Stride> map(rows.data(), 2, 2, Stride(2, 3));
  CHECK(values(from_eigen(map)) == std::vector<double>{0, 2, 3, 5});
  const Tensor column = from_eigen(rows.col(1));
  CHECK(sizes(column) == std::vector<std::int64_t>{2});
  CHECK(values(column) == std::vector<double>{1, 4});
  CHECK(values(from_eigen(Eigen::ArrayXXd(rows.array() + 1.0))) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(from_eigen(Eigen::Vector3i(1, 2, 3)).dtype() == DType::i32);
  CHECK(sizes(from_eigen(Eigen::MatrixXf(0, 4))) == std::vector<std::int64_t>{0, 4});
}

TEST_CASE("a matrix that is given away is not copied") {
  RowMajor rows = counted_matrix<RowMajor>(2, 3);
  const double* memory = rows.data();
  const Tensor x = from_eigen(std::move(rows));
  CHECK(x.data<double>().data() == memory);
  CHECK(values(x) == counted);
  Eigen::MatrixXd columns = counted_matrix<Eigen::MatrixXd>(2, 3);
  const Tensor y = from_eigen(std::move(columns));
  CHECK(values(transpose(y)) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(values(from_eigen(Eigen::Matrix<double, 2, 3>(counted_matrix<RowMajor>(2, 3)))) == counted);
}

TEST_CASE("an owner is kept with the last handle, and nothing is written") {
  auto owner = std::make_shared<RowMajor>(counted_matrix<RowMajor>(2, 3));
  const std::weak_ptr<RowMajor> alive = owner;
  const RowMajor& matrix = *owner;
  const double* memory = matrix.data();
  Tensor x = from_eigen(matrix, owner);
  CHECK(x.data<double>().data() == memory);
  auto step = compile([](Tensor& x) { x = x + 1.0; });
  step(x);
  CHECK(matrix(0, 0) == 0);
  Tensor block = from_eigen(matrix.rightCols(2), std::move(owner));
  CHECK(!alive.expired());
  CHECK(values(block) == std::vector<double>{1, 2, 4, 5});
  block = Tensor();
  CHECK(alive.expired());
}

TEST_CASE("as_eigen shows the tensor's memory and keeps it") {
  Tensor x = cast(reshape(arange(6), {2, 3}), DType::f64);
  const auto map = as_eigen<double>(x);
  CHECK(map.data() == x.data<double>().data());
  x = Tensor();
  CHECK(map.rows() == 2);
  CHECK(map.cols() == 3);
  CHECK(map(1, 2) == 5);
  const Tensor v = from_list<double>({1, 2, 3}), product = from_eigen(map * as_eigen<double>(v));
  CHECK(sizes(product) == std::vector<std::int64_t>{2, 1});
  CHECK(values(product) == std::vector<double>{8, 26});
  const Tensor turned = transpose(cast(reshape(arange(6), {2, 3}), DType::f64));
  CHECK(as_eigen<double>(turned)(2, 1) == 5);
  CHECK_THROWS_WITH_AS(as_eigen<float>(turned), doctest::Contains("f64"), Error);
  CHECK_THROWS_WITH_AS(as_eigen<float>(zeros({2, 2, 2})), doctest::Contains("takes 1 or 2 axes, not f32[2,2,2]"),
                       Error);
}

// The members of std::mdspan with a strided layout that from_mdspan reads.
struct Columns {
  using value_type = double;
  static constexpr std::size_t rank() { return 2; }
  const double* data_handle() const { return first; }
  std::int64_t extent(std::size_t axis) const { return axis == 0 ? 2 : 3; }
  std::int64_t stride(std::size_t axis) const { return axis == 0 ? 1 : 2; }
  const double* first;
};

TEST_CASE("strided spans") {
  const std::vector<double> v = {0, 1, 2, 3, 4, 5};
  CHECK(values(from_strided(v, {3, 2}, {1, 3})) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(values(from_strided(std::span(v).subspan(1), {2, 2}, {0, 4})) == std::vector<double>{1, 5, 1, 5});
  CHECK(sizes(from_strided(v, {0, 3}, {100, 1})) == std::vector<std::int64_t>{0, 3});
  CHECK_THROWS_WITH_AS(from_strided(v, {3, 2}, {1}), doctest::Contains("1 stride for 2 axes"), Error);
  CHECK_THROWS_WITH_AS(from_strided(v, {3, 2}, {2, 2}), doctest::Contains("lead outside of 6 elements"), Error);
  CHECK_THROWS_WITH_AS(from_strided(v, {3}, {-1}), doctest::Contains("eigen_test.cpp:"), Error);
  CHECK_THROWS_WITH_AS(from_strided(v, {2, 2}, {std::int64_t{1} << 62, std::int64_t{1} << 62}),
                       doctest::Contains("lead outside"), Error);
  const std::array<double, 6> stored = {0, 3, 1, 4, 2, 5};
  CHECK(values(from_mdspan(Columns{stored.data()})) == counted);
}

}  // namespace
}  // namespace weft
