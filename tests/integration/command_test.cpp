// SPDX-License-Identifier: MIT
// The command `mortise` as people run it: its output, its exit codes, what its child gets, and what is left afterwards.
#if defined(MORTISE_COMMAND)  // its path; absent where the examples are not built

#include "support/catch.hpp"
#include "support/processes.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <mortise/mortise.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace std::chrono_literals;
using support::ChildProcess;
using support::ExitStatus;
using support::RedisServer;
using support::wait_until;

namespace {

using Words = std::vector<std::string>;

/// The command, in a session of its own: without a terminal, whoever runs the tests.
support::Program command(Words arguments, std::string const& uri, bool with_errors = true) {
  arguments.insert(arguments.begin(), MORTISE_COMMAND);
  return {.path = "setsid", .arguments = arguments, .environment = {{"MORTISE_REDIS", uri}}, .with_errors = with_errors};
}

struct Outcome {
  ExitStatus status{};
  std::string output{};
};

/// Runs it to its end.
Outcome outcome(Words const& arguments, std::string const& uri, bool with_errors = true) {
  ChildProcess process{command(arguments, uri, with_errors)};
  auto output = process.channel().read_all();
  auto const status = process.wait();
  REQUIRE(status);
  return {*status, std::move(output)};
}

Words run(Words const& options, Words const& words) {
  Words all{"run"};
  all.insert(all.end(), options.begin(), options.end());
  all.emplace_back("--");
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Words shell(std::string const& script) { return {"sh", "-c", script}; }

bool exists(RedisServer& redis, std::string const& key) { return redis.command({"EXISTS", key}).integer == 1; }

bool alive(std::string const& pid) {
  std::ifstream status{"/proc/" + pid + "/stat"};
  std::string text;
  std::getline(status, text);
  auto const state = text.rfind(") ");
  return state != std::string::npos && text[state + 2] != 'Z';
}

/// Runs the command on a terminal of its own, as its foreground job.
class Terminal {
 public:
  explicit Terminal(Words const& words) : master_{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)} {
    REQUIRE(master_.get() >= 0);
    REQUIRE(::grantpt(master_.get()) == 0);
    REQUIRE(::unlockpt(master_.get()) == 0);
    std::array<char, 64> path{};
    REQUIRE(::ptsname_r(master_.get(), path.data(), path.size()) == 0);
    process_.emplace([&] {
      ::setsid();
      int const slave = ::open(path.data(), O_RDWR);
      ::ioctl(slave, TIOCSCTTY, 0);
      for (int const fd : {0, 1, 2}) ::dup2(slave, fd);
      std::vector<char*> argv;
      for (auto const& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execv(argv.front(), argv.data());
      return 99;
    });
  }

  void type(std::string const& keys) { REQUIRE(::write(master_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size())); }

  /// Reads until `text` was shown.
  bool shows(std::string const& text) {
    return wait_until([&] {
      std::array<char, 512> bytes{};
      ::fcntl(master_.get(), F_SETFL, O_NONBLOCK);
      if (auto const count = ::read(master_.get(), bytes.data(), bytes.size()); count > 0)
        shown_.append(bytes.data(), static_cast<std::size_t>(count));
      return shown_.find(text) != std::string::npos;
    });
  }
  std::string const& shown() const { return shown_; }
  ChildProcess& process() { return *process_; }

 private:
  support::Descriptor master_;
  std::optional<ChildProcess> process_;
  std::string shown_;
};

}  // namespace

TEST_CASE("a command runs under the lock, knows its name and fence, and leaves the lock free") {
  RedisServer redis;
  ChildProcess process{command(run({"job"}, shell("echo $MORTISE_NAME $MORTISE_FENCE; read line")), redis.uri())};
  auto const told = process.read_line();
  CHECK_THAT(redis.command({"GET", "job"}).text, support::matches(".+:[0-9]+#[0-9a-f]{32}"));
  CHECK(told.value_or("") == "job " + redis.command({"GET", "{job}:~fence"}).text);
  process.send_line("end");
  CHECK(process.wait() == ExitStatus::exited(0));
  CHECK_FALSE(exists(redis, "job"));
}

TEST_CASE("the exit code is the command's own, and what a shell shows for a signal or a command that cannot start") {
  RedisServer redis;
  CHECK(outcome(run({"job"}, shell("exit 7")), redis.uri()).status == ExitStatus::exited(7));
  CHECK(outcome(run({"job"}, shell("exit 76")), redis.uri()).output.empty());
  CHECK(outcome(run({"job"}, shell("kill -KILL $$")), redis.uri()).status == ExitStatus::exited(128 + SIGKILL));
  auto const missing = outcome(run({"job"}, {"no-such-command-anywhere"}), redis.uri());
  CHECK(missing.status == ExitStatus::exited(127));
  CHECK_THAT(missing.output, support::matches("mortise: cannot run \"no-such-command-anywhere\": .*\n"));
  CHECK(outcome(run({"job"}, {"/etc/passwd"}), redis.uri()).status == ExitStatus::exited(126));
  CHECK(redis.command({"EXISTS", "job"}).integer == 0);
}

TEST_CASE("a lock that somebody else holds is exit code 75, at once or after the wait") {
  RedisServer redis;
  redis.command({"SET", "job", "somebody", "PX", "600000"});
  auto const began = support::Clock::now();
  for (Words const& options : {Words{"job"}, Words{"job", "--wait", "100ms"}, Words{"--wait=0s", "job"}}) {
    auto const result = outcome(run(options, {"echo", "ran"}), redis.uri());
    CHECK(result.status == ExitStatus::exited(75));
    CHECK(result.output == "mortise: \"job\" is held by somebody else\n");
  }
  CHECK(support::Clock::now() - began >= 100ms);
  CHECK(redis.command({"GET", "job"}).text == "somebody");
}

TEST_CASE("runs that wait get the lock in turn, each with a higher fence") {
  RedisServer redis;
  ChildProcess first{command(run({"job"}, shell("echo $MORTISE_FENCE; read line")), redis.uri())};
  auto const first_fence = first.read_line();
  REQUIRE(first_fence);
  ChildProcess second{command(run({"job", "--wait", "forever"}, shell("echo $MORTISE_FENCE")), redis.uri())};
  REQUIRE(wait_until([&] { return exists(redis, "{job}:~wait"); }));
  CHECK(second.alive());
  first.send_line("end");
  CHECK(first.wait() == ExitStatus::exited(0));
  auto const second_fence = second.read_line();
  REQUIRE(second_fence);
  CHECK(std::stoull(*second_fence) > std::stoull(*first_fence));
  CHECK(second.wait() == ExitStatus::exited(0));
}

TEST_CASE("an unreachable Redis is exit code 69, told in one line without the password") {
  for (Words const& options : {Words{"job"}, Words{"job", "--wait", "50ms"}}) {
    auto const result = outcome(run(options, {"true"}), "redis://:geheim@127.0.0.1:1");
    CHECK(result.status == ExitStatus::exited(69));
    CHECK_THAT(result.output, support::starts_with("mortise: ") && support::ends_with("\n") && !support::contains("geheim"));
    CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
  }
  CHECK(outcome({"status", "job"}, "redis://127.0.0.1:1").status == ExitStatus::exited(69));
  CHECK(outcome({"break", "job"}, "redis://127.0.0.1:1").status == ExitStatus::exited(69));
}

TEST_CASE("a wrong command line is exit code 64, told in one line, and nothing runs") {
  for (Words const& words : std::vector<Words>{{},
                                               {"walk", "job"},
                                               {"run"},
                                               {"run", "job"},
                                               {"run", "job", "--"},
                                               {"run", "--", "true"},
                                               {"run", "job", "job2", "--", "true"},
                                               {"run", "job", "--ttl", "10", "--", "true"},
                                               {"run", "job", "--ttl", "0s", "--", "true"},
                                               {"run", "job", "--wait", "-1s", "--", "true"},
                                               {"run", "job", "--wait"},
                                               {"run", "job", "--json", "--", "true"},
                                               {"run", "", "--", "true"},
                                               {"run", "job", "--redis", "http://x", "--", "true"},
                                               {"status"},
                                               {"status", "job", "--ttl", "1s"},
                                               {"status", "job", "--", "true"},
                                               {"break", "job:~fence"}}) {
    auto const result = outcome(words, "redis://127.0.0.1:1");
    CAPTURE(words);
    CHECK(result.status == ExitStatus::exited(64));
    CHECK_THAT(result.output, support::starts_with("mortise: "));
    CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
  }
  CHECK_THAT(outcome({"--help"}, "").output, support::contains("mortise run NAME") && support::contains("mortise break NAME"));
  CHECK_THAT(outcome({"--version"}, "").output, support::matches("mortise [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_CASE("a signal to the run is passed on to all that the command started, and the lock is released after its end") {
  RedisServer redis;
  int const number = GENERATE(SIGTERM, SIGINT, SIGHUP);
  auto const script = "sleep 600 & echo $!; trap 'echo caught; read line; exit 5' HUP INT TERM; echo ready; while :; do wait; done";
  ChildProcess process{command(run({"job"}, {"bash", "-c", script}), redis.uri())};
  auto const sleeper = process.read_line();
  REQUIRE(sleeper);
  REQUIRE(process.read_line() == "ready");
  process.signal(number);
  CHECK(process.read_line() == "caught");
  CHECK(exists(redis, "job"));  // the lock stands as long as the command runs
  process.send_line("end");
  CHECK(process.wait() == ExitStatus::exited(5));
  CHECK_FALSE(exists(redis, "job"));
  if (number != SIGINT) CHECK(wait_until([&] { return !alive(*sleeper); }));  // a shell's background job ignores SIGINT
}

TEST_CASE("a signal ends the wait for the lock, and leaves the holder and no trace of the waiter") {
  RedisServer redis;
  redis.command({"SET", "job", "somebody", "PX", "600000"});
  auto const wait = GENERATE("forever", "10m");
  ChildProcess process{command(run({"job", "--wait", wait}, {"echo", "ran"}), redis.uri())};
  REQUIRE(wait_until([&] { return exists(redis, "{job}:~wait"); }));
  process.signal(SIGTERM);
  CHECK(process.wait() == ExitStatus::exited(128 + SIGTERM));
  CHECK(process.channel().read_all().empty());
  CHECK(redis.command({"GET", "job"}).text == "somebody");
  CHECK(wait_until([&] { return redis.client_list().empty(); }));
}

TEST_CASE("when the lease is lost, all that the command started gets SIGTERM, and exit code 76 tells") {
  RedisServer redis;
  ChildProcess process{command(run({"job", "--ttl", "300ms"}, shell("sleep 600 & echo $!; wait")), redis.uri())};
  auto const sleeper = process.read_line();
  REQUIRE(sleeper);
  redis.command({"SET", "job", "an usurper"});
  CHECK_THAT(process.read_line().value_or(""), support::matches("mortise: lost the lock \"job\": the command gets SIGTERM.*"));
  CHECK(process.wait() == ExitStatus::exited(76));
  CHECK_FALSE(alive(*sleeper));
  CHECK(redis.command({"GET", "job"}).text == "an usurper");
}

TEST_CASE("when the lease is lost, a command that ignores SIGTERM is killed after the grace, its descendants too") {
  RedisServer redis;
  auto const own_end = GENERATE(false, true);  // the shell itself may obey, and leave somebody behind who does not
  auto const script = std::string{"(trap '' TERM; exec sleep 600) & echo $!; "} + (own_end ? "" : "trap '' TERM; ") + "wait; wait";
  ChildProcess process{command(run({"job", "--ttl", "300ms", "--grace", "200ms"}, {"bash", "-c", script}), redis.uri())};
  auto const sleeper = process.read_line();
  REQUIRE(sleeper);
  redis.command({"DEL", "job"});
  CHECK(process.wait() == ExitStatus::exited(76));
  CHECK(wait_until([&] { return !alive(*sleeper); }));
}

TEST_CASE("a stopped command is woken to be told of the loss") {
  RedisServer redis;
  ChildProcess process{command(run({"job", "--ttl", "300ms", "--grace", "10m"}, shell("echo $$; kill -STOP $$")), redis.uri())};
  REQUIRE(process.read_line());
  redis.command({"DEL", "job"});
  CHECK(process.wait() == ExitStatus::exited(76));
}

TEST_CASE("a loss is dealt with although nobody reads the message any more") {
  RedisServer redis;
  auto const script = "trap '' TERM; echo ready; while :; do sleep 1; done";
  ChildProcess process{command(run({"job", "--ttl", "300ms", "--grace", "100ms"}, shell(script)), redis.uri())};
  REQUIRE(process.read_line() == "ready");
  process.channel().close();
  redis.command({"DEL", "job"});
  CHECK(process.wait() == ExitStatus::exited(76));
}

TEST_CASE("a Redis that stays away costs the lease, and the command is stopped in time") {
  RedisServer redis;
  ChildProcess process{command(run({"job", "--ttl", "500ms"}, shell("echo ready; exec sleep 600")), redis.uri())};
  REQUIRE(process.read_line() == "ready");
  redis.freeze();
  CHECK(process.wait() == ExitStatus::exited(76));
}

TEST_CASE("a lock that was taken away without notice is told at the command's end") {
  RedisServer redis;
  ChildProcess process{command(run({"job", "--ttl", "10m"}, shell("echo ready; read line; exit 3")), redis.uri())};
  REQUIRE(process.read_line() == "ready");
  redis.command({"SET", "job", "an usurper"});
  process.send_line("end");
  CHECK(process.wait() == ExitStatus::exited(76));
  CHECK_THAT(process.channel().read_all(), support::contains("exit code 3"));
  CHECK(redis.command({"GET", "job"}).text == "an usurper");
}

TEST_CASE("a run that was frozen past its TTL finds itself lost, and harms nobody's lock") {
  RedisServer redis;
  ChildProcess first{command(run({"job", "--ttl", "300ms"}, shell("echo ready; exec sleep 600")), redis.uri())};
  REQUIRE(first.read_line() == "ready");
  first.freeze();
  ChildProcess second{command(run({"job", "--wait", "forever"}, shell("echo ready; read line")), redis.uri())};
  REQUIRE(second.read_line() == "ready");
  auto const owner = redis.command({"GET", "job"}).text;
  first.thaw();
  CHECK(first.wait() == ExitStatus::exited(76));
  CHECK(redis.command({"GET", "job"}).text == owner);
  second.send_line("end");
  CHECK(second.wait() == ExitStatus::exited(0));
}

#if defined(__linux__)
TEST_CASE("a run that is killed takes its command with it, while its lease runs out") {
  RedisServer redis;
  ChildProcess process{command(run({"job", "--ttl", "2s"}, shell("echo $$; exec sleep 600")), redis.uri())};
  auto const child = process.read_line();
  REQUIRE(child);
  process.kill();
  CHECK(wait_until([&] { return !alive(*child); }));
  CHECK(wait_until([&] { return !exists(redis, "job"); }));
}

TEST_CASE("the command gets the signals, the standard streams and nothing else of ours") {
  RedisServer redis;
  ChildProcess process{command(run({"job"}, shell("sed -n '/^Sig[BIC]/p' /proc/self/status; ls /proc/self/fd; cat")), redis.uri())};
  process.send_line("through");
  process.channel().close_writing();
  // `ls` itself opens the directory as 3.
  CHECK(process.channel().read_all() ==
        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n0\n1\n2\n3\nthrough\n");
  CHECK(process.wait() == ExitStatus::exited(0));
}

TEST_CASE("a signal that was ignored or blocked before, as by nohup, stays so") {
  RedisServer redis;
  auto program = command(run({"job"}, {"sed", "-u", "-n", "/^Sig[BI]/p", "/proc/self/status", "-"}), redis.uri());
  program.arguments.insert(program.arguments.begin(), {"env", "--ignore-signal=HUP", "--ignore-signal=CHLD", "--block-signal=USR1"});
  ChildProcess process{program};
  CHECK(process.read_line().value_or("") == "SigBlk:\t0000000000000200");
  CHECK(process.read_line().value_or("") == "SigIgn:\t0000000000010001");
  process.signal(SIGHUP);
  process.channel().close_writing();
  CHECK(process.wait() == ExitStatus::exited(0));
}
#endif

TEST_CASE("under a terminal the command stays in the foreground job and gets Ctrl-C once") {
  RedisServer redis;
  auto const script = "trap 'echo caught; count=x$count' INT; echo ready; read line; read line; echo end $count";
  Terminal terminal{{MORTISE_COMMAND, "run", "job", "--redis", redis.uri(), "--", "bash", "-c", script}};
  REQUIRE(terminal.shows("ready"));
  terminal.type("\x03");
  REQUIRE(terminal.shows("caught"));
  terminal.type("one\ntwo\nthree\n");
  CHECK(terminal.shows("end x\r\n"));
  CHECK(terminal.process().wait() == ExitStatus::exited(0));
}

TEST_CASE("status tells free, held, reserved and waited for, by text, JSON and exit code") {
  RedisServer redis;
  auto const look = [&](Words const& options = {}) {
    Words words{"status", "job"};
    words.insert(words.end(), options.begin(), options.end());
    return outcome(words, redis.uri());
  };
  CHECK(look().output == "\"job\" is free, nobody waits\n");
  CHECK(look().status == ExitStatus::exited(0));
  CHECK(look({"--json"}).output ==
        "{\"name\":\"job\",\"state\":\"free\",\"holder\":null,\"fence\":null,\"last_fence\":null,\"ttl_ms\":null,\"waiters\":false}\n");

  ChildProcess process{command(run({"job", "--ttl", "1h"}, shell("echo $MORTISE_FENCE; read line")), redis.uri())};
  auto const fence = process.read_line();
  REQUIRE(fence);
  auto const secret = redis.command({"GET", "job"}).text;
  auto const label = secret.substr(0, secret.find('#'));
  CHECK_THAT(look().output, support::matches("\"job\" is held by " + label + ", fence " + *fence +
                                             ", for another 3[0-9]{6}ms, nobody waits\n"));
  CHECK(look().status == ExitStatus::exited(1));
  CHECK_THAT(look({"--json"}).output,
             support::matches("\\{\"name\":\"job\",\"state\":\"held\",\"holder\":\"" + label + "\",\"fence\":" + *fence +
                              ",\"last_fence\":" + *fence + ",\"ttl_ms\":3[0-9]{6},\"waiters\":false\\}\n"));

  ChildProcess waiter{command(run({"job", "--wait", "forever"}, {"true"}), redis.uri())};
  REQUIRE(wait_until([&] { return exists(redis, "{job}:~wait"); }));
  CHECK_THAT(look().output, support::ends_with(", waited for\n"));
  process.send_line("end");
  CHECK(waiter.wait() == ExitStatus::exited(0));

  redis.command({"SET", "job", "h:" + *fence, "PX", "600000"});
  CHECK_THAT(look().output, support::starts_with("\"job\" is reserved for the waiter whose turn it is, last fence "));
  CHECK(look().status == ExitStatus::exited(1));
}

TEST_CASE("status never shows what another client stored, nor lets a name write to the terminal") {
  RedisServer redis;
  redis.command({"SET", "a\nb\x1b", "their secret"});
  auto const text = outcome({"status", "a\nb\x1b"}, redis.uri());
  CHECK(text.output == "\"a\\x0ab\\x1b\" is held by another client, without expiry, nobody waits\n");
  auto const json = outcome({"status", "--json", "a\nb\x1b"}, redis.uri());
  CHECK(json.output == "{\"name\":\"a\\u000ab\\u001b\",\"state\":\"held\",\"holder\":\"another client\",\"fence\":null,"
                       "\"last_fence\":null,\"ttl_ms\":null,\"waiters\":false}\n");
  redis.command({"RPUSH", "list", "x"});
  CHECK(outcome({"status", "list"}, redis.uri()).status == ExitStatus::exited(69));
}

TEST_CASE("break releases the lock in the holder's place and lets the first waiter in") {
  RedisServer redis;
  ChildProcess holder{command(run({"job", "--ttl", "10m"}, shell("echo $MORTISE_FENCE; read line")), redis.uri())};
  REQUIRE(holder.read_line());
  auto const secret = redis.command({"GET", "job"}).text;
  ChildProcess waiter{command(run({"job", "--wait", "forever"}, shell("echo in; read line")), redis.uri())};
  REQUIRE(wait_until([&] { return exists(redis, "{job}:~wait"); }));

  auto const broken = outcome({"break", "job"}, redis.uri());
  CHECK(broken.status == ExitStatus::exited(0));
  CHECK_THAT(broken.output, support::matches("\"job\" is released in the place of " + secret.substr(0, secret.find('#')) +
                                             ", last fence [0-9]+; reserved for the first waiter\n"));
  CHECK(waiter.read_line() == "in");
  holder.send_line("end");
  CHECK(holder.wait() == ExitStatus::exited(76));
  waiter.send_line("end");
  CHECK(waiter.wait() == ExitStatus::exited(0));
}

TEST_CASE("break also frees what another client holds, and leaves a free or reserved lock alone") {
  RedisServer redis;
  CHECK(outcome({"break", "job"}, redis.uri()).output == "\"job\" is free: nothing to break\n");
  redis.command({"SET", "job", "their secret"});
  auto const broken = outcome({"break", "job"}, redis.uri());
  CHECK(broken.output == "\"job\" is released in the place of another client\n");
  CHECK(broken.status == ExitStatus::exited(0));
  CHECK_FALSE(exists(redis, "job"));

  redis.command({"SET", "job", "h:1", "PX", "600000"});
  auto const reserved = outcome({"break", "job"}, redis.uri());
  CHECK(reserved.status == ExitStatus::exited(1));
  CHECK_THAT(reserved.output, support::contains("left alone"));
  CHECK(redis.command({"GET", "job"}).text == "h:1");
}

TEST_CASE("status of a shared lock or a semaphore tells what it is and who is in") {
  RedisServer redis;
  mortise::Client client{redis.uri(), {.client_name = "billing"}};
  mortise::SharedLock table{client, "table", {.ttl = 1h}};
  auto const status = [&](Words words) {
    words.insert(words.begin(), "status");
    return outcome(words, redis.uri());
  };
  auto writer = table.try_acquire();
  REQUIRE(writer);
  auto const fence = std::to_string(writer->fence().value);
  CHECK_THAT(status({"table"}).output, support::matches("\"table\" is a shared lock held by 1 writer \\(billing\\), last fence " + fence +
                                                        ", for another 3[0-9]{6}ms, nobody waits\n"));
  CHECK(status({"table"}).status == ExitStatus::exited(1));
  REQUIRE(writer->release());
  CHECK(status({"table"}).output == "\"table\" is free, last fence " + fence + ", nobody waits\n");

  mortise::Semaphore slots{client, "slots", 3, {.ttl = 1h}};
  auto const first = slots.try_acquire(), second = slots.try_acquire();
  CHECK_THAT(status({"slots"}).output, support::starts_with("\"slots\" is a semaphore of 3 with 2 permits (billing, billing) taken, last fence "));
  CHECK_THAT(status({"slots", "--json"}).output,
             support::matches("\\{\"name\":\"slots\",\"state\":\"held\",\"holder\":null,\"fence\":null,\"last_fence\":[0-9]+,\"ttl_ms\":3[0-9]{6},"
                              "\"waiters\":false,\"room\":\\{\"kind\":\"semaphore\",\"permits\":3,\"count\":2,\"holders\":\\["
                              "(,?\\{\"as\":\"permit\",\"holder\":\"billing\",\"ttl_ms\":3[0-9]{6}\\}){2}\\]\\}\\}\n"));

  redis.command({"ZADD", "scores", "1", "somebody"});
  for (auto const* const verb : {"status", "break"}) CHECK(outcome({verb, "scores"}, redis.uri()).status == ExitStatus::exited(69));
  CHECK(exists(redis, "scores"));
}

TEST_CASE("break releases a shared lock or a semaphore in the place of all who are in, and lets the first waiter in") {
  RedisServer redis;
  mortise::Client client{redis.uri(), {.client_name = "billing"}};
  mortise::SharedLock table{client, "table", {.ttl = 1h}};
  auto first = table.try_acquire_shared(), second = table.try_acquire_shared();
  support::Waiting writer{[&] { return table.acquire_for(1min); }};
  REQUIRE(wait_until([&] { return exists(redis, "{table}:~queue"); }));
  CHECK_THAT(outcome({"status", "table"}, redis.uri()).output, support::ends_with(", waited for\n"));
  auto const broken = outcome({"break", "table"}, redis.uri());
  CHECK_THAT(broken.output, support::matches("\"table\" is released in the place of 2 readers \\(billing, billing\\)\n"));
  CHECK(broken.status == ExitStatus::exited(0));
  CHECK(writer.get());
  CHECK_FALSE(first->confirm());
  CHECK_FALSE(second->confirm());

  mortise::Semaphore slots{client, "slots", 1};
  auto slot = slots.try_acquire();
  CHECK(outcome({"break", "slots"}, redis.uri()).output == "\"slots\" is released in the place of 1 permit (billing)\n");
  CHECK_FALSE(slot->release());
  CHECK(slots.try_acquire());
}

#endif
