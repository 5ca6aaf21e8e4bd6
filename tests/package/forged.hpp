// Packages with a right digest that nobody wrote: each is refused in a sentence, or computes within its memory. What
// runs them is a process of its own, which AddressSanitizer and UBSan may end.
#pragma once
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <random>

#include "package/support.hpp"
#include "runtime/package_file.hpp"
#include "runtime/steps.hpp"
#include "tests/sanitized.hpp"

namespace package_test {

// A packaged function, and a call of it: of the arguments that it was packaged for, wherever the file's name leads.
struct Forgeable {
  std::string name, bytes;
  std::function<void(const std::string& file)> call;
};

template <class R, class... P>
Forgeable forgeable(const Folder& folder, const std::string& name, R (*f)(P...), const CompileOptions& options,
                    std::type_identity_t<P>... argument) {
  const std::string file = folder.file("forgeable.weft");
  package(file, "f", compile(f, options), argument...);
  return {name, read(file), [=](const std::string& file) mutable {
            const auto g = load_package(file).template function<R(P...)>("f");
            if constexpr (std::is_void_v<R>)
              g(argument...);
            else
              (void)bits_of(g(argument...));
          }};
}

struct Outcomes {
  int refused = 0, computed = 0, endless = 0;
};

// Calls what `forge` makes of each number below `count`. A call that takes too long counts as endless: a loop may go on
// for as long as its numbers say.
inline Outcomes call_forged(const Forgeable& of, const Folder& folder, int count,
                            const std::function<std::string(int number)>& forge) {
  struct Shared {
    int next = 0;
    Outcomes outcomes;
    char message[1000] = {};
  };
  auto* const shared =
      new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  const std::string file = folder.file("forged.weft");
  while (shared->next < count) {
    const pid_t child = fork();
    if (child == 0) {
      ::signal(SIGALRM, SIG_DFL);
      while (shared->next < count) {
        alarm(10);
        write(file, forge(shared->next));
        std::string message;
        try {
          of.call(file);
          ++shared->outcomes.computed;
        } catch (const Error& error) {
          ++shared->outcomes.refused;
          message = error.what();
        } catch (const std::exception& error) {
          message = std::string("not an Error: ") + error.what();
        }
        const bool sentence = message.find('\n') == std::string::npos || message.find('\n') == message.size() - 1;
        if (!message.starts_with("not an Error") && (sentence || message.find(" is ") != std::string::npos)) {
          ++shared->next;
          continue;
        }
        std::snprintf(shared->message, sizeof shared->message, "%s", message.c_str());
        _exit(3);
      }
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
      ++shared->outcomes.endless;
      ++shared->next;
      continue;
    }
    CAPTURE(of.name);
    CAPTURE(shared->next);
    CAPTURE(std::string(shared->message));
    const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!ended_well) write("/tmp/weft-forged.weft", forge(shared->next));
    REQUIRE(ended_well);
  }
  const Outcomes outcomes = shared->outcomes;
  munmap(shared, sizeof(Shared));
  return outcomes;
}

// A few bytes of the plans are others. The machine code, and what it was compiled for, stay.
inline std::string with_other_bytes(const std::string& bytes, int number) {
  std::string forged = bytes;
  const PlansPart plans = plans_of(bytes);
  std::mt19937_64 random(static_cast<std::uint64_t>(number));
  constexpr std::size_t head = 48;  // the version, the machine: those are refused
  for (std::size_t left = 1 + random() % 3; left > 0; --left) {
    char& byte = forged[plans.offset + head + random() % (plans.size - head)];
    switch (random() % 4) {
      case 0: byte = static_cast<char>(random()); break;
      case 1: byte = static_cast<char>(byte ^ (1 << random() % 8)); break;
      case 2: byte = static_cast<char>(byte + 1); break;
      default: byte = random() % 2 ? '\0' : '\377'; break;
    }
  }
  return sealed(std::move(forged));
}

std::vector<Forgeable> forgeables(const Folder& folder);

}  // namespace package_test
