// weft_run: what a package holds, whether it runs here, and running it, from the command line (docs/packages.md).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string_view>

#include "array_file.hpp"

namespace {

using namespace weft_run;

constexpr char usage[] = R"(usage: weft_run COMMAND FILE ...
  describe FILE             what the package holds
  check FILE                whether it runs on this machine; otherwise why not
  run FILE FUNCTION         calls a function
      --input X             a tensor (X.npy), or tensors by the names of arguments (X.safetensors); may be repeated
      --output Y            a result (Y.npy), or all of them and the arguments that were changed (Y.safetensors); may be
                            repeated
      --kind N              which kind of arguments, where the tensors do not say it
  benchmark FILE FUNCTION   times calls with random numbers
      --size N              of sizes that vary; otherwise the least that the package holds
      --seconds S           for how long, 1 otherwise
      --kind N              which kind of arguments, 0 otherwise
A status of 1: it can't be done, and standard error has a sentence. 2: the command line is wrong.
)";

struct WrongUse {
  std::string what;
};

void need(weft_status status) {
  if (status != WEFT_OK) throw Failure{weft_run_message()};
}

struct Options {
  std::vector<std::string> words, inputs, outputs;
  std::size_t kind = WEFT_ANY_KIND;
  std::int64_t size = -1;
  double seconds = 1;
};
template <class Number>
Number number_of(const std::string& option, const char* text, Number least, Number most) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end || !(value >= static_cast<double>(least)) || !(value <= static_cast<double>(most)) ||
      (std::is_integral_v<Number> && value != static_cast<double>(static_cast<std::int64_t>(value))))
    throw WrongUse{option + " " + text + ": a number is wanted"};
  return static_cast<Number>(value);
}
Options options_of(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (!word.starts_with("--")) {
      options.words.push_back(word);
      continue;
    }
    const std::string_view command = options.words.empty() ? std::string_view() : options.words[0];
    const bool runs = command == "run", times = command == "benchmark";
    if (!(word == "--kind" && (runs || times)) && !((word == "--input" || word == "--output") && runs) &&
        !((word == "--size" || word == "--seconds") && times))
      throw WrongUse{"there is no option " + word + (command.empty() ? "" : " of " + std::string(command))};
    if (++i == count) throw WrongUse{word + " wants a value"};
    if (word == "--input" || word == "--output") {
      (word == "--input" ? options.inputs : options.outputs).push_back(arguments[i]);
      if (!is_npy(arguments[i]) && !is_safetensors(arguments[i]))
        throw WrongUse{std::string(arguments[i]) + " is neither .npy nor .safetensors"};
    } else if (word == "--kind") {
      options.kind = number_of<std::size_t>(word, arguments[i], 0, 1 << 30);
    } else if (word == "--size") {
      options.size = number_of<std::int64_t>(word, arguments[i], 0, std::int64_t{1} << 40);
    } else {
      options.seconds = number_of<double>(word, arguments[i], 0, 1e6);
    }
  }
  return options;
}

class Opened {
 public:
  explicit Opened(const std::string& path, decltype(weft_package_open)* open = weft_package_open) {
    need(open(path.c_str(), &package));
  }
  Opened(const Opened&) = delete;
  ~Opened() { weft_package_close(package); }
  weft_package* package = nullptr;
};

class Function {
 public:
  Function(const Opened& from, const std::string& name, const std::string& path) : called(name + " of " + path) {
    need(weft_package_function(from.package, name.c_str(), &function_));
  }
  Function(const Function&) = delete;
  ~Function() { weft_function_close(function_); }

  std::vector<weft_tensor_info> arguments(std::size_t kind) const { return infos(weft_function_arguments, kind); }
  std::vector<weft_tensor_info> results(std::size_t kind) const { return infos(weft_function_results, kind); }
  std::size_t kinds() const {
    std::size_t count = 0;
    need(weft_function_kinds(function_, &count));
    return count;
  }
  // The results, which live as long as this object or until the next call.
  class Results {
   public:
    Results(const Function& function, std::size_t kind, const std::vector<Array*>& arguments, std::size_t count)
        : tensors(count) {
      std::vector<weft_tensor> given;
      for (Array* const each : arguments) given.push_back(each->tensor());
      std::vector<const weft_tensor*> pointers;
      for (const weft_tensor& each : given) pointers.push_back(&each);
      need(weft_function_call(function.function_, kind, pointers.data(), pointers.size(), tensors.data(), count));
    }
    Results(const Results&) = delete;
    ~Results() {
      for (weft_managed_tensor* each : tensors)
        if (each) each->deleter(each);
    }
    std::vector<weft_managed_tensor*> tensors;
  };

