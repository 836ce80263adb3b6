// SPDX-License-Identifier: MIT
// Options of a lock that no backend takes.
#include <chrono>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Lock;
using mortise::LockOptions;

namespace {

/// What() of the refusal, empty if nothing was refused.
template <class Backend>
std::string refusal(Backend& backend, LockOptions const& options) {
  try {
    Lock const lock{backend, "lock", options};
  } catch (mortise::Error const& error) {
    if (error.errc() == Errc::invalid_option && !error.retryable() && !error.in_doubt()) return error.what();
  }
  return {};
}

}  // namespace

TEMPLATE_TEST_CASE("a TTL that is not positive, or out of range, is refused by name and value", "", InRedis, InMemory, InQuorum) {
  TestType store;
  CHECK_THAT(refusal(store.backend(), {.ttl = 0ms}), support::contains("ttl is 0ms"));
  CHECK_THAT(refusal(store.backend(), {.ttl = -1ms}), support::contains("ttl is -1ms"));
  CHECK_THAT(refusal(store.backend(), {.ttl = milliseconds::min()}), support::contains("ttl"));
  CHECK_THAT(refusal(store.backend(), {.ttl = milliseconds::max()}), support::contains("ttl"));
  CHECK_THAT(refusal(store.backend(), {.ttl = 24h * 365 * 11}), support::contains("ttl"));
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("a TTL of 0.4 ms is rounded up where its caller rounds it, and then is too short to be held", "", InRedis, InMemory, InQuorum) {
  TestType store;
  CHECK_THAT(refusal(store.backend(), {.ttl = std::chrono::ceil<milliseconds>(400us)}), support::contains("ttl is 1ms"));
}

TEMPLATE_TEST_CASE("the shortest and the longest TTL are taken", "", InRedis, InMemory, InQuorum) {
  TestType store;
  CHECK(refusal(store.backend(), {.ttl = 3ms}).empty());
  Lock longest{store.backend(), "lock", {.ttl = 24h * 365 * 10}};
  auto lease = longest.acquire();
  CHECK(lease.held());
  CHECK(lease.remaining() > 24h * 365 * 9);
  CHECK(lease.extend());
  CHECK(lease.release());
}

TEMPLATE_TEST_CASE("a max_hold that is not positive is refused", "", InRedis, InMemory, InQuorum) {
  TestType store;
  CHECK_THAT(refusal(store.backend(), {.max_hold = 0ms}), support::contains("max_hold is 0ms"));
  CHECK_THAT(refusal(store.backend(), {.max_hold = -5ms}), support::contains("max_hold is -5ms"));
  CHECK(refusal(store.backend(), {.max_hold = milliseconds::max()}).empty());
}
