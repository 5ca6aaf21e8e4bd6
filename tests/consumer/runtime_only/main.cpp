#include "weft/dim.hpp"
#include "weft/version.hpp"

int main() {
  const weft::Dim seven = weft::Dim(3) * weft::Dim(2) + weft::Dim(1);
  return seven.constant() == 7 && *weft::version() ? 0 : 1;
}