  const std::string called;

 private:
  using Asked = weft_status(const weft_function*, std::size_t, std::size_t*, const weft_tensor_info**);
  std::vector<weft_tensor_info> infos(Asked* asked, std::size_t kind) const {
    std::size_t count = 0;
    const weft_tensor_info* first = nullptr;
    need(asked(function_, kind, &count, &first));
    return {first, first + count};
  }
  weft_function* function_ = nullptr;
};

std::string count_of(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// `argument 0 (in.weight)` is a tensor of `argument 0`.
std::string_view argument_of(const weft_tensor_info& info) {
  const std::string_view name = info.name;
  return name.substr(0, name.find(" ("));
}
// `argument 0 (in.weight)` is `in.weight` of a model's file.
std::string short_name(const char* name) {
  const std::string_view whole = name;
  const std::size_t open = whole.find('(');
  if (open == std::string_view::npos || !whole.ends_with(')')) return std::string(whole);
  return std::string(whole.substr(open + 1, whole.size() - open - 2));
}
// The same of tensors of a call. Where two would have one name, each has its whole one.
std::vector<std::string> file_names(const std::vector<weft_tensor_info>& infos) {
  std::vector<std::string> all, names;
  for (const weft_tensor_info& each : infos) all.push_back(short_name(each.name));
  for (std::size_t i = 0; i < infos.size(); ++i)
    names.push_back(std::ranges::count(all, all[i]) > 1 ? infos[i].name : all[i]);
  return names;
}

struct InputFile {
  std::string path;
  std::vector<Array> arrays;
};

// The tensor of the file for each argument; null: it has none. A tensor that has the argument's name comes first. The
// others are taken by how their names end (`model.in.weight`, as Weft's own files have it), by long ends first:
// `model.in.weight` is not for `weight` where there is an `in.weight`.
std::vector<Array*> named_arrays(InputFile& file, const std::vector<weft_tensor_info>& wanted,
                                 const std::string& called) {
  const std::vector<std::string> names = file_names(wanted);
  std::vector<Array*> found(wanted.size());
  const auto take = [&](std::size_t i, const auto& fits) {
    const Array* const before = found[i];
    for (Array& each : file.arrays) {
      if (before || !fits(each.name) || std::ranges::find(found, &each) != found.end()) continue;
      if (found[i]) throw Failure{file.path + " has a second tensor for " + wanted[i].name + " of " + called};
      found[i] = &each;
    }
  };
  for (std::size_t i = 0; i < wanted.size(); ++i)
    take(i, [&](const std::string& name) { return name == names[i] || name == wanted[i].name; });
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return names[i].size(); });
  for (const std::size_t i : order) take(i, [&](const std::string& name) { return name.ends_with("." + names[i]); });
  return found;
}

// The arguments of a kind from files, by names and by their order. An argument of which a file has a tensor by its name
// has all of its tensors so.
std::vector<Array*> arguments_of_kind(const Function& function, const std::vector<weft_tensor_info>& wanted,
                                      std::vector<InputFile>& files) {
  std::vector<Array*> given(wanted.size());
  std::vector<const std::string*> from(wanted.size());
  std::vector<InputFile*> in_order;
  for (InputFile& file : files) {
    if (is_npy(file.path)) {
      in_order.push_back(&file);
      continue;
    }
    const std::vector<Array*> found = named_arrays(file, wanted, function.called);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!found[i]) continue;
      if (given[i]) throw Failure{file.path + " has a second tensor for " + wanted[i].name + " of " + function.called};
      given[i] = found[i], from[i] = &file.path;
    }
    if (std::ranges::all_of(found, [](const Array* each) { return !each; }))
      throw Failure{file.path + " has no tensor with the name of an argument of " + function.called};
  }
  std::map<std::string_view, const std::string*> named;  // by argument: the file
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (given[i]) named.try_emplace(argument_of(wanted[i]), from[i]);
  auto next = in_order.begin();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (given[i]) continue;
    if (const auto file = named.find(argument_of(wanted[i])); file != named.end())
      throw Failure{*file->second + " has other tensors of " + std::string(file->first) + " of " + function.called +
                    ", and none for " + wanted[i].name};
    if (next == in_order.end())
      throw Failure{function.called + " takes " + count_of(wanted.size(), "tensor") + ": there is none for " +
                    wanted[i].name};
    given[i] = &(*next)->arrays[0], from[i] = &(*next)->path;
    ++next;
  }
  if (next != in_order.end())
    throw Failure{(*next)->path + " is one tensor more than " + function.called + " takes, which is " +
                  std::to_string(wanted.size())};
  // What is written lies in row-major order.
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].is_written && !given[i]->strides.empty())
      throw Failure{*from[i] + " is for " + wanted[i].name + ", which is changed: write it in row-major order"};
  return given;
}

