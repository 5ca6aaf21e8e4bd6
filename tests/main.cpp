// The one doctest main of all test executables. In: doctest's command line. Out: its exit status, or 77, which ctest
// takes for skipped, where test cases were selected and this machine lacks what all of them need (needs.hpp).
// WEFT_TEST_FACTORIES=cuda puts tensors on cuda:0 (on_the_host.hpp).
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/default_device.hpp"
#include "tests/needs.hpp"

namespace {

using Cases = std::vector<const doctest::TestCaseData*>;

Cases selected;
bool ran = false, no_skip = false;

struct Listener final : doctest::IReporter {
  explicit Listener(const doctest::ContextOptions& options) { no_skip = options.no_skip; }
  void report_query(const doctest::QueryData& query) override {
    selected.assign(query.data, query.data + query.num_data);
  }
  void test_run_start() override { ran = true; }
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("selection", 1, Listener);

// The cases that the filters let pass. Doctest's own count of skipped cases has those that the filters leave out too.
Cases select(int count, const char* const* arguments) {
  if (doctest::Context(count, arguments).shouldExit()) return {};  // asked for a list, or for help
  std::vector<const char*> listing(arguments, arguments + count);
  listing.insert(listing.end(), {"--list-test-cases", "--no-skip"});
  doctest::Context context(static_cast<int>(listing.size()), listing.data());
  std::ostringstream nowhere;
  context.setCout(&nowhere);
  context.run();
  return std::exchange(selected, {});
}

// Marks the cases that can't run here as skipped. How many by each reason.
std::map<std::string, std::size_t> skip(const Cases& cases) {
  std::map<std::string, std::string> lacks;  // by need, each asked once
  std::map<std::string, std::size_t> skipped;
  for (const doctest::TestCaseData* one : cases) {
    const auto need = weft::test::all_needs().find(one->m_description ? one->m_description : "");
    if (need == weft::test::all_needs().end()) continue;
    const auto [lack, is_new] = lacks.try_emplace(need->first);
    if (is_new) lack->second = need->second();
    if (lack->second.empty()) continue;
    const_cast<doctest::TestCaseData*>(one)->m_skip = true;  // decorators are evaluated before main() alone
    ++skipped[lack->second];
  }
  return skipped;
}

}  // namespace

int main(int count, char** arguments) {
  if (const char* where = std::getenv("WEFT_TEST_FACTORIES"); where && std::string_view(where) == "cuda")
    weft::default_device = weft::Device::cuda(0);
  const Cases cases = select(count, arguments);
  const std::map<std::string, std::size_t> reasons = skip(cases);
  doctest::Context context(count, arguments);
  ran = false;
  const int status = context.run();
  if (!ran || no_skip || reasons.empty()) return status;
  std::size_t skipped = 0;
  for (const auto& [lack, number] : reasons) {
    std::printf("[weft] skipped: %zu of %zu test cases: %s\n", number, cases.size(), lack.c_str());
    skipped += number;
  }
  return status == 0 && skipped == cases.size() ? 77 : status;
}
