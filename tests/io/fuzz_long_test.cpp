// The same as fuzz_test, for longer.
#include <doctest/doctest.h>

#include "io/fuzz_readers.hpp"

TEST_CASE("safetensors") { weft::test::fuzz_safetensors(1'000'000); }
TEST_CASE("NPY") { weft::test::fuzz_npy(1'000'000); }
TEST_CASE("NPZ") { weft::test::fuzz_npz(1'000'000); }
TEST_CASE("PNG") { weft::test::fuzz_png(1'000'000); }
TEST_CASE("JPEG") { weft::test::fuzz_jpeg(1'000'000); }
TEST_CASE("tables") { weft::test::fuzz_table(1'000'000); }