bool fits(const weft_tensor_info& wanted, const Array& array) {
  const auto& [code, bits, lanes] = array.dtype;
  if (wanted.dtype.code != code || wanted.dtype.bits != bits || array.sizes.size() != std::size_t(wanted.rank))
    return false;
  for (std::size_t axis = 0; axis < array.sizes.size(); ++axis)
    if (array.sizes[axis] < wanted.least[axis] || array.sizes[axis] > wanted.most[axis]) return false;
  return true;
}

struct Arguments {
  std::size_t kind;  // which names them
  std::vector<Array*> arrays;
};
// Where no kind is asked for, of the first one that they fit; else of the first one with as many, by these names: the
// call says then what does not fit.
Arguments arguments_of(const Function& function, std::size_t asked, std::vector<InputFile>& files) {
  if (asked != WEFT_ANY_KIND) return {asked, arguments_of_kind(function, function.arguments(asked), files)};
  std::optional<Arguments> named;
  std::optional<Failure> first;
  for (std::size_t kind = 0; kind < function.kinds(); ++kind) try {
      const std::vector<weft_tensor_info> wanted = function.arguments(kind);
      Arguments found{kind, arguments_of_kind(function, wanted, files)};
      bool all = true;
      for (std::size_t i = 0; i < wanted.size(); ++i) all = all && fits(wanted[i], *found.arrays[i]);
      if (all) return found;
      if (!named) named = std::move(found);
    } catch (const Failure& failure) {
      if (!first) first = failure;
    }
  if (named) return *named;
  throw first ? *first : Failure{function.called + " has no kind of arguments"};
}

// Returns the number of elements.
std::int64_t print_type(const char* name, const weft_tensor& tensor) {
  std::string text = std::string(name) + ": " + name_of(tensor.dtype) + "[";
  std::int64_t count = 1;
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    text += (axis ? "," : "") + std::to_string(tensor.shape[axis]);
    count *= tensor.shape[axis];
  }
  std::printf("%s]\n", text.c_str());
  return count;
}
void print(const char* name, const weft_tensor& tensor) {
  const std::int64_t count = print_type(name, tensor);
  const bool is_small = tensor.dtype.code > 6 || (tensor.dtype.bits == 16 && tensor.dtype.code > 1);
  if (is_small) return;  // no such C++ type
  constexpr std::int64_t most = 16;
  const auto* at = static_cast<const unsigned char*>(tensor.data) + tensor.byte_offset;
  for (std::int64_t i = 0; i < std::min(count, most); ++i, at += tensor.dtype.bits / 8) {
    const auto as = [&]<class T>(T value) {
      std::memcpy(&value, at, sizeof value);
      if constexpr (std::is_floating_point_v<T>)
        std::printf(" %.*g", std::numeric_limits<T>::max_digits10, static_cast<double>(value));
      else
        std::printf(" %lld", static_cast<long long>(value));
    };
    if (tensor.dtype.code == 2)
      tensor.dtype.bits == 32 ? as(float()) : as(double());
    else if (tensor.dtype.code == 0)
      tensor.dtype.bits == 8    ? as(std::int8_t())
      : tensor.dtype.bits == 16 ? as(std::int16_t())
      : tensor.dtype.bits == 32 ? as(std::int32_t())
                                : as(std::int64_t());
    else
      tensor.dtype.bits == 8 ? as(std::uint8_t()) : tensor.dtype.bits == 16 ? as(std::uint16_t()) : as(std::uint32_t());
  }
  std::printf("%s\n", count > most ? " ..." : "");
}

