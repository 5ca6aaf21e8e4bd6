// Until the end of the block a write of this thread beyond the process's file size limit (ulimit -f) fails with EFBIG.
// The signal that comes with it, SIGXFSZ, would end the host.
#pragma once
#include <signal.h>

#include <cerrno>
#include <ctime>

namespace weft {

class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  ~NoFileSizeSignal() {
    const int reason = errno;
    constexpr timespec none{};
    while (!was_pending_ && sigtimedwait(&only_, nullptr, &none) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = reason;
  }

 private:
  sigset_t only_, before_;
  bool was_pending_;
};

}  // namespace weft
