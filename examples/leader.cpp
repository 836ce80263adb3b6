// SPDX-License-Identifier: MIT
// One process of several does the work; when it stops the next takes over at once, when it dies, after its TTL. Start it
// several times and end the one that leads, by ctrl-c or by kill -9.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <mortise/mortise.hpp>

using namespace std::chrono_literals;

namespace {

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

int main() try {
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });

  char const* const uri = std::getenv("MORTISE_REDIS");
  mortise::Client redis{uri != nullptr ? uri : "redis://localhost:6379"};
  mortise::Leader leader{redis, "lock:leader", {.ttl = 5s}};

  std::stop_source quit;
  std::jthread const watching{[&quit](std::stop_token done) {
    while (interrupted == 0 && !done.stop_requested()) std::this_thread::sleep_for(50ms);
    quit.request_stop();
  }};

  std::cout << "standing for election\n" << std::flush;
  bool const led = leader.run(
      [](std::stop_token stop, mortise::Fence fence) {
        std::cout << "leading, with fence " << fence.value << '\n' << std::flush;
        while (!stop.stop_requested()) std::this_thread::sleep_for(50ms);  // the work; whatever it writes carries the fence
        std::cout << "stopping\n" << std::flush;
      },
      quit.get_token());
  std::cout << (led ? "handed over\n" : "was never elected\n");
  return EXIT_SUCCESS;
} catch (mortise::Error const& error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
