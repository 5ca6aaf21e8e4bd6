// Readers under mutated files: no crash, no unbounded memory.
#include <doctest/doctest.h>

#include "io/fuzz_readers.hpp"

TEST_CASE("safetensors") { weft::test::fuzz_safetensors(10'000); }
TEST_CASE("NPY") { weft::test::fuzz_npy(10'000); }
TEST_CASE("NPZ") { weft::test::fuzz_npz(10'000); }
TEST_CASE("PNG") { weft::test::fuzz_png(10'000); }
TEST_CASE("JPEG") { weft::test::fuzz_jpeg(10'000); }
TEST_CASE("tables") { weft::test::fuzz_table(10'000); }
