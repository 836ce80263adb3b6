// SPDX-License-Identifier: MIT
// Model of the lock on one server: ACQUIRE, KEEP, RELEASE, the hand-off through the wake list, nudges, and clients that wait,
// die, give up and repeat themselves. Time is ticks. docs/protocol.md has the rules.
//
// Two ways of time. Timed: live clients act before the next tick, a live holder renews: order and progress can be checked.
// With pauses: everybody may stand still anywhere for as long as they like: exclusion and fences have to hold all the same.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "explorer.hpp"

namespace {

using models::Label;

/// Ways to get it wrong.
enum class Flaw : std::uint8_t {
  none,
  fence_apart,             // INCR as a command of its own behind SET NX
  keep_without_owner,      // KEEP lengthens whatever is there, and is believed
  release_without_owner,   // DEL without looking
  repeat_shortens,         // an ACQUIRE of the owner sets the expiry instead of lengthening it
  repeat_leaves_lease,     // ... or leaves it alone, and yet the answer is believed for a whole TTL
  validity_from_answer,    // the clock of a lease starts when the answer is read
  token_used_again,        // a second acquisition carries the token that the first gave up
  not_settled,             // a doubtful request is left alone
  wait_overwritten,        // "somebody waits" is set to the last waiter's time instead of lengthened
  no_nudge,
  nudge_compares_empty,    // the nudge takes an empty value for no value
  pop_renewed,             // a waiter ends its pop to look, and pops again
  claim_without_bound,     // '*' takes any reservation, also behind a pop that timed out
  timed_out_claim_takes,   // the claim behind a pop that timed out takes a free lock
};

enum Check : unsigned {
  exclusion = 1,   // S1: inside its belief a client owns the key
  fences = 2,      // S2: fences rise from grant to grant
  order = 4,       // nobody blocked is passed by one who blocked later
  newcomers = 8,   // nobody blocked is passed by one who has not blocked yet, but a try
  progress = 16,   // not too long without a live holder while a live client waits
  leftovers = 32,  // two TTLs later nothing is there; a token that is done with owns nothing
  foreigners = 64, // a foreign lock is never taken
};

struct Setup {
  int clients{3};
  int ttl{4}, claim{2}, brief{2}, poll{3}, life{7};
  bool pauses{false};
  int crashes{0};   // of processes, connections closed or left open
  int foreign{0};   // times a foreign client takes the lock by SET NX
  int copies{0};    // answers that are lost, and requests that arrive again at any later time
  int breaks{0};    // connections of waiters, noticed by the server or not
  int tries{0};     // so many of the clients only try
  bool again{false};  // who gave up comes once more
  int third_life{0};  // wait_overwritten: the third client's
  unsigned idle_bound{0};
  unsigned checks{exclusion | fences | order | newcomers | progress | leftovers | foreigners};
  Flaw flaw{Flaw::none};
};

enum Phase : std::uint8_t { out, asking, minting, unread, told_busy, blocked, served, popped, holding, leaving, done, dead };

constexpr int most_clients = 5;
constexpr std::uint8_t nobody = 0, foreign_owner = 30, reserved = 31, no_fence = 0, old_connection = 16;

struct Client {
  std::uint8_t phase, valid, fence, place, nudge, popped_fence;
  std::uint8_t copy;     // of its ACQUIRE on the way: 1 plain, 2 with a popped fence
  std::uint8_t keep;     // of its KEEP on the way: the fence it carries
  std::uint8_t undo;     // a RELEASE of its first token is on the way
  std::uint8_t attempt;  // 0 or 1: which of its tokens
  std::uint8_t doubt;    // ticks until what a lost request may have set is gone
  std::uint8_t too_late; // a copy of its ACQUIRE came when its settling had ended: it costs a lease, and nothing else
};

struct HandoffState {
  std::uint8_t owner, lease, last, newest, newest_owner, element, waits, in_line, idle, quiet;
  std::uint8_t crashed, foreign_used, copies_used, breaks_used;
  std::array<std::uint8_t, 2 * most_clients> line;
  std::array<Client, most_clients> clients;
  std::array<std::uint8_t, 4> spare;
};
static_assert(sizeof(HandoffState) == 88);

class HandoffModel {
 public:
  using State = HandoffState;

  explicit HandoffModel(Setup const& setup) : s_{setup} {}

  std::vector<State> starts() const { return {State{}}; }
  unsigned measure(State const& s) const { return s.idle; }

