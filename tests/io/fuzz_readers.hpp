// Each reader under mutated files, `count` of them.
#pragma once

namespace weft::test {

void fuzz_safetensors(int count);
void fuzz_npy(int count);
void fuzz_npz(int count);

}  // namespace weft::test
