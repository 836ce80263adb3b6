// SPDX-License-Identifier: MIT
// Turns lock events into Prometheus text: counters by kind and lock, and how long callers waited and holders held. Runs
// without a server, on the memory backend; with a Client the observer goes into ClientOptions.
#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <mortise/mortise.hpp>
#include <mortise/testing/memory_backend.hpp>

using namespace std::chrono_literals;

/// Filled on the library's herald thread, read by whoever serves /metrics.
class LockMetrics {
 public:
  void operator()(mortise::Event const& event) {
    std::lock_guard const guard{mutex_};
    auto const kind = std::string{to_string(event.kind)};
    ++events_[{kind, event.name}];
    switch (event.kind) {
      case mortise::Event::Kind::granted:
      case mortise::Event::Kind::handed_over:
      case mortise::Event::Kind::waited: waited_[event.name].add(event.duration); break;
      case mortise::Event::Kind::released:
      case mortise::Event::Kind::lost: held_[event.name].add(event.duration); break;
      default: break;
    }
  }

  std::string text() const {
    std::lock_guard const guard{mutex_};
    std::ostringstream out;
    out << "# HELP mortise_events_total What happened to locks.\n# TYPE mortise_events_total counter\n";
    for (auto const& [key, count] : events_)
      out << "mortise_events_total{kind=\"" << key.first << "\",lock=\"" << label(key.second) << "\"} " << count << '\n';
    write(out, "mortise_wait_seconds", "From the call to the grant or the end of the wait.", waited_);
    write(out, "mortise_held_seconds", "From the grant to release or loss.", held_);
    return out.str();
  }

 private:
  struct Sum {
    double seconds{};
    unsigned long count{};
    void add(std::chrono::nanoseconds span) {
      seconds += std::chrono::duration<double>(span).count();
      ++count;
    }
  };
  using Sums = std::map<std::string, Sum>;

  /// Lock names are any bytes: what Prometheus reserves is escaped.
  static std::string label(std::string const& name) {
    std::string out;
    for (char const c : name) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    return out;
  }

  static void write(std::ostream& out, char const* metric, char const* help, Sums const& sums) {
    out << "# HELP " << metric << ' ' << help << "\n# TYPE " << metric << " summary\n";
    for (auto const& [name, sum] : sums)
      out << metric << "_sum{lock=\"" << label(name) << "\"} " << sum.seconds << '\n'
          << metric << "_count{lock=\"" << label(name) << "\"} " << sum.count << '\n';
  }

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, unsigned long> events_;
  Sums waited_, held_;
};

int main() {
  LockMetrics metrics;
  mortise::testing::MemoryBackend backend{[&](mortise::Event const& event) { metrics(event); }};
  mortise::Lock report{backend, "lock:report", {.ttl = 3s}};

  auto first = report.try_acquire();
  std::jthread waiter{[&] {
    if (auto second = report.acquire_for(1min)) second->release();
  }};
  if (report.try_acquire()) return 1;  // busy
  backend.advance(7s);                 // renewed meanwhile
  first.reset();
  waiter.join();
  backend.advance(0s);  // delivers what has happened since
  std::cout << metrics.text();
  return metrics.text().find("kind=\"renewed\",lock=\"lock:report\"} 7") == std::string::npos ? 1 : 0;
}