  template <class Emit>
  void steps(State const& s, Emit&& emit) const {
    Step<Emit> const step{*this, emit};
    for (int i = 0; i < s_.clients; ++i) client_steps(s, i, step);
    for (int i = 0; i < s_.clients; ++i) {
      death_steps(s, i, step);
      nudge_step(s, i, step);
    }
    foreign_steps(s, step);
    tick(s, step);
  }

  void canonical(State& s) const {
    for (int i = 0; i < most_clients; ++i) {
      auto& c = s.clients[i];
      bool const waits = is_waiting(c);
      if (c.phase == done || c.phase == dead) c.fence = c.place = c.popped_fence = c.valid = 0;
      if (c.phase != holding && c.phase != asking && c.phase != unread && c.phase != minting) c.valid = 0;
      if (s_.pauses || !waits || s_.flaw == Flaw::no_nudge) c.nudge = 0;
      if (c.copy == 0) c.doubt = 0;
    }
    if (s.owner == nobody) s.lease = 0;
    if (s.owner != reserved) s.element = 0;  // the wake list dies with its reservation
    std::array<std::uint8_t, most_clients> places{};
    int count = 0;
    for (auto const& c : s.clients)
      if (c.place != 0) places[count++] = c.place;
    std::sort(places.begin(), places.begin() + count);
    for (auto& c : s.clients)
      if (c.place != 0) c.place = static_cast<std::uint8_t>(std::lower_bound(places.begin(), places.begin() + count, c.place) - places.begin() + 1);
    // Of fences only order and equality matter.
    std::array<std::uint8_t, 3 + 3 * most_clients> values{};
    count = 0;
    auto const note = [&](std::uint8_t value) {
      if (value != no_fence) values[count++] = value;
    };
    note(s.last), note(s.newest), note(s.element);
    for (auto const& c : s.clients) note(c.fence), note(c.popped_fence), note(c.keep);
    std::sort(values.begin(), values.begin() + count);
    auto const end = std::unique(values.begin(), values.begin() + count);
    auto const rank = [&](std::uint8_t& value) {
      if (value != no_fence) value = static_cast<std::uint8_t>(std::lower_bound(values.begin(), end, value) - values.begin() + 1);
    };
    rank(s.last), rank(s.newest), rank(s.element);
    for (auto& c : s.clients) rank(c.fence), rank(c.popped_fence), rank(c.keep);
  }

  std::string show(State const& s) const {
    static constexpr std::array names{"out", "asks", "mints", "granted", "busy", "blocked", "served", "popped", "HOLDS", "gives up", "done", "dead"};
    std::string text = "lock=";
    if (s.owner == nobody) text += "-";
    else if (s.owner == foreign_owner) text += "foreign";
    else if (s.owner == reserved) text += "h:" + std::to_string(s.last);
    else text += std::string(1, static_cast<char>('a' + client_of(s.owner))) + (attempt_of(s.owner) != 0 ? "2" : "");
    text += "(" + std::to_string(s.lease) + ") fence=" + std::to_string(s.last) + " wait=" + std::to_string(s.waits) + " line=";
    for (int i = 0; i < s.in_line; ++i) text += static_cast<char>((s.line[i] >= old_connection ? 'A' : 'a') + s.line[i] % old_connection);
    if (s.element != no_fence) text += " wake=" + std::to_string(s.element);
    for (int i = 0; i < s_.clients; ++i) {
      auto const& c = s.clients[i];
      if (c.phase == out) continue;
      text += std::string("  ") + static_cast<char>('a' + i) + ":" + names[c.phase];
      if (c.fence != no_fence) text += "#" + std::to_string(c.fence);
      if (s_.pauses && c.phase == holding) text += "(" + std::to_string(c.valid) + ")";
      if (c.copy != 0) text += "+acquire";
      if (c.keep != 0) text += "+keep";
      if (c.undo != 0) text += "+release";
    }
    return text;
  }

 private:
  /// Hands a state on, once it has been looked at.
  template <class Emit>
  struct Step {
    HandoffModel const& model;
    Emit& emit;
    void operator()(State const& to, Label const& label, char const* wrong = nullptr) const {
      emit(to, label, wrong != nullptr ? wrong : model.wrong_with(to));
    }
  };

