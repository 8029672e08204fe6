// A rank for the launcher's tests: does what its first argument says, one letter for each rank.
//   o  returns 0             e  says "disk full" and exits 3        k  kills itself
//   d  the same, once another is deaf
//   h  hangs, deaf to SIGTERM; says when it is told to stop
//   w  waits until it is told to stop, then exits 130
//   l  waits until another goes (k), then exits 4 ("I lost a peer")
//   s  meets the others in the store and returns 0
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "backend/rendezvous/environment.h"
#include "backend/rendezvous/tcp_store.h"

namespace {

volatile std::sig_atomic_t told_to_stop = 0;

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

[[noreturn]] void hang(shardscope::TcpStore store) {
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, [](int) { told_to_stop = 1; });
  store.set("deaf", "");
  std::fprintf(stderr, "process %d\n", ::getpid());
  while (true) {
    nap();
    if (told_to_stop) std::fprintf(stderr, "told\n");
    told_to_stop = 0;
  }
}

int wait_for_stop() {
  std::signal(SIGINT, [](int) { told_to_stop = 1; });
  std::signal(SIGTERM, [](int) { told_to_stop = 1; });
  std::fprintf(stderr, "waiting\n");
  while (!told_to_stop) nap();
  return 130;
}

}  // namespace

int main(int, char** arguments) {
  using namespace shardscope;
  const Environment place = read_environment(process_variables());
  const auto store = [&] {
    return TcpStore(place.meeting_point.address, place.meeting_point.port, std::chrono::minutes(1));
  };
  const std::string letters = arguments[1];
  std::printf("output of rank %d\n", place.rank);
  std::fflush(stdout);
  switch (letters[static_cast<std::size_t>(place.rank)]) {
    case 'o':
      return 0;
    case 'd':
      store().get("deaf");
      [[fallthrough]];
    case 'e':
      std::fprintf(stderr, "step 1\ndisk full\n");
      return 3;
    case 'k':
      std::fprintf(stderr, "before the end");
      store().set("going", "");
      nap();
      ::kill(::getpid(), SIGKILL);
      return 0;
    case 'h':
      hang(store());
    case 'w':
      return wait_for_stop();
    case 'l':
      store().get("going");
      std::fprintf(stderr, "lost rank 1\n");
      return 4;
    case 's':
      store().barrier("all here", place.world);
      std::fprintf(stderr, "met\n");
      return 0;
  }
  return 2;
}
