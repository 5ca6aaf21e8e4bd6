#include <cstring>

#include "weft_run.h"

int main() {
  weft_package* package = nullptr;
  const bool refused = weft_package_open("/nowhere.weft", &package) == WEFT_BAD_PACKAGE;
  return refused && weft_run_abi() == WEFT_RUN_ABI && std::strstr(weft_run_message(), "/nowhere.weft") ? 0 : 1;
}