// Says which tensors of files are no argument's. Results that an earlier call has written beside its state are not
// meant to be.
void report_unused(std::vector<InputFile>& files, const std::vector<Array*>& arguments,
                   const std::vector<weft_tensor_info>& results, const std::string& called) {
  constexpr std::size_t most = 5;
  for (InputFile& file : files) {
    std::string names;
    std::size_t count = 0;
    for (Array& each : file.arrays) {
      const bool is_result = std::ranges::any_of(results, [&](const auto& info) { return each.name == info.name; });
      if (is_result || std::ranges::find(arguments, &each) != arguments.end()) continue;
      if (++count <= most) names += (count == 1 ? "" : ", ") + each.name;
    }
    if (count > 0)
      std::fprintf(stderr, "weft_run: %s has %s that %s does not take: %s%s\n", file.path.c_str(),
                   count_of(count, "tensor").c_str(), called.c_str(), names.c_str(), count > most ? ", ..." : "");
  }
}

void run(const Options& options) {
  const std::string& path = options.words[1];
  const Opened opened(path);
  const Function function(opened, options.words[2], path);
  std::vector<InputFile> inputs;
  for (const std::string& each : options.inputs) inputs.push_back({each, read_arrays(each)});
  const auto [shown, arguments] = arguments_of(function, options.kind, inputs);
  const std::vector<weft_tensor_info> infos = function.results(shown), wanted = function.arguments(shown);
  const std::vector<std::string> names = file_names(wanted);
  const std::size_t files = static_cast<std::size_t>(std::ranges::count_if(options.outputs, is_npy));
  if (files > infos.size())
    throw Failure{function.called + " gives " + count_of(infos.size(), "tensor") + ", there are " +
                  std::to_string(files) + " files for them"};
  report_unused(inputs, arguments, infos, function.called);
  const Function::Results results(function, options.kind, arguments, infos.size());
  std::vector<weft_tensor> changed;
  std::vector<Named> all;
  for (std::size_t i = 0; i < infos.size(); ++i) all.push_back({infos[i].name, &results.tensors[i]->dl_tensor});
  for (Array* const each : arguments) changed.push_back(each->tensor());
  // Of an argument that is changed a file has all tensors: the next call takes it from there.
  std::set<std::string_view> written;
  for (const weft_tensor_info& each : wanted)
    if (each.is_written) written.insert(argument_of(each));
  std::vector<Named> kept = all;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].is_written) all.push_back({names[i], &changed[i]});
    if (written.contains(argument_of(wanted[i]))) kept.push_back({names[i], &changed[i]});
  }
  std::size_t next = 0;
  for (const std::string& output : options.outputs)
    is_npy(output) ? write_npy(output, *all[next++].tensor) : write_safetensors(output, kept);
  if (options.outputs.empty())
    for (const auto& [name, tensor] : all) print(name.c_str(), *tensor);
}

// Floats are in [0.5, 1) or that negative; integers are 0, which is an index of everything. `size`: of those that vary;
// negative: the least.
Array random_array(const weft_tensor_info& info, std::int64_t size, std::mt19937_64& bits) {
  Array array;
  array.dtype = info.dtype;
  for (int axis = 0; axis < info.rank; ++axis) {
    const bool varies = info.sizes[axis] == WEFT_VARIES;
    const std::int64_t least = info.least[axis], most = info.most[axis];
    if (varies && size >= 0 && (size < least || size > most))
      throw Failure{"--size " + std::to_string(size) + ": the package holds sizes of at " +
                    (size < least ? "least " + std::to_string(least) : "most " + std::to_string(most)) +
                    " of dimension " + std::to_string(axis) + " of " + info.name};
    array.sizes.push_back(!varies ? info.sizes[axis] : size < 0 ? least : size);
  }
  array.bytes.resize(bytes_of(info.dtype, array.sizes, info.name));
  if (info.dtype.code < 2 || info.dtype.code == 6) return array;
  // By the bits of a fraction in an element.
  const int fraction = info.dtype.code == 12   ? 2
                       : info.dtype.code == 10 ? 3
                       : info.dtype.code == 4  ? 7
                       : info.dtype.bits == 16 ? 10
                       : info.dtype.bits == 32 ? 23
                                               : 52;
  const int width = info.dtype.bits, exponents = width - 1 - fraction;
  const std::uint64_t half = ((std::uint64_t{1} << (exponents - 1)) - 2) << fraction;
  const std::uint64_t random = ((std::uint64_t{1} << fraction) - 1) | (std::uint64_t{1} << (width - 1));
  for (std::size_t at = 0; at < array.bytes.size(); at += static_cast<std::size_t>(width / 8)) {
    const std::uint64_t element = half | (bits() & random);
    std::memcpy(&array.bytes[at], &element, static_cast<std::size_t>(width / 8));
  }
  return array;
}

