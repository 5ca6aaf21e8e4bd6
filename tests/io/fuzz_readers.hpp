// Each reader under mutated files, `count` of them.
#pragma once

namespace weft::test {

void fuzz_safetensors(int count);

}  // namespace weft::test