  bool checks(Check what) const { return (s_.checks & what) != 0; }
  bool tries(int i) const { return i >= s_.clients - s_.tries; }
  static std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }
  static int client_of(std::uint8_t token) { return (token - 1) / 2; }
  static int attempt_of(std::uint8_t token) { return (token - 1) % 2; }
  std::uint8_t token_of(State const& s, int i) const {
    return byte(1 + 2 * i + (s_.flaw == Flaw::token_used_again ? 0 : s.clients[i].attempt));
  }
  static std::uint8_t first_token(int i) { return byte(1 + 2 * i); }
  static bool is_waiting(Client const& c) {
    return c.phase == told_busy || c.phase == blocked || c.phase == served || c.phase == popped || (c.phase == asking && c.place != 0);
  }
  static bool stands(Client const& c) {  // blocked once, and not yet in
    return c.phase == blocked || c.phase == served || c.phase == popped || (c.phase == asking && c.place != 0 && c.popped_fence != 0);
  }
  int life(int i) const { return s_.third_life != 0 && i == 2 ? s_.third_life : s_.life; }
  int poll(int i) const { return s_.third_life != 0 && i == 2 ? s_.third_life - 1 : s_.poll; }

  // --- the server

  void somebody_waits(State& s, int life) const {
    s.waits = s_.flaw == Flaw::wait_overwritten ? byte(life) : std::max(s.waits, byte(life));
  }

  void leave_line(State& s, std::uint8_t who) const {
    auto const end = std::remove(s.line.begin(), s.line.begin() + s.in_line, who);
    std::fill(end, s.line.begin() + s.in_line, std::uint8_t{0});
    s.in_line = byte(static_cast<int>(end - s.line.begin()));
  }

  /// A grant: what has to be true of it.
  char const* granted(State& s, int i, std::uint8_t fence, bool heard) const {
    auto const token = token_of(s, i);
    char const* wrong = nullptr;
    if (checks(fences) && fence != no_fence && fence <= s.newest && s.newest_owner != token) wrong = "S2: a grant's fence is not larger than that of the grant before";
    s.newest = fence;
    s.newest_owner = token;
    if (!heard || wrong != nullptr) return wrong;
    for (int other = 0; other < s_.clients; ++other) {
      auto const& o = s.clients[other];
      if (other == i || !stands(o)) continue;
      auto const own = s.clients[i].place;
      if (checks(order) && own != 0 && o.place < own) return "order: a blocked waiter is passed by one who blocked later";
      if (checks(newcomers) && own == 0 && !tries(i)) return "order: a blocked waiter is passed by a newcomer";
    }
    return nullptr;
  }

  struct Claim {
    bool is{false};       // stands behind a pop, or follows one
    bool proven{false};   // '*': in time, or not to be doubted
    std::uint8_t fence{no_fence};
    int lease{0};
    bool timed_out{false};
  };

  /// The ACQUIRE script. True: granted, with s.clients[i].fence if it is heard.
  bool acquire(State& s, int i, Claim const& claim, bool heard, char const*& wrong) const {
    auto& c = s.clients[i];
    auto const token = token_of(s, i);
    auto const lease = byte(claim.lease != 0 ? claim.lease : s_.ttl);
    auto const take = [&](std::uint8_t fence, bool fresh) {
      s.owner = token;
      if (fresh) wrong = wrong != nullptr ? wrong : granted(s, i, fence, heard);
      if (heard) c.fence = fence;
      return true;
    };
    bool const free_path = !claim.is && (tries(i) || s.waits == 0);
    if (s.owner == nobody && (free_path || (s_.flaw == Flaw::timed_out_claim_takes && claim.timed_out))) {
      s.lease = lease;
      if (s_.flaw == Flaw::fence_apart) {
        s.newest = no_fence;
        s.newest_owner = token;
        s.owner = token;
        if (heard) c.fence = no_fence;
        return true;
      }
      return take(++s.last, true);
    }
    if (s.owner == token) {
      if (s_.flaw == Flaw::repeat_shortens) s.lease = lease;
      else if (s_.flaw != Flaw::repeat_leaves_lease) s.lease = std::max(s.lease, lease);
      return take(s.last, false);
    }
    if (s.owner == reserved) {
      bool const nobody_was_blocked = s.element == s.last;
      s.element = no_fence;
      if (nobody_was_blocked || (claim.is && (claim.proven || claim.fence == s.last))) {
        s.lease = lease;
        return take(s.last, true);
      }
    }
    if (!claim.is && !tries(i)) somebody_waits(s, life(i));
    return false;
  }

