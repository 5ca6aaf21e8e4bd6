#include "providers/stored_plans.hpp"

#include <nlohmann/json.hpp>

#include "base/build_id.hpp"
#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "ir/graph_digest.hpp"
#include "runtime/cache.hpp"
#include "runtime/cache_file.hpp"
#include "runtime/host/cblas.hpp"
#include "runtime/host/compiler.hpp"
#include "runtime/host/jit.hpp"
#include "runtime/host/onednn.hpp"
#include "runtime/plan_file.hpp"
#include "runtime/steps.hpp"
#include "weft/version.hpp"

namespace weft::providers {

namespace {

constexpr std::string_view format = "plans 3";
constexpr std::size_t most_bytes = std::size_t{64} << 20;  // of a payload: constants are in it

template <class... Parts>
void log(const Parts&... parts) {
  if (logging::enabled(logging::Channel::cache))
    logging::write(logging::Channel::cache, concat_text("plan ", parts...));
}

// What plans depend on and only some ask for: what was not asked for when a plan was made did not matter.
StoredPlans::Fields asked_fields() {
  StoredPlans::Fields fields;
  if (runtime::onednn::was_asked()) fields["oneDNN"] = runtime::onednn::identity();
  if (runtime::cblas::was_asked()) fields["CBLAS library"] = runtime::cblas::identity();
  return fields;
}
std::string here(const std::string& field) {
  return field == "oneDNN" ? runtime::onednn::identity() : field == "CBLAS library" ? runtime::cblas::identity() : "";
}

// The fields that differ, a text each.
std::vector<std::string> differences(const StoredPlans::Fields& was, const StoredPlans::Fields& is) {
  std::vector<std::string> all;
  for (const auto& [name, value] : is) {
    const auto found = was.find(name);
    if (found == was.end() || found->second != value)
      all.push_back(concat_text("another ", name, ": ", found == was.end() ? "none" : found->second, ", here ", value));
  }
  return all;
}

using Pairs = std::vector<std::array<std::string, 2>>;
Pairs pairs_of(const StoredPlans::Fields& fields) {
  Pairs pairs;
  for (const auto& [name, value] : fields) pairs.push_back({name, value});
  return pairs;
}

// What the kernels were compiled for: each launch of them. Of a plan that was changed the launches are others.
Digest use_of(const Digest& library, std::vector<Digest> launches) {
  runtime::FieldWriter all;
  all(library.low, library.high);
  runtime::write_launches(all, std::move(launches));
  return digest(all.bytes());
}

}  // namespace

StoredPlans::Call::Call(const Graph& graph) {
  const auto value = [](const Tensor& each) {
    return runtime::Plan::Given::Value{type_of(each).dtype, type_of(each).shape.element_count()};
  };
  auto made = std::make_shared<runtime::Plan::Given>();
  for (const Tensor& input : graph.inputs) made->arguments.push_back(value(input));
  for (const Tensor& output : graph.outputs) made->results.push_back(value(output));
  given = std::move(made);
  for (const DimSymbol& symbol : graph.symbols) hints.push_back(symbol.hint);
}

bool StoredPlans::Call::is_of(const runtime::Plan& plan) const {
  return plan.device == Device::cpu() && static_cast<std::size_t>(plan.argument_count) == given->arguments.size() &&
         static_cast<std::size_t>(plan.result_count) == given->results.size() &&
         static_cast<std::size_t>(plan.symbol_count) == hints.size();
}

StoredPlans::StoredPlans(std::span<const Graph> graphs, Fields fields) : fields_(std::move(fields)) {
  if (build_id().empty()) refusal_ = "the program has no build ID (-Wl,--build-id)";
  if (!options().skip_passes.empty()) refusal_ = "passes are left out";
  if (options().nvrtc_check) refusal_ = "kernels are checked for a device";
  Hasher hasher;
  for (const Graph& graph : graphs) {
    for (const Tensor& value : graph.nodes)
      if (type_of(value).device.type != Device::Type::cpu) refusal_ = "it runs on a device";
    if (!refusal_.empty()) break;
    const std::optional<Digest> digest = full_digest(graph);
    if (!digest) refusal_ = "the graph holds data in strides";
    if (digest) hasher.add(digest->low).add(digest->high);
    calls_.emplace_back(graph);
  }
  if (!refusal_.empty()) {
    log("is not kept: ", refusal_);
    found_ = "not kept on disk: " + refusal_;
    return;
  }
  fields_["build of Weft"] = build_id();
  fields_["version of Weft"] = version();
  fields_["instruction set"] = name(target_);
  fields_["optimization of kernels"] = std::to_string(options().kernel_optimization);
  fields_["use of libraries"] =
      concat_text("oneDNN ", options().onednn, ", CBLAS ", options().cblas, options().isa.empty() ? "" : ", ISA asked",
                  target_ == host_isa() ? "" : ", for another machine");
  graphs_ = hasher.digest();
  Hasher all;
  all.add("plans").add(graphs_.low).add(graphs_.high);
  for (const auto& [name, value] : fields_) all.add(name).add(value);
  key_ = {all.digest().low, graphs_.high};  // entries of the same graphs are found by the high half
}

std::optional<std::vector<StoredPlan>> StoredPlans::load(std::span<const std::vector<int>> constant_arguments) {
  if (!refusal_.empty()) return std::nullopt;
  try {
    const std::optional<CacheEntry> entry = find_entry(key_);
    if (auto plans = entry ? read(entry->payload, constant_arguments) : std::nullopt) return plans;
    if (!entry) found_ = nearest();
  } catch (const runtime::Malformed&) {
    found_ = "the entry is damaged";
  } catch (const std::exception& error) {
    found_ = error.what();
  }
  log("miss ", hex(key_), ": ", found_);
  found_.insert(0, "not on disk: ");
  return std::nullopt;
}

std::optional<std::vector<StoredPlan>> StoredPlans::read(const std::string& payload,
                                                         std::span<const std::vector<int>> constant_arguments) {
  const auto miss = [&](const auto&... why) {
    found_ = concat_text(why...);
    return std::nullopt;
  };
  runtime::FieldReader from(payload);
  if (from.take<std::string>() != format) return miss("another format");
  Digest graphs, library;
  Pairs fields, asked;
  std::string compiler;
  bool has_library = false;
  std::size_t units = 0;
  from(graphs.low, graphs.high, fields, asked, compiler, has_library, library.low, library.high, units);
  if (graphs != graphs_ || fields != pairs_of(fields_)) return miss("it belongs to another graph");
  for (const auto& [name, value] : asked)
    if (const std::string is = here(name); is != value) return miss("another ", name, ": ", value, ", here ", is);
  const std::string own = host_compiler_file(target_.architecture);
  if (!own.empty() && has_library && own != compiler) return miss("another compiler: ", compiler, ", here ", own);
  std::vector<StoredPlan> plans;
  for (const Call& call : calls_) {
    StoredPlan& each = plans.emplace_back();
    each.plan = runtime::read_plan(from, runtime::read_step);
    from(each.arena_bytes);
    if (!call.is_of(each.plan)) throw runtime::Malformed();
    each.plan.given = call.given;
  }
  Digest use;
  from(use.low, use.high);
  if (!from.at_end() || use != use_of(library, from.launches)) throw runtime::Malformed();
  std::shared_ptr<Library> functions = has_library ? find_library(library, units, target_) : nullptr;
  if (has_library && !functions) return miss("its kernels are not there");
  std::size_t steps = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    runtime::Plan& plan = plans[i].plan;
    plan.functions = functions;
    if (functions) plan.source_path = functions->source_path();
    if (i < constant_arguments.size()) plan.constant_arguments = constant_arguments[i];
    runtime::prepare(plan);
    if (!runtime::fits(plan, calls_[i].hints)) return miss("a step leaves its memory");
    steps += plan.launches.size();
  }
  log("hit ", hex(key_), ", ", counted(static_cast<std::int64_t>(steps), "step", "steps"));
  found_ = "found on disk";
  return plans;
}

