// expect: convert the numbers first, as in std::vector<std::int64_t>(v.begin(), v.end())
#include "weft/tensor.hpp"

weft::Tensor made() { return weft::from_list<long double>({1, 2}); }