  /// The claim that stands behind the pop of client i, which a dead or broken client may not hear.
  char const* run_claim(State& s, int i, bool in_time, bool timed_out) const {
    auto& c = s.clients[i];
    char const* wrong = nullptr;
    bool const hears = c.phase != dead;
    Claim const claim{.is = true, .proven = in_time || s_.flaw == Flaw::claim_without_bound, .fence = {}, .lease = s_.brief, .timed_out = timed_out};
    bool const in = acquire(s, i, claim, hears, wrong);
    if (!hears) return wrong;
    if (in) {
      c.phase = holding;
      c.place = 0;
      c.popped_fence = no_fence;
      c.valid = s_.pauses ? byte(s_.brief) : std::uint8_t{0};
    } else if (timed_out) {
      c.phase = done;
      c.place = 0;
    } else {
      c.phase = popped;
    }
    return wrong;
  }

  /// Elements go to whoever has been blocked longest.
  void serve(State& s) const {
    while (s.element != no_fence && s.in_line > 0) {
      auto const head = s.line[0];
      auto const element = std::exchange(s.element, no_fence);
      leave_line(s, head);
      auto& c = s.clients[head % old_connection];
      char const* ignored = nullptr;
      if (head >= old_connection) {  // an old connection the server believes in: the claim runs for the same token
        acquire(s, head % old_connection, {.is = true, .proven = true, .fence = {}, .lease = s_.brief}, false, ignored);
      } else if (c.phase == blocked) {
        c.phase = served;
        c.popped_fence = element;
      } else if (c.phase == dead) {
        run_claim(s, head, true, false);
      }
    }
  }

  void reserve(State& s) const {
    s.owner = reserved;
    s.lease = byte(s_.claim);
    s.element = ++s.last;
    serve(s);
  }

  void release(State& s, std::uint8_t token) const {
    bool const mine = s.owner == token || (s_.flaw == Flaw::release_without_owner && s.owner != nobody && s.owner != reserved);
    if (!mine) return;
    if (s.waits != 0) {
      reserve(s);
    } else {
      s.owner = nobody;
      s.lease = 0;
    }
  }

  bool keep(State& s, std::uint8_t token, std::uint8_t fence) const {
    if (s_.flaw == Flaw::keep_without_owner) {
      if (s.owner != nobody) s.lease = std::max(s.lease, byte(s_.ttl));
      return true;
    }
    if (s.owner != token || s.last > fence) return false;
    s.lease = std::max(s.lease, byte(s_.ttl));
    return true;
  }

  // --- the clients

  void ask(State& s, int i) const {
    s.clients[i].phase = asking;
    s.clients[i].valid = s_.pauses ? byte(s_.ttl) : std::uint8_t{0};  // from before the send
  }

  void answer(State& s, int i, bool in) const {
    auto& c = s.clients[i];
    if (in) {
      c.place = 0;
      c.popped_fence = no_fence;
      c.phase = c.fence == no_fence ? minting : s_.flaw == Flaw::validity_from_answer ? unread : holding;
    } else if (tries(i)) {
      c.phase = done;
    } else {
      c.phase = told_busy;
      c.place = 0;
      c.popped_fence = no_fence;
      c.nudge = byte(std::min<int>(poll(i), s.owner == nobody ? 0 : s.lease));
    }
  }

