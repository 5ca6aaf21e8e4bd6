// The functions whose derivatives are tested are those that are batched.
#include "tests/autograd/cases.cpp"
#include "tests/autograd/composite_cases.cpp"
