// client PORT REQUESTS CLIENTS [--package FILE] [--fresh] [--until-refused]: so many requests to 12_serve, of so many
// clients at once. With a package each answer is compared with a direct call of it. --fresh: each request has a
// connection of its own. --until-refused: each client goes on until the server takes no more connections. Prints a line
// of JSON: answers, answers that were wrong or other than 200 and 503, requests that were answered with 503 (they are
// sent again), requests that were sent and have no answer; the rate, and the latency in milliseconds.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include <weft/package.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

using Texts = std::vector<std::vector<std::int64_t>>;
struct Case {
  std::string body;
  std::vector<std::vector<float>> expected = {};  // empty: not compared
};

// Of one to three texts; `lone`: of one.
std::vector<Case> cases(const std::string& package, bool lone) {
  std::mt19937 bits(7);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(bits);
  };
  std::vector<Case> all;
  std::vector<Package> loaded;  // at most one
  if (!package.empty()) loaded.push_back(load_package(package));
  for (int i = 0; i < 64; ++i) {
    Texts texts(static_cast<std::size_t>(lone ? 1 : draw(1, 3)));
    for (auto& text : texts) {
      text.resize(static_cast<std::size_t>(draw(8, 32)));
      for (std::int64_t& token : text) token = draw(0, 999);
    }
    Case& one = all.emplace_back(Case{nlohmann::json({{"inputs", texts}}).dump()});
    if (loaded.empty()) continue;
    const auto embed = loaded.front().function<Tensor(const Tensor&, const Tensor&)>("embed_text");
    for (const auto& text : texts) {  // each by itself, without padding
      const Sizes sizes{1, text.size()};
      const Tensor vector = embed(from_span(text, sizes), ones(sizes, {.dtype = DType::i64}));
      const auto values = vector.data<float>();
      one.expected.emplace_back(values.begin(), values.end());
    }
  }
  return all;
}

bool is_right(const Case& one, const std::string& body) {
  if (one.expected.empty()) return true;
  const nlohmann::json answer = nlohmann::json::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("embeddings")) return false;
  const auto found = answer["embeddings"].get<std::vector<std::vector<float>>>();
  if (found.size() != one.expected.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].size() != one.expected[i].size()) return false;
    for (std::size_t j = 0; j < found[i].size(); ++j)
      if (!(std::abs(found[i][j] - one.expected[i][j]) <= 1e-5F)) return false;
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4)
    return std::fprintf(stderr, "client PORT REQUESTS CLIENTS [--package FILE] [--fresh] [--until-refused]\n"), 2;
  const int port = std::atoi(arguments[1]);
  const long requests = std::atol(arguments[2]), clients = std::atol(arguments[3]);
  std::string package;
  bool fresh = false, until_refused = false, lone = false;
  for (int i = 4; i < count; ++i) {
    const std::string_view option = arguments[i];
    if (option == "--package" && i + 1 < count) package = arguments[++i];
    fresh |= option == "--fresh", until_refused |= option == "--until-refused", lone |= option == "--lone";
  }
  const std::vector<Case> all = cases(package, lone);
  std::atomic<long> next = 0, answered = 0, wrong = 0, overloaded = 0, lost = 0;
  std::vector<std::vector<double>> latencies(static_cast<std::size_t>(clients));
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const auto begin = Clock::now();
  const auto run = [&](std::vector<double>& latency) {
    httplib::Client client("127.0.0.1", port);
    client.set_keep_alive(!fresh);
    client.set_tcp_nodelay(true);
    client.set_connection_timeout(20);
    client.set_read_timeout(60);
    for (long i; (i = next++) < requests;) {
      const Case& one = all[static_cast<std::size_t>(i) % all.size()];
      const auto start = Clock::now();
      auto answer = client.Post("/embed", one.body, "application/json");
      while (answer && answer->status == 503) {
        ++overloaded;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        answer = client.Post("/embed", one.body, "application/json");
      }
      if (!answer) {
        if (until_refused && answer.error() == httplib::Error::Connection) return;
        ++lost;
        std::fprintf(stderr, "no answer: %s\n", httplib::to_string(answer.error()).c_str());
        if (until_refused) return;
        continue;
      }
      latency.push_back(seconds(Clock::now() - start) * 1e3);
      ++answered;
      if (answer->status != 200 || !is_right(one, answer->body)) {
        if (wrong++ == 0) std::fprintf(stderr, "status %d: %s\n", answer->status, answer->body.substr(0, 200).c_str());
      }
    }
  };
  std::vector<std::thread> threads;
  for (auto& latency : latencies) threads.emplace_back([&] { run(latency); });
  for (std::thread& each : threads) each.join();
  const double whole = seconds(Clock::now() - begin);
  std::vector<double> sorted;
  for (const auto& each : latencies) sorted.insert(sorted.end(), each.begin(), each.end());
  std::ranges::sort(sorted);
  const auto quantile = [&](double q) {
    return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
  };
  std::printf(
      "{\"answered\": %ld, \"wrong\": %ld, \"overloaded\": %ld, \"lost\": %ld, \"rate\": %.1f, \"p50\": %.3f, \"p99\": "
      "%.3f}\n",
      answered.load(), wrong.load(), overloaded.load(), lost.load(), static_cast<double>(answered) / whole,
      quantile(0.5), quantile(0.99));
}