  template <class Go>
  void client_steps(State const& s, int i, Go const& go) const {
    auto const& c = s.clients[i];
    State t;
    auto const begin = [&]() -> Client& {
      t = s;
      t.quiet = 0;
      return t.clients[i];
    };
    char const* wrong = nullptr;

    if (c.copy != 0) {
      begin().copy = 0;
      if (c.phase == done && c.doubt == 0) t.clients[i].too_late = 1;
      acquire(t, i, {.is = c.copy == 2, .proven = false, .fence = c.popped_fence}, false, wrong);
      go(t, {"a copy of @'s ACQUIRE arrives", i}, std::exchange(wrong, nullptr));
    }
    if (c.keep != 0) {
      begin().keep = 0;
      keep(t, token_of(s, i), c.keep);
      go(t, {"a copy of @'s KEEP arrives", i});
    }
    if (c.undo != 0) {
      begin().undo = 0;
      release(t, first_token(i));
      go(t, {"a RELEASE of @'s first token arrives", i});
    }

    switch (c.phase) {
      case out:
        if (i > 0 && s.clients[i - 1].phase == out) break;  // they arrive in the order of their names
        begin();
        ask(t, i);
        go(t, {"@ arrives", i});
        break;
      case asking: {
        Claim const claim{.is = c.popped_fence != no_fence, .proven = false, .fence = c.popped_fence};
        begin();
        bool in = acquire(t, i, claim, true, wrong);
        answer(t, i, in);
        go(t, {in ? "@ ACQUIRE: granted" : "@ ACQUIRE: busy", i}, std::exchange(wrong, nullptr));
        if (s.copies_used < s_.copies) {
          begin().phase = asking;
          acquire(t, i, claim, true, wrong);
          t.clients[i].fence = no_fence;
          ++t.copies_used;
          ask(t, i);
          go(t, {"@ ACQUIRE is carried out, its answer lost: sent again", i}, std::exchange(wrong, nullptr));
          if (c.copy == 0) {
            begin().copy = claim.is ? 2 : 1;
            ++t.copies_used;
            ask(t, i);
            go(t, {"@ hears nothing: sent again, the first is on its way", i});
          }
        }
        break;
      }
      case minting:
        begin().fence = ++t.last;
        t.clients[i].phase = holding;
        if (t.newest_owner == token_of(s, i)) t.newest = t.last;
        else if (checks(fences) && t.newest != no_fence) wrong = "S2: a holder whose lease is over draws the larger fence";
        go(t, {"@ INCR", i}, wrong);
        break;
      case unread:
        begin().phase = holding;
        t.clients[i].valid = byte(s_.ttl);
        go(t, {"@ reads the answer", i});
        break;
      case told_busy: {
        auto& own = begin();
        if (own.place == 0) {
          std::uint8_t last = 0;
          for (auto const& other : s.clients) last = std::max(last, other.place);
          own.place = byte(last + 1);
        }
        own.phase = blocked;
        t.line[t.in_line++] = byte(i);
        serve(t);
        go(t, {"@ BLPOP and claim", i});
        break;
      }
      case blocked:
        begin();
        leave_line(t, byte(i));
        t.clients[i].popped_fence = no_fence;
        wrong = run_claim(t, i, false, true);
        go(t, {"@ its pop times out, the claim behind it runs", i}, std::exchange(wrong, nullptr));
        if (s_.flaw == Flaw::pop_renewed) {
          begin().phase = told_busy;  // keeps the place it believes to have
          leave_line(t, byte(i));
          go(t, {"@ ends its pop to look", i});
        }
        break;
      case served:
        begin();
        wrong = run_claim(t, i, true, false);
        go(t, {"@ its claim runs", i}, std::exchange(wrong, nullptr));
        begin();
        wrong = run_claim(t, i, false, false);
        go(t, {"@ its claim runs, too late to prove anything", i}, std::exchange(wrong, nullptr));
        if (s.copies_used < s_.copies) {
          begin();
          ++t.copies_used;
          wrong = run_claim(t, i, true, false);
          if (t.clients[i].phase == holding) {
            t.clients[i].fence = no_fence;
            ask(t, i);
            go(t, {"@ its claim runs, the answer is lost: asks again", i}, std::exchange(wrong, nullptr));
          }
        }
        break;
      case popped:
        begin();
        ask(t, i);
        go(t, {"@ claims by the fence it popped", i});
        break;
      case holding:
        begin().phase = c.copy != 0 ? leaving : done;  // with a copy on the way the keeper goes on releasing
        t.clients[i].doubt = byte(s_.ttl);
        release(t, token_of(s, i));
        go(t, {"@ RELEASE", i});
        if (s_.pauses && c.fence != no_fence && (c.valid > 0 || s_.flaw == Flaw::keep_without_owner)) keep_steps(s, i, go);
        break;
      case leaving: {
        auto& own = begin();
        release(t, token_of(s, i));
        bool const settled = own.copy == 0 || own.doubt == 0 || s_.flaw == Flaw::not_settled;
        if (settled) own.phase = s_.again && own.attempt == 0 ? out : done;
        if (own.phase == out) {
          own = Client{};
          own.attempt = 1;
          own.copy = c.copy;
        }
        go(t, {settled ? "@ RELEASE (gave up)" : "@ RELEASE (gave up); a copy is still on its way", i});
        if (s_.again && own.attempt == 0) {  // the RELEASE is late; it goes on with another token
          begin() = Client{};
          t.clients[i].attempt = 1;
          t.clients[i].undo = 1;
          go(t, {"@ goes on at once, its RELEASE is on the way", i});
        }
        break;
      }
      default: break;
    }
    give_up_and_break_steps(s, i, go);
    for (int k = 0; k < s.in_line; ++k) {
      if (s.line[k] == byte(i + old_connection)) {
        begin();
        leave_line(t, s.line[k]);
        acquire(t, i, {.is = true, .proven = s_.flaw == Flaw::claim_without_bound, .fence = {}, .lease = s_.brief}, false, wrong);
        go(t, {"@ old connection: the pop times out, its claim runs", i}, std::exchange(wrong, nullptr));
      } else if (s.line[k] == byte(i) && c.phase == dead) {
        begin();
        leave_line(t, byte(i));
        wrong = run_claim(t, i, false, true);
        go(t, {"@ (dead): the pop times out, its claim runs", i}, std::exchange(wrong, nullptr));
      }
    }
  }

