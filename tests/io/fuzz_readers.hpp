// Each reader under mutated files, `count` of them.
#pragma once

namespace weft::test {

void fuzz_safetensors(int count);
void fuzz_npy(int count);
void fuzz_npz(int count);
void fuzz_png(int count);
void fuzz_jpeg(int count);
void fuzz_table(int count);

}  // namespace weft::test
