// SPDX-License-Identifier: MIT
#include "store.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace simulation {
namespace {

constexpr std::int64_t fence_limit = 9'007'199'254'740'992;
constexpr std::int64_t clamp_by = 60'000'000;
constexpr char wrong_type[] = "WRONGTYPE Operation against a key holding the wrong kind of value";
constexpr char exhausted[] = "FENCE counter exhausted";

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

ScriptAnswer failed(char const* error) { return {.error = error, .one_number = false, .numbers = {}}; }
ScriptAnswer numbers(std::vector<std::int64_t> values) { return {.error = {}, .one_number = false, .numbers = std::move(values)}; }

}  // namespace

auto Store::find(std::string const& key) -> Value* {
  auto const found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  if (found->second.expires != 0 && milliseconds() > found->second.expires) {
    keys_.erase(found);
    return nullptr;
  }
  return &found->second;
}

std::optional<std::string> Store::get(std::string const& key) {
  auto const* const value = find(key);
  if (value == nullptr || value->is_list) return std::nullopt;
  return value->text;
}

bool Store::set(std::string const& key, std::string text, std::int64_t ttl, bool only_new) {
  if (only_new && find(key) != nullptr) return false;
  keys_[key] = Value{.text = std::move(text), .list = {}, .is_list = false, .expires = ttl == 0 ? 0 : milliseconds() + ttl};
  return true;
}

void Store::set_list(std::string const& key, std::string element, std::int64_t ttl) {
  keys_[key] = Value{.text = {}, .list = {std::move(element)}, .is_list = true, .expires = milliseconds() + ttl};
}

bool Store::compare_and_delete(std::string const& key, std::string const& value) { return get(key) == value && keys_.erase(key) > 0; }

std::optional<std::string> Store::pop_front(std::string const& key) {
  auto* const value = find(key);
  if (value == nullptr || !value->is_list) return std::nullopt;
  auto front = std::move(value->list.front());
  value->list.pop_front();
  if (value->list.empty()) keys_.erase(key);
  return front;
}

std::int64_t Store::pttl(std::string const& key) {
  auto const* const value = find(key);
  if (value == nullptr) return -2;
  return value->expires == 0 ? -1 : value->expires - milliseconds();
}

void Store::expire_in(std::string const& key, std::int64_t ttl) {
  if (auto* const value = find(key)) value->expires = milliseconds() + ttl;
}

std::vector<std::string> Store::names() {
  std::vector<std::string> all;
  for (auto const& [key, value] : std::map<std::string, Value>{keys_})
    if (find(key) != nullptr) all.push_back(key);
  return all;
}

std::int64_t Store::counter(std::string const& key) {
  auto const text = get(key);
  return text ? number(*text).value_or(0) : 0;
}

std::optional<std::int64_t> Store::next_fence(LockNames const& keys, std::int64_t floor) {
  auto const clamped = std::min(std::max(floor, now_ - clamp_by), now_ + clamp_by);
  auto const fence = broken_ == Break::fence_is_the_clock ? clamped : std::max(counter(keys.fence) + 1, clamped);
  return fence < fence_limit ? std::optional{fence} : std::nullopt;
}

std::int64_t Store::mint(LockNames const& keys, std::int64_t fence, std::int64_t retention) {
  set(keys.fence, std::to_string(fence), retention);
  return fence;
}