  template <class Go>
  void keep_steps(State const& s, int i, Go const& go) const {
    auto const& c = s.clients[i];
    State t = s;
    bool const kept = keep(t, token_of(s, i), c.fence);
    if (kept) t.clients[i].valid = std::max(c.valid, byte(s_.ttl));
    else t.clients[i].phase = leaving;
    go(t, {kept ? "@ KEEP: kept" : "@ KEEP: lost", i});
    if (kept && s.copies_used < s_.copies && c.keep == 0) {
      ++t.copies_used;
      t.clients[i].keep = c.fence;
      go(t, {"@ KEEP: kept, a copy is on its way", i});
    }
  }

  template <class Go>
  void give_up_and_break_steps(State const& s, int i, Go const& go) const {
    auto const& c = s.clients[i];
    bool const may_leave = c.phase == told_busy || c.phase == blocked || c.phase == served || c.phase == popped ||
                           (c.phase == asking && !tries(i) && (c.copy != 0 || c.popped_fence != no_fence || s_.again));
    State t = s;
    t.quiet = 0;
    if (may_leave) {  // hangs up: an element that was popped for it is lost for as long as its reservation lasts
      leave_line(t, byte(i));
      t.clients[i].phase = s_.flaw == Flaw::not_settled ? done : leaving;
      t.clients[i].place = 0;
      t.clients[i].popped_fence = c.copy == 2 ? c.popped_fence : no_fence;
      t.clients[i].doubt = c.copy != 0 ? byte(s_.ttl) : std::uint8_t{0};
      go(t, {"@ gives up", i});
      if (c.phase == asking && s_.copies > s.copies_used && c.copy == 0) {
        ++t.copies_used;
        t.clients[i].copy = 1;
        t.clients[i].doubt = byte(s_.ttl);
        go(t, {"@ gives up, its ACQUIRE is on the way", i});
      }
    }
    if (s.breaks_used < s_.breaks && (c.phase == told_busy || c.phase == blocked || c.phase == served || c.phase == popped)) {
      for (bool const noticed : {true, false}) {
        if (!noticed && c.phase != blocked) continue;
        t = s;
        t.quiet = 0;
        ++t.breaks_used;
        if (noticed) leave_line(t, byte(i));
        else std::replace(t.line.begin(), t.line.begin() + t.in_line, byte(i), byte(i + old_connection));
        t.clients[i].place = 0;
        t.clients[i].popped_fence = no_fence;
        ask(t, i);
        go(t, {noticed ? "@'s connection breaks: asks again over another" : "@ is kicked and asks again; the server still believes in its old connection", i});
      }
    }
  }

  template <class Go>
  void death_steps(State const& s, int i, Go const& go) const {
    auto const phase = s.clients[i].phase;
    if (s.crashed >= s_.crashes || phase == out || phase == done || phase == dead) return;
    for (bool const closed : {true, false}) {
      State t = s;
      t.quiet = 0;
      ++t.crashed;
      bool const runs = !closed && phase == served;
      t.clients[i].phase = dead;
      if (closed) leave_line(t, byte(i));
      else if (phase != blocked && phase != served) continue;  // nothing of it is left at the server
      if (runs) run_claim(t, i, true, false);
      go(t, {closed ? "@ DIES" : "@ DIES, its connection stays open", i});
    }
  }

  template <class Go>
  void nudge_step(State const& s, int i, Go const& go) const {
    auto const& c = s.clients[i];
    if (s_.flaw == Flaw::no_nudge || !is_waiting(c) || (!s_.pauses && c.nudge != 0)) return;
    State t = s;
    t.quiet = 0;
    somebody_waits(t, life(i));
    char const* wrong = nullptr;
    bool const takes_empty = s_.flaw == Flaw::nudge_compares_empty && s.owner == foreign_owner;
    if (takes_empty && checks(foreigners)) wrong = "a foreign lock with an empty value is taken";
    if (s.owner == nobody || takes_empty) reserve(t);
    t.clients[i].nudge = byte(std::min(poll(i), std::max<int>(t.lease, 1)));
    go(t, {"@ nudges", i}, wrong);
  }

