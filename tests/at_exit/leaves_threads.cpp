// leaves_threads PLACE WAY: the process ends while threads call compiled functions and evaluate. PLACE is cpu or cuda;
// WAY is return (main returns) or exit (another thread calls std::exit). Ends with 0 when nothing crashed.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <weft/weft.hpp>

using namespace weft;

namespace {

std::atomic<int> calls = 0;

void call_forever(Device device, int number) {
  static auto squares = compile([](const Tensor& x) { return sum(x * x + 1); });
  static auto chosen = compile([](const Tensor& table, const Tensor& index) { return gather(table, index) * 2; });
  const Tensor x = to(full({300, 100}, number), device), table = to(ones({64, 8}), device),
               index = to(arange(32), device);
  for (int i = 0;; ++i) {
    static_cast<void>(squares(x).item());
    const Tensor rows = chosen(table, index);
    static_cast<void>(rows.data<float>());
    static_cast<void>(sum(exp(x * 0) + matmul(x, full({100, 100}, 1, {.device = device}))).item());
    ++calls;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const Device device = std::string_view(arguments[1]) == "cuda" ? Device::cuda() : Device::cpu();
  for (int i = 0; i < 4; ++i) std::thread(call_forever, device, i).detach();
  while (calls < 20) std::this_thread::sleep_for(std::chrono::microseconds(300));
  if (std::string_view(arguments[2]) == "return") return 0;
  std::thread([] { std::exit(0); }).detach();
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}