ScriptAnswer Store::acquire(LockNames const& keys, std::vector<std::string> const& arguments) {
  auto const& token = arguments[0];
  auto const ttl = number(arguments[1]).value_or(0);
  auto const floor = number(arguments[2]).value_or(0);
  auto const retention = number(arguments[3]).value_or(0);
  auto const wait = number(arguments[4]).value_or(0);
  auto const& popped = arguments[5];

  if (popped.empty() && (wait == 0 || find(keys.wait) == nullptr)) {
    auto const fence = next_fence(keys, floor);
    if (fence && set(keys.lock, token, ttl, true)) return numbers({1, mint(keys, *fence, retention), now_});
  }
  auto const* const there = find(keys.lock);
  if (there != nullptr && there->is_list) return failed(wrong_type);
  auto const owner = there != nullptr ? std::optional{there->text} : std::nullopt;
  if (owner == token) {
    if (broken_ == Break::repeat_sets_expiry || pttl(keys.lock) < ttl) expire_in(keys.lock, ttl);
    auto const last = get(keys.fence);
    auto const known = last ? number(*last) : std::nullopt;
    return numbers({1, known ? *known : mint(keys, next_fence(keys, floor).value_or(0), retention), now_});
  }
  if (owner && owner->starts_with("h:")) {
    auto const fence = owner->substr(2);
    auto const blocked_until = popped.starts_with('*') ? number(std::string_view{popped}.substr(1)) : std::nullopt;
    if (pop_front(keys.wake) == fence || (!popped.empty() && popped == fence) ||
        (blocked_until && now_ < *blocked_until && get(keys.fence) == fence)) {
      set(keys.lock, token, ttl);
      return numbers({1, number(fence).value_or(0), now_});
    }
  }
  if (!owner && popped.empty() && !next_fence(keys, floor)) return failed(exhausted);
  if (popped.empty() && wait > 0 && pttl(keys.wait) < wait) set(keys.wait, "1", wait);
  return numbers({0, pttl(keys.lock), now_});
}

ScriptAnswer Store::keep(LockNames const& keys, std::vector<std::string> const& arguments) {
  auto const& token = arguments[0];
  auto const ttl = number(arguments[1]).value_or(0);
  auto const fence = number(arguments[2]).value_or(0);
  auto const retention = number(arguments[3]).value_or(0);
  ScriptAnswer answer{.error = {}, .one_number = true, .numbers = {0}};

  if (broken_ == Break::no_raise) {
    if (pttl(keys.lock) >= 0 && pttl(keys.lock) < ttl) expire_in(keys.lock, ttl);
    answer.numbers = {1};
    return answer;
  }
  expire_in(keys.fence, retention);
  auto const last = counter(keys.fence);
  if (get(keys.lock) != token || last > fence) return answer;
  if (last < fence) set(keys.fence, arguments[2], retention);
  if (pttl(keys.lock) < ttl) expire_in(keys.lock, ttl);
  answer.numbers = {1};
  return answer;
}

ScriptAnswer Store::release(LockNames const& keys, std::vector<std::string> const& arguments) {
  auto const& owner = arguments[0];
  auto const claim = number(arguments[1]).value_or(0);
  auto const floor = number(arguments[2]).value_or(0);
  auto const retention = number(arguments[3]).value_or(0);
  auto const wait = number(arguments[4]).value_or(0);
  bool const nudge = owner.empty();

  auto const* const there = find(keys.lock);
  if (there != nullptr && there->is_list && nudge) return failed(wrong_type);
  bool const text = there != nullptr && !there->is_list;
  bool mine = nudge ? there == nullptr : text && there->text == owner;
  if (broken_ == Break::nudge_takes_empty_value && nudge) mine = there == nullptr || (text && there->text.empty());
  if (broken_ == Break::no_nudge && nudge) mine = false;
  if (broken_ == Break::release_without_owner && !nudge) mine = text && !there->text.starts_with("h:");

  if (mine && wait == 0 && find(keys.wait) == nullptr) {
    remove(keys.lock);
    remove(keys.wake);
    return numbers({1, -2});
  }
  if (mine) remove(keys.wake);
  if (wait > 0 && pttl(keys.wait) < wait) set(keys.wait, "1", wait);
  if (!mine) return numbers({0, pttl(keys.lock)});

  auto const fence = next_fence(keys, floor);
  if (!fence) {
    if (nudge) return failed(exhausted);
    remove(keys.lock);
    return numbers({1, -2});
  }
  mint(keys, *fence, retention);
  set(keys.lock, "h:" + std::to_string(*fence), claim);
  set_list(keys.wake, std::to_string(*fence), claim);
  return numbers({1, claim});
}

}  // namespace simulation