  template <class Go>
  void foreign_steps(State const& s, Go const& go) const {
    State t = s;
    t.quiet = 0;
    if (s.owner == nobody && s.foreign_used < s_.foreign) {
      ++t.foreign_used;
      t.owner = foreign_owner;
      t.lease = byte(s_.ttl);
      go(t, {"a foreign client takes the lock"});
    } else if (s.owner == foreign_owner) {
      t.owner = nobody;
      go(t, {"the foreign client deletes the lock"});
    }
  }

  template <class Go>
  void tick(State const& s, Go const& go) const {
    bool alive = false;
    bool waiting = false;
    for (int i = 0; i < s_.clients; ++i) {
      auto const& c = s.clients[i];
      bool const settles = c.phase == leaving && c.copy != 0 && c.doubt != 0;
      bool const urgent = c.phase == asking || c.phase == minting || c.phase == unread || c.phase == told_busy || c.phase == served ||
                          c.phase == popped || (c.phase == leaving && !settles);
      bool const nudges = is_waiting(c) && c.nudge == 0 && s_.flaw != Flaw::no_nudge;
      if (!s_.pauses && (urgent || nudges)) return;
      alive = alive || (c.phase != out && c.phase != done && c.phase != dead);
      waiting = waiting || is_waiting(c);
    }
    State t = s;
    bool held = s.owner == foreign_owner;
    for (int i = 0; i < s_.clients; ++i) {
      auto& c = t.clients[i];
      if (c.valid > 0) --c.valid;
      if (c.nudge > 0) --c.nudge;
      if (c.doubt > 0) --c.doubt;
      if (!s_.pauses && c.phase == holding && s.owner == token_of(s, i)) {
        held = true;
        t.lease = byte(s_.ttl + 1);  // renewed in time
      }
    }
    if (t.lease > 0 && --t.lease == 0) t.owner = nobody;
    if (t.waits > 0) --t.waits;
    t.idle = waiting && !held && !s_.pauses ? byte(std::min(s.idle + 1, 100)) : std::uint8_t{0};
    t.quiet = alive || s_.pauses ? std::uint8_t{0} : byte(std::min(s.quiet + 1, 20));
    if (std::memcmp(&t, &s, sizeof t) != 0) go(t, {"a tick"});
  }

  char const* wrong_with(State const& s) const {
    if (checks(exclusion))
      for (int i = 0; i < s_.clients; ++i)
        if (s.clients[i].phase == holding && (!s_.pauses || s.clients[i].valid > 0) && s.owner != token_of(s, i))
          return "S1: somebody believes to hold the lock who does not";
    if (checks(progress) && s_.idle_bound != 0 && s.idle > s_.idle_bound) return "progress: somebody waits too long for a lock that nobody holds";
    if (checks(leftovers)) {
      bool const over = s.quiet > std::max({s_.ttl, s_.claim, s_.life, s_.third_life});
      if (over && ((s.owner != nobody && s.owner != foreign_owner) || s.waits != 0)) return "leftovers: keys stay when everybody has finished";
      for (int i = 0; i < s_.clients; ++i) {
        auto const& c = s.clients[i];
        bool old = false;
        for (int k = 0; k < s.in_line; ++k) old = old || s.line[k] == byte(i + old_connection);
        if (c.phase == done && c.copy == 0 && c.undo == 0 && c.too_late == 0 && !old && s.breaks_used == 0 && s.owner == token_of(s, i))
          return "leftovers: a token that is done with owns the lock";
      }
    }
    return nullptr;
  }

  Setup s_;
};

}  // namespace

