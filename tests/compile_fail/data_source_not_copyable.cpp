// expect: weft: a source that can't be copied is moved into its pipeline, or given by std::ref(source)
#include "weft/data.hpp"

struct Owner {
  Owner() = default;
  Owner(Owner&&) = default;
  std::size_t size() const { return 1; }
  int operator[](std::size_t) const { return 0; }
};
int main() {
  Owner owner;
  return static_cast<int>((owner | weft::data::batch(2)).size());
}