// Of the entries of the same graph the one that differs in the fewest fields says in which.
std::string StoredPlans::nearest() const {
  std::vector<std::string> least;
  for (const Digest& key : find_keys(graphs_.high)) {
    const std::optional<CacheEntry> entry = find_entry(key);
    if (!entry) continue;
    try {
      runtime::FieldReader from(entry->payload);
      if (from.take<std::string>() != format) continue;
      Digest graphs;
      Pairs pairs;
      from(graphs.low, graphs.high, pairs);
      Fields fields;
      for (const auto& [name, value] : pairs) fields[name] = value;
      std::vector<std::string> found = differences(fields, fields_);
      if (graphs == graphs_ && (least.empty() || found.size() < least.size())) least = std::move(found);
    } catch (const runtime::Malformed&) {
      continue;
    }
  }
  std::string made;
  for (const std::string& each : least) made += (made.empty() ? "made for " : "; ") + each;
  return made.empty() ? "none of this graph is there" : made;
}

void StoredPlans::store(std::span<const StoredPlan> plans) const {
  if (!refusal_.empty()) return;
  runtime::FieldWriter to;
  const auto* const library =
      plans.empty() ? nullptr : dynamic_cast<const Library*>(plans.front().plan.functions.get());
  const Digest key = library ? library->key() : Digest();
  to(std::string(format), graphs_.low, graphs_.high, pairs_of(fields_), pairs_of(asked_fields()),
     host_compiler_file(target_.architecture), library != nullptr, key.low, key.high,
     library ? library->units() : std::size_t{0});
  for (const StoredPlan& each : plans) {  // one for each graph
    runtime::write_plan(to, each.plan);
    to(each.arena_bytes);
  }
  const Digest use = use_of(key, to.launches);
  to(use.low, use.high);
  if (!to.refusal().empty()) return log("is not kept: ", to.refusal());
  if (to.bytes().size() > most_bytes) return log("is not kept: it has ", to.bytes().size(), " bytes");
  nlohmann::json metadata(fields_);
  metadata["kind"] = "plans";
  if (disk_cache()->store(key_, metadata.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), to.bytes()))
    log("stored ", hex(key_), ", ", to.bytes().size(), " bytes");
}

}  // namespace weft::providers