int main(int argc, char** argv) {
  constexpr unsigned safety = exclusion | fences | foreigners;
  constexpr unsigned all = Setup{}.checks;
  using Row = models::Case<HandoffModel>;
  auto const model = [](Setup setup) { return HandoffModel{setup}; };
  std::vector<Row> const cases{
      // timed: exclusion, fences, order, progress, leftovers
      {"timed: 4 clients", model({.clients = 4, .ttl = 5, .idle_bound = 7})},
      {"timed: 4 clients, one dies", model({.clients = 4, .ttl = 5, .crashes = 1, .idle_bound = 12})},
      {"timed: 4 clients, two die", model({.clients = 4, .ttl = 5, .crashes = 2, .idle_bound = 16}), nullptr, false},
      {"timed: 5 clients", model({.clients = 5, .ttl = 5, .idle_bound = 9}), nullptr, false},
      {"timed: 5 clients, one dies", model({.clients = 5, .ttl = 5, .crashes = 1, .idle_bound = 14}), nullptr, false},
      {"timed: 3 clients, a foreign one twice, one dies", model({.ttl = 5, .crashes = 1, .foreign = 2, .idle_bound = 16})},
      {"timed: 3 clients, two lost answers or late copies, one dies", model({.crashes = 1, .copies = 2, .idle_bound = 16}), nullptr, false},
      {"timed: 3 clients, a broken connection, one dies", model({.crashes = 1, .breaks = 1, .idle_bound = 14})},
      {"timed: 3 clients, two broken connections, one late copy", model({.copies = 1, .breaks = 2, .idle_bound = 16}), nullptr, false},
      {"timed: 4 clients, two only try, one dies", model({.clients = 4, .crashes = 1, .tries = 2, .idle_bound = 12})},
      {"timed: 3 clients come again with a fresh token, one late copy", model({.copies = 1, .again = true, .idle_bound = 14}), nullptr, false},
      // pauses: exclusion and fences alone
      {"pauses: 3 clients, one dies", model({.ttl = 2, .claim = 1, .brief = 1, .life = 3, .pauses = true, .crashes = 1, .checks = safety})},
      {"pauses: 3 clients, a lost answer or late copy", model({.ttl = 2, .claim = 1, .brief = 1, .life = 2, .pauses = true, .copies = 1, .checks = safety}), nullptr, false},
      {"pauses: 3 clients, a broken connection, a foreign one",
       model({.ttl = 2, .claim = 1, .brief = 1, .life = 2, .pauses = true, .foreign = 1, .breaks = 1, .checks = safety}), nullptr, false},
      {"pauses: 3 clients, the claim longer than the lease, one dies, a late copy",
       model({.ttl = 2, .claim = 3, .brief = 1, .life = 2, .pauses = true, .crashes = 1, .copies = 1, .checks = safety}), nullptr, false},
      {"pauses: 2 clients come again with a fresh token, two late copies",
       model({.clients = 2, .ttl = 3, .claim = 1, .life = 2, .pauses = true, .copies = 2, .again = true, .checks = safety})},
      // wrong
      {"INCR apart from SET NX", model({.clients = 2, .ttl = 2, .pauses = true, .checks = safety, .flaw = Flaw::fence_apart}), "S2"},
      {"KEEP without looking at the owner", model({.clients = 2, .ttl = 2, .pauses = true, .checks = safety, .flaw = Flaw::keep_without_owner}), "S1"},
      {"RELEASE without looking at the owner", model({.ttl = 2, .pauses = true, .checks = safety, .flaw = Flaw::release_without_owner}), "S1"},
      {"a repeated ACQUIRE sets the expiry", model({.clients = 2, .ttl = 3, .pauses = true, .copies = 2, .breaks = 1, .checks = safety, .flaw = Flaw::repeat_shortens}), "S1"},
      {"a repeated ACQUIRE leaves the expiry alone", model({.clients = 2, .ttl = 2, .pauses = true, .copies = 1, .checks = safety, .flaw = Flaw::repeat_leaves_lease}), "S1"},
      {"validity counted from the answer", model({.clients = 2, .ttl = 2, .pauses = true, .checks = safety, .flaw = Flaw::validity_from_answer}), "S1"},
      {"the same token after giving up", model({.clients = 2, .ttl = 3, .pauses = true, .copies = 1, .again = true, .checks = safety, .flaw = Flaw::token_used_again}), "S1"},
      {"a doubtful request is not settled", model({.copies = 1, .checks = all, .flaw = Flaw::not_settled}), "leftovers"},
      {"'somebody waits' overwritten", model({.clients = 4, .third_life = 2, .idle_bound = 30, .flaw = Flaw::wait_overwritten}), "order"},
      {"the same, only lengthened", model({.clients = 4, .third_life = 2, .idle_bound = 30})},
      {"no nudge", model({.crashes = 1, .idle_bound = 30, .checks = progress, .flaw = Flaw::no_nudge}), "progress"},
      {"the nudge compares with the empty value", model({.foreign = 1, .idle_bound = 30, .flaw = Flaw::nudge_compares_empty}), "a foreign lock"},
      {"a waiter renews its pop to look", model({.idle_bound = 30, .flaw = Flaw::pop_renewed}), "order"},
      {"'*' without the bound in time", model({.clients = 4, .idle_bound = 30, .flaw = Flaw::claim_without_bound}), "order"},
      {"a claim behind a timed-out pop takes a free lock", model({.clients = 4, .crashes = 1, .idle_bound = 30, .flaw = Flaw::timed_out_claim_takes}), "order"},
  };
  return models::run_cases(cases, argc, argv, "longest without a holder:");
}
