// The one doctest main of all test executables. In: doctest's command line. Out: its exit status.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