void benchmark(const Options& options) {
  const Opened opened(options.words[1]);
  const Function function(opened, options.words[2], options.words[1]);
  const std::size_t kind = options.kind == WEFT_ANY_KIND ? 0 : options.kind;
  std::mt19937_64 bits(0);
  std::vector<Array> made;
  const std::vector<weft_tensor_info> infos = function.arguments(kind);
  for (const weft_tensor_info& info : infos) made.push_back(random_array(info, options.size, bits));
  for (std::size_t i = 0; i < infos.size(); ++i)
    if (std::count(infos[i].sizes, infos[i].sizes + infos[i].rank, WEFT_VARIES) > 0)
      print_type(infos[i].name, made[i].tensor());
  std::vector<Array*> arguments;
  for (Array& each : made) arguments.push_back(&each);
  const std::size_t count = function.results(kind).size();
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::vector<double> times;
  const auto call = [&] {
    const auto start = Clock::now();
    const Function::Results results(function, kind, arguments, count);
    return seconds_since(start);
  };
  const double first = call();
  for (const auto start = Clock::now(); times.size() < 3 || seconds_since(start) < options.seconds;)
    times.push_back(call());
  std::ranges::sort(times);
  std::printf("the first call %.4f ms, of %zu others the median %.4f ms, the fastest %.4f ms\n", first * 1e3,
              times.size(), times[times.size() / 2] * 1e3, times[0] * 1e3);
}

void describe(const Options& options) {
  const Opened opened(options.words[1], weft_package_inspect);
  const char *origin = nullptr, *text = nullptr;
  need(weft_package_origin(opened.package, &origin));
  need(weft_package_text(opened.package, &text));
  std::printf("%s\n%s", origin, text);
}

void check(const Options& options) {
  const Opened opened(options.words[1]);
  const char* origin = nullptr;
  need(weft_package_check_weights(opened.package));
  need(weft_package_origin(opened.package, &origin));
  std::printf("%s runs here: it is whole, %s\n", options.words[1].c_str(), origin);
  std::size_t count = 0;
  const char* const* names = nullptr;
  need(weft_package_names(opened.package, &count, &names));
  for (std::size_t i = 0; i < count; ++i) {
    weft_function* function = nullptr;
    const bool runs = weft_package_function(opened.package, names[i], &function) == WEFT_OK;
    std::printf("%s: %s\n", names[i], runs ? "runs" : weft_run_message());
    weft_function_close(function);
  }
}

struct Command {
  const char* name;
  std::size_t words;
  void (*run)(const Options& options);
};
constexpr Command commands[] = {
    {"describe", 2, describe}, {"check", 2, check}, {"run", 3, run}, {"benchmark", 3, benchmark}};

}  // namespace

int main(int count, char** arguments) try {
  if (count == 2 && (!std::strcmp(arguments[1], "--help") || !std::strcmp(arguments[1], "-h"))) {
    std::fputs(usage, stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  const Options options = options_of(count, arguments);
  if (options.words.empty()) throw WrongUse{"a command is wanted"};
  const auto* const command =
      std::ranges::find_if(commands, [&](const Command& each) { return options.words[0] == each.name; });
  if (command == std::end(commands)) throw WrongUse{"there is no command " + options.words[0]};
  if (options.words.size() != command->words)
    throw WrongUse{options.words[0] + (command->words == 2 ? " wants a file" : " wants a file and a function")};
  command->run(options);
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw Failure{std::string("standard output can't be written: ") + std::strerror(errno)};
  return 0;
} catch (const WrongUse& wrong) {
  std::fprintf(stderr, "weft_run: %s; weft_run --help shows how it is called\n", wrong.what.c_str());
  return 2;
} catch (const Failure& failure) {
  std::fprintf(stderr, "weft_run: %s\n", failure.why.c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "weft_run: %s\n", error.what());
  return 1;
}
