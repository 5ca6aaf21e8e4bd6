// A user's program outside the project: throws and catches across the library's boundary.
#include <cstring>

#include "weft/error.hpp"

int main() {
  try {
    throw weft::Error("a user's error");
  } catch (const weft::Exception& error) {
    return std::strcmp(error.what(), "a user's error");
  }
}
